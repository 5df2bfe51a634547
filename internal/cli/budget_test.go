package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBudget(t *testing.T) {
	tests := []struct {
		lines, want []string
		n           int
	}{
		{nil, nil, 3},
		{[]string{"a", "b", "c"}, []string{"a", "b", "c"}, 3},
		{[]string{"a", "b", "c", "d"}, []string{"a", "b", "c; 1 more to know (bourn plan shows it)"}, 3},
		{[]string{"a", "b", "c", "d"}, []string{"a; 3 more to know (bourn plan shows it)"}, 1},
		{[]string{"a"}, nil, 0},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, budget(tt.lines, tt.n)); diff != "" {
			t.Errorf("budget(%q, %d) (-want +got):\n%s", tt.lines, tt.n, diff)
		}
	}
}
