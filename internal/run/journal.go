package run

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/launch"
	"bourn/internal/policy"
)

// What runs and their grants come to is noted in $BOURN_HOME, from where the control plane
// takes it into the log. The note is made before what it is about; what cannot be noted is
// not done.

// note adds entries to the journal.
func (h *Home) note(entries ...audit.Entry) error {
	if h.logged {
		return nil
	}
	if err := audit.Note(audit.JournalPath(h.Dir), entries...); err != nil {
		return bourn.WithHint(fmt.Errorf("%w: %w", bourn.ErrUnavailable, err),
			"nothing is done that is not noted: make room where "+h.Dir+" is, and see that you can write there")
	}
	return nil
}

// starter is how the journal calls who starts bourn.
func starter() string { return fmt.Sprintf("uid:%d", os.Getuid()) }

// noteChange notes what is about to change of an agent, or of what is accepted. Text is the
// new one, nil for none.
func (h *Home) noteChange(agent bourn.AgentName, what, target string, text []byte) error {
	e := audit.Entry{Kind: audit.KindChange, Who: starter(), Agent: string(agent), What: what, Target: target, Outcome: audit.Allowed}
	if text != nil {
		e.Digest = digest(text)
	}
	return h.note(e)
}

// said is a change as the journal has it: each entry that comes and goes.
func (c Change) said() string {
	var parts []string
	for _, e := range c.Added {
		parts = append(parts, "+"+string(e.List)+" "+e.said())
	}
	for _, e := range c.Removed {
		parts = append(parts, "-"+string(e.List)+" "+e.said())
	}
	return strings.Join(parts, ", ")
}

// said is an entry in a few words.
func (e Entry) said() string {
	return strings.TrimRight(e.Path+" "+e.Policy+" "+e.Tier, " ")
}

// noted is what the journal has of a run.
type noted struct {
	begun string // the entry of its start, "" for none
	at    time.Time
}

// runDetail is what an entry says of a run besides.
type runDetail struct {
	State      policy.State `json:"state,omitempty"`
	Backend    string       `json:"backend,omitempty"`
	Generation string       `json:"generation,omitempty"`
	Boundaries int64        `json:"boundaries,omitempty"` // the version of the hard blocks
	Enforced   int          `json:"enforced,omitempty"`
	Dropped    int          `json:"dropped,omitempty"`
	Status     int          `json:"status,omitempty"`
	Signal     string       `json:"signal,omitempty"`
	Refused    int          `json:"refused,omitempty"` // distinct refusals
	Parent     string       `json:"parent,omitempty"`  // the run that it works for
}

func detail(d runDetail) json.RawMessage {
	text, err := json.Marshal(d)
	if err != nil {
		return nil
	}
	return text
}

// entry begins an entry about the run.
func (r *runner) entry(kind audit.Kind, what string) audit.Entry {
	e := audit.Entry{Kind: kind, Who: starter(), Agent: string(r.Options.Agent), Run: r.id, What: what}
	if kind != audit.KindRun && e.Agent != "" {
		e.Who = "agent:" + e.Agent
	}
	return e
}

// noteStart notes that the run starts. Of the command only the program is named: arguments
// may hold secrets.
func (r *runner) noteStart(rep Report) error {
	e := r.entry(audit.KindRun, "run started")
	e.ID, e.Outcome, e.Digest = audit.NewID(), audit.Allowed, r.Digest
	if r.sandbox.State == policy.StateAdvisory {
		e.What = "run started without a kernel sandbox"
	}
	if len(r.Plan.Command) > 0 {
		e.Target = r.Plan.Command[0]
	}
	d := runDetail{State: rep.Sandbox.State, Backend: rep.Sandbox.Backend, Generation: rep.Generation, Boundaries: r.Boundaries, Parent: r.parent()}
	for i := range rep.Items {
		switch rep.Items[i].Fate {
		case policy.Enforced:
			d.Enforced++
		case policy.Dropped:
			d.Dropped++
		case policy.Recorded:
		}
	}
	e.Detail = detail(d)
	if err := r.home.note(e); err != nil {
		return err
	}
	r.noted = noted{begun: e.ID, at: time.Now()}
	return nil
}

// maxNoted bounds the refusals of one run that are entries of their own.
const maxNoted = 200

// noteEnd notes what was refused, and how the run ended. Failed is why it did not start.
func (r *runner) noteEnd(result launch.Result, refused []Refusal, more int, failed error) error {
	if r.noted.begun == "" {
		return nil
	}
	var all []audit.Entry
	for i, no := range refused {
		if i == maxNoted {
			more += len(refused) - maxNoted
			break
		}
		e := r.entry(audit.KindAction, string(no.Operation))
		e.Target, e.Reason, e.Outcome, e.Repeated = no.Target, no.Reason, audit.Denied, no.Count-1
		all = append(all, e)
	}
	if more > 0 {
		e := r.entry(audit.KindAction, "further refusals")
		e.Outcome, e.Repeated = audit.Denied, more
		all = append(all, e)
	}
	e := r.entry(audit.KindOutcome, "run ended")
	e.Who, e.Of, e.Duration, e.Outcome = starter(), r.noted.begun, time.Since(r.noted.at).Microseconds(), audit.Done
	d := runDetail{Status: result.Status, Refused: len(refused)}
	if result.Signal != 0 {
		d.Signal = fmt.Sprint(result.Signal)
	}
	switch {
	case failed != nil:
		e.Outcome, e.What, e.Reason = audit.Failed, "run not started", failed.Error()
	case result.Status != 0 || result.Signal != 0:
		e.Outcome = audit.Failed
	}
	e.Detail = detail(d)
	return r.home.note(slices.Concat(all, []audit.Entry{e})...)
}
