package daemon

import (
	"context"
	"encoding/json"
	"fmt"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/review"
	"bourn/internal/store"
)

// Receipts are a view of the log: for every entry of a run that let an action through, the
// entry of its outcome, where there is one.

// receiptsQuery says which receipts of a run are wanted.
type receiptsQuery struct {
	Run    string `path:"run" maxLength:"100"`
	After  int64  `query:"after" minimum:"0" doc:"receipts after this seq"`
	Most   int    `query:"most" minimum:"1" maximum:"1000" default:"100"`
	Newest bool   `query:"newest" doc:"the newest that fit"`
}

// capabilitiesQuery says what a run is asked about.
type capabilitiesQuery struct {
	Run    string `path:"run" maxLength:"100"`
	Action string `query:"action" enum:"commit" doc:"what the next step is"`
	Path   string `query:"path" maxLength:"4096" doc:"whether this may be written; relative to where the run works"`
}

func (s *server) receiptRoutes() {
	handle(s, operation("receipts", "GET", "/v1/runs/{run}/receipts", "What a run's actions left, in order"), func(ctx context.Context, in *receiptsQuery) (*out[api.Receipts], error) {
		if _, err := s.gate.administrator(ctx, "read receipts"); err != nil {
			return nil, err
		}
		if err := isRun(in.Run); err != nil {
			return nil, err
		}
		s.control.log.settle(ctx)
		all, err := receipts(ctx, s.control.store, in, s.tools.reads)
		return &out[api.Receipts]{api.Receipts{Run: in.Run, Receipts: all}}, err
	})
	handle(s, operation("capabilities", "GET", "/v1/runs/{run}/capabilities", "What a run's workflow may do next"), func(ctx context.Context, in *capabilitiesQuery) (*out[api.Capabilities], error) {
		if _, err := s.gate.administrator(ctx, "read capabilities"); err != nil {
			return nil, err
		}
		if err := isRun(in.Run); err != nil {
			return nil, err
		}
		k, err := s.tools.capabilities(ctx, in)
		return &out[api.Capabilities]{k}, err
	})
}

func isRun(id string) error {
	if !runID().MatchString(id) {
		return fmt.Errorf("%w: that is no run's id", bourn.ErrInvalid)
	}
	return nil
}

// receipts reads the receipts of a run.
func receipts(ctx context.Context, log history, q *receiptsQuery, reads func(tool string) bool) ([]api.Receipt, error) {
	lines, err := log.LogLines(ctx, store.LogFilter{Run: q.Run, After: q.After, Kind: audit.KindAction, Outcome: audit.Allowed, Most: q.Most, Newest: q.Newest})
	all := make([]api.Receipt, 0, len(lines))
	if err != nil || len(lines) == 0 {
		return all, err
	}
	at := map[string]int{} // where in all an entry is, until its outcome is found
	for _, line := range lines {
		var e audit.Entry
		if err := json.Unmarshal(line.Body, &e); err != nil {
			return nil, fmt.Errorf("%w: an entry of the log cannot be read: %w", bourn.ErrInternal, err)
		}
		at[e.ID] = len(all)
		all = append(all, api.Receipt{Seq: line.Seq, ID: e.ID, At: e.At, Run: e.Run, Agent: e.Agent, For: e.For, Tool: e.What, Target: e.Target,
			Digest: e.Digest, Verdict: string(e.Outcome), By: e.By, State: "unknown"})
	}
	// Most outcomes stand close behind; of what took long they stand far away.
	for after, most := lines[0].Seq, 2*len(at); len(at) > 0; most = min(2*most, historyOf) {
		lines, err := log.LogLines(ctx, store.LogFilter{Run: q.Run, After: after, Kind: audit.KindOutcome, Most: most})
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			after = line.Seq
			var e audit.Entry
			if err := json.Unmarshal(line.Body, &e); err != nil {
				return nil, fmt.Errorf("%w: an entry of the log cannot be read: %w", bourn.ErrInternal, err)
			}
			// An outcome is of what was asked for the same member: nobody else has one to give.
			if i, wanted := at[e.Of]; wanted && e.For == all[i].For {
				delete(at, e.Of)
				became(&all[i], e, reads(e.What))
			}
		}
		if len(lines) < most {
			break
		}
	}
	return all, nil
}

