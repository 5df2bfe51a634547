package operation

import (
	"slices"
	"testing"
)

// What is quoted is one name, and keeps its quotes and commas.
func TestColumns(t *testing.T) {
	for _, test := range []struct{ lists, want []string }{
		{nil, nil},
		{[]string{"a"}, []string{"a"}},
		{[]string{"a,b", "c"}, []string{"a", "b", "c"}},
		{[]string{`amount,"Note"`}, []string{"amount", `"Note"`}},
		{[]string{`"a,b",c`, `"say ""x,y"""`}, []string{`"a,b"`, "c", `"say ""x,y"""`}},
		{[]string{"a,,b,"}, []string{"a", "b"}},
	} {
		if got := columns(test.lists); !slices.Equal(got, test.want) {
			t.Errorf("columns(%q) = %q, want %q", test.lists, got, test.want)
		}
	}
}
