package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
)

// A BlockFate says what becomes of one operation of a hard block in the runs of an agent.
type BlockFate string

// The fates.
const (
	BlockEnforced BlockFate = "enforced"        // every run that lives keeps it
	BlockNext     BlockFate = "from_next_start" // runs that live, if any, do not keep it yet
	BlockGate     BlockFate = "gate_only"       // no seal keeps it: whoever asks the gate is refused
)

// An AgentBlock is the fate of one operation of a rule for one agent.
type AgentBlock struct {
	Rule      string          `json:"rule"`
	Operation bourn.Operation `json:"operation"`
	Fate      BlockFate       `json:"fate"`
	Target    string          `json:"target"`
	Reason    string          `json:"reason,omitempty"` // of gate only
}

// AgentBlocks are the fates of all rules for one agent.
type AgentBlocks struct {
	Agent   bourn.AgentName `json:"agent"`
	Running int             `json:"running"`           // how many of its runs live
	Unknown string          `json:"unknown,omitempty"` // why nothing can be told
	Blocks  []AgentBlock    `json:"blocks"`
}

// AgentBlocks says of every rule that is published now what becomes of it in an agent's runs.
// A run that lives keeps a rule only if its record has it with the same effect; a record
// that cannot be read is one that keeps nothing.
func (h *Home) AgentBlocks(name bourn.AgentName, cwd string) (AgentBlocks, error) {
	out := AgentBlocks{Agent: name, Blocks: []AgentBlock{}}
	p, err := h.Prepare(Options{Agent: name, Cwd: cwd})
	if err != nil {
		return out, err
	}
	live, unreadable, err := h.Live(name)
	if err != nil {
		return out, err
	}
	published, err := h.Published()
	if err != nil {
		return out, err
	}
	order := map[string]int{}
	for i, r := range published.Rules.HardBlocks {
		order[r.ID] = i
	}
	out.Running = len(live)
	if unreadable != nil {
		out.Unknown = unreadable.Error()
	}
	seen := map[string]int{}
	for _, it := range p.Items {
		if !it.Blocks() {
			continue
		}
		for _, o := range it.Operations {
			b := AgentBlock{Rule: strings.TrimPrefix(it.From, policy.BlockPrefix), Operation: o, Fate: BlockNext, Target: it.Target}
			switch {
			case slices.ContainsFunc(live, func(r Record) bool { return r.Sandbox.State == policy.StateAdvisory }):
				b.Fate, b.Reason = BlockGate, "a run of it goes on without a kernel sandbox (ADVISORY)"
			case it.Fate == policy.Dropped:
				b.Fate, b.Reason = BlockGate, strings.TrimPrefix(it.Reason, policy.GateOnly)
			case len(live) > 0 && unreadable == nil && !slices.ContainsFunc(live, func(r Record) bool { return !r.keeps(it, o) }):
				b.Fate = BlockEnforced
			}
			key := fmt.Sprintf("%q %s", b.Rule, o)
			if i, ok := seen[key]; ok { // another name of the same: the least of both
				out.Blocks[i] = least(out.Blocks[i], b)
				continue
			}
			seen[key] = len(out.Blocks)
			out.Blocks = append(out.Blocks, b)
		}
	}
	slices.SortStableFunc(out.Blocks, func(a, b AgentBlock) int {
		return cmp.Or(cmp.Compare(order[a.Rule], order[b.Rule]), cmp.Compare(slices.Index(bourn.Operations(), a.Operation), slices.Index(bourn.Operations(), b.Operation)))
	})
	return out, nil
}

// keeps reports whether the seal of a run keeps what an item says for an operation.
func (r Record) keeps(want policy.Item, o bourn.Operation) bool {
	return r.Sandbox.State == policy.StateEnforcing && slices.ContainsFunc(r.Items, func(it policy.Item) bool {
		return it.From == want.From && it.Kind == want.Kind && it.Target == want.Target && it.Fate == policy.Enforced && slices.Contains(it.Operations, o)
	})
}

// least returns the one that is kept less.
func least(a, b AgentBlock) AgentBlock {
	rank := []BlockFate{BlockGate, BlockNext, BlockEnforced}
	if slices.Index(rank, b.Fate) < slices.Index(rank, a.Fate) {
		return b
	}
	return a
}
