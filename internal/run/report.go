package run

import (
	"bourn"
	"bourn/internal/policy"
)

// A Report is the plan as it was carried out, or while nothing runs as it is recorded.
type Report struct {
	Agent   bourn.AgentName `json:"agent"`
	Run     string          `json:"run,omitempty"`
	Parent  string          `json:"parent,omitempty"` // the run that it works for
	Sandbox policy.Sandbox  `json:"sandbox"`
	Drift   bool            `json:"drift"` // the profile has changed since the seal
	Items   []policy.Item   `json:"items"`

	Refusals []Refusal `json:"refusals,omitempty"` // once the run has ended
	NotKept  int       `json:"refusals_not_kept,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // what appeared or changed during the run

	Generation string `json:"generation,omitempty"`
	Running    int    `json:"running,omitempty"` // how many runs of the agent live
}

// report turns a record into a report.
func (r Record) report() Report {
	return Report{Agent: r.Agent, Run: r.Run, Parent: r.Parent, Sandbox: r.Sandbox, Items: r.Items, Generation: r.Generation}
}

// Listed returns the report of an agent: that of its newest live run, or the profile as
// recorded while nothing runs. Where a record cannot be read the state is unknown, and
// nothing is shown as enforced.
func (h *Home) Listed(name bourn.AgentName, cwd string) (Report, error) {
	p, planErr := h.Prepare(Options{Agent: name, Cwd: cwd})
	live, unreadable, err := h.Live(name)
	if err != nil {
		return Report{}, err
	}
	if len(live) > 0 {
		r := live[0].report()
		r.Running = len(live)
		r.Drift = planErr != nil || p.Digest != live[0].ProfileDigest
		return r, nil
	}
	if planErr != nil {
		return Report{}, planErr
	}
	state := policy.Sandbox{State: policy.StateNotRunning}
	if unreadable != nil {
		state.State = policy.StateUnknown
	}
	return Report{Agent: name, Sandbox: state, Items: policy.AsRecorded(p.Items)}, nil
}
