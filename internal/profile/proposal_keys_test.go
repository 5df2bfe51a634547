package profile

import "testing"

// Each key of a profile is one of a proposal, or is refused there with its reason.
func TestProposalKnowsEveryKey(t *testing.T) {
	var compare func(where string, of, in []key)
	compare = func(where string, of, in []key) {
		for _, row := range of {
			name := dotted(where, row.name)
			other := find(in, row.name)
			switch {
			case other == nil:
				t.Errorf("a proposal does not know %s", name)
			case other.keys != nil:
				compare(name, row.keys, other.keys)
			}
		}
	}
	compare("", schema, proposalSchema)
}