// became adds what became of an action.
func became(r *api.Receipt, e audit.Entry, reads bool) {
	r.State, r.Reason, r.Outcome, r.Duration = string(e.Outcome), e.Reason, e.ID, e.Duration
	var d struct {
		marks
		Path     string            `json:"path"`
		Before   string            `json:"before"`
		After    string            `json:"after"`
		Files    []api.ChangedFile `json:"files"`
		Status   *int              `json:"status"`
		Signal   string            `json:"signal"`
		TimedOut bool              `json:"timed_out"`
		LeftOut  int64             `json:"left_out_bytes"`
		Child    string            `json:"child"`
		Jobs     []struct {
			Child string `json:"child"`
		} `json:"jobs"`
	}
	if len(e.Detail) == 0 || json.Unmarshal(e.Detail, &d) != nil {
		return
	}
	r.Status, r.Signal, r.TimedOut, r.LeftOut = d.Status, d.Signal, d.TimedOut, d.LeftOut
	r.Verification = evidenceOf(e) != ""
	if d.Child != "" {
		r.Children = append(r.Children, d.Child)
	}
	for _, j := range d.Jobs {
		if j.Child != "" {
			r.Children = append(r.Children, j.Child)
		}
	}
	if reads {
		return
	}
	r.Files = d.Files
	if d.Path != "" {
		r.Files = append(r.Files, api.ChangedFile{Path: d.Path, Before: d.Before, After: d.After})
	}
}

// capabilities says what a run's workflow may do next.
func (g *gate) capabilities(ctx context.Context, q *capabilitiesQuery) (api.Capabilities, error) {
	k := api.Capabilities{Run: q.Run, Action: q.Action, Reasons: []api.Missing{}}
	rules, l := g.control.boundaries.now.Load().compiled, &ledger{}
	run := g.live(q.Run)
	if run != nil {
		k.Agent = string(run.agent)
		var err error
		if rules, err = g.judged(run); err != nil {
			return k, err
		}
		l = g.ledgers.take(runKey{run.member, run.run})
		defer g.ledgers.leave(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := error(nil)
	if run != nil {
		err = l.load(ctx, g.control.store, run.run, run.member.String(), g.reads)
	} else {
		k.Agent, err = g.past(ctx, l, q.Run)
	}
	if err != nil {
		return k, err
	}
	if run == nil {
		run = &gatedRun{agent: bourn.AgentName(k.Agent)}
	}
	rule, err := g.commitRule(run)
	if err != nil { // it may call nothing
		k.Reasons = append(k.Reasons, api.Missing{Of: "mutate", Code: "profile_unreadable", Text: err.Error(), Hint: bourn.HintOf(err)})
		return k, nil
	}
	can := l.progress.Capabilities(rules, review.Step{Action: q.Action, Path: q.Path, Rule: rule})
	k.Mutate, k.Commit = can.Mutate, can.Commit
	for _, m := range can.Reasons {
		k.Reasons = append(k.Reasons, api.Missing(m))
	}
	return k, nil
}

// live returns the run of an id whose actor is there, or nil. Where two members' runs have
// the id it is neither: the log tells of both.
func (g *gate) live(id string) *gatedRun {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found *gatedRun
	for key, run := range g.runs {
		if key.run == id && found != nil {
			return nil
		}
		if key.run == id {
			found = run
		}
	}
	return found
}

// past reads what a run did that has no actor now, and whose it was.
func (g *gate) past(ctx context.Context, l *ledger, id string) (agent string, err error) {
	lines, err := g.control.store.LogLines(ctx, store.LogFilter{Run: id, Most: 100, Newest: true})
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		return "", bourn.WithHint(fmt.Errorf("%w: the log has no run %s", bourn.ErrNotFound, id), "bourn audit tail shows runs that there were")
	}
	member := ""
	for _, line := range lines {
		var e audit.Entry
		if err := json.Unmarshal(line.Body, &e); err != nil {
			return "", fmt.Errorf("%w: an entry of the log cannot be read: %w", bourn.ErrInternal, err)
		}
		if e.For != "" { // what its launcher noted names no member
			agent, member = e.Agent, e.For
		} else if agent == "" {
			agent = e.Agent
		}
	}
	return agent, l.load(ctx, g.control.store, id, member, g.reads)
}
