package tool

import (
	"testing"

	"bourn/internal/tool/tier"

	"github.com/google/go-cmp/cmp"
)

// TestTiers holds the light table against the tools.
func TestTiers(t *testing.T) {
	var want []tier.Tool
	for _, tool := range All() {
		want = append(want, tier.Tool{Name: tool.Name, Tier: tool.Tier})
	}
	if diff := cmp.Diff(want, tier.Tools()); diff != "" {
		t.Errorf("(-tools +table):\n%s", diff)
	}
}
