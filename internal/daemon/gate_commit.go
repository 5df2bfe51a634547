package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/profile"
	"bourn/internal/review"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// A ledger is what a run's receipts come to, kept in memory for as long as this process
// lives: the log has an outcome a moment after it is known, and a commit must not wait for
// that, nor be let through before a change is in it. What the run did before this process
// came is read from the log, once.
//
//	call ── noted here as begun ── its entry committed ── performed ── its outcome queued ── noted here as ended
//
// So a place here is never before the log's own for an outcome, nor after it for an entry:
// what is newer here is newer in the log.
type ledger struct {
	mu       sync.Mutex
	loaded   bool
	next     int64 // the place that comes next
	progress review.Progress
	calls    int // that are performed now; of the ledgers' lock
}

// ledgers are those of all runs that were seen.
type ledgers struct {
	mu   sync.Mutex
	kept map[runKey]*ledger
}

// Limits of what is kept, and read, of runs.
const (
	maxLedgers = 10_000  // runs; of others the log is read again
	maxHistory = 200_000 // lines of one run that are read; beyond, it is never verified
	historyOf  = 10_000  // lines at a time
)

func newLedgers() *ledgers { return &ledgers{kept: map[runKey]*ledger{}} }

// take returns the ledger of a run for one call, which leaves it.
func (l *ledgers) take(key runKey) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.kept[key]
	if kept == nil {
		if len(l.kept) >= maxLedgers {
			// All that these runs did is in the log, or is missing there, which counts against them.
			for key, other := range l.kept {
				if other.calls == 0 {
					delete(l.kept, key)
				}
			}
		}
		kept = &ledger{}
		l.kept[key] = kept
	}
	kept.calls++
	return kept
}

func (l *ledgers) leave(kept *ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept.calls--
}

// A history reads lines of the log.
type history interface {
	LogLines(ctx context.Context, f store.LogFilter) ([]store.LogLine, error)
}

// load reads what the run did for a member, or with "" for anybody, unless it was read
// already. The lock is held.
func (l *ledger) load(ctx context.Context, log history, run, member string, reads func(tool string) bool) error {
	if l.loaded {
		return nil
	}
	p, last, err := progressOf(ctx, log, run, member, reads, maxHistory)
	if err != nil {
		return err
	}
	l.progress, l.next, l.loaded = p, last+1, true
	return nil
}

// progressOf reads what a run did, and the last place that was read. Of one that did more
// than most lines tell, it is not known what became of the rest.
func progressOf(ctx context.Context, log history, run, member string, reads func(tool string) bool, most int) (p review.Progress, last int64, err error) {
	for lines := 0; ; {
		got, err := log.LogLines(ctx, store.LogFilter{Run: run, After: last, Most: historyOf})
		if err != nil {
			return p, 0, fmt.Errorf("cannot read what the run has done: %w", err)
		}
		for _, line := range got {
			note(&p, line, member, reads)
			last = line.Seq
		}
		if lines += len(got); lines > most {
			p.Began("more than is read again", last)
			return p, last, nil
		}
		if len(got) < historyOf {
			return p, last, nil
		}
	}
}

// note takes a line of the log into account, if it is about what was performed for a member,
// or with "" for anybody.
func note(p *review.Progress, line store.LogLine, member string, reads func(tool string) bool) {
	var e audit.Entry
	if err := json.Unmarshal(line.Body, &e); err != nil || member != "" && e.For != member {
		return
	}
	switch {
	case e.Kind == audit.KindAction && e.Outcome == audit.Allowed && !reads(e.What):
		p.Began(e.ID, line.Seq)
	case e.Kind == audit.KindOutcome && e.Of != "":
		p.Ended(e.Of, line.Seq, evidenceOf(e))
	}
}

// marks are what an outcome's detail says of a verification.
type marks struct {
	Verification bool   `json:"verification,omitempty"` // a command that verifies has passed
	Evidence     string `json:"evidence,omitempty"`     // and which
}

func evidenceOf(e audit.Entry) string {
	var m marks
	if e.Outcome != audit.Done || len(e.Detail) == 0 || json.Unmarshal(e.Detail, &m) != nil || !m.Verification {
		return ""
	}
	return m.Evidence
}

// reads reports whether a tool only reads. One that is not known does not.
func (g *gate) reads(tool string) bool {
	t := g.known[tool]
	return t != nil && t.ReadOnly()
}

// A doing is a call that is performed, as its run's ledger has it; nil is one that only
// reads.
type doing struct {
	of       *ledgers
	ledger   *ledger
	id       string
	evidence string // what its passing shows; "" for nothing
}

// begin notes that a call is about to be performed, and refuses a commit that is not
// verified where the agent's profile wants it to be.
func (g *gate) begin(ctx context.Context, run *gatedRun, request workspace.Request, action bourn.Action, entry *audit.Entry) (*doing, error) {
	if !action.Mutates() {
		return nil, nil
	}
	rule, err := g.commitRule(run)
	if err != nil {
		return nil, err
	}
	why, commits := "", false
	if rule.Verified && action.Command != nil {
		why, commits = review.Commits(*action.Command)
	}
	d := &doing{of: g.ledgers, ledger: g.ledgers.take(runKey{run.member, run.run}), id: entry.ID, evidence: evidence(rule, request, run.actor.Cwd())}
	l := d.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.load(ctx, g.control.store, run.run, run.member.String(), g.reads)
	if err == nil && commits && !l.progress.Verified(rule.Evidence()) {
		err = g.notVerified(run, rule, l, why)
		entry.By = review.CommitNotVerified
	}
	if err != nil {
		g.ledgers.leave(l)
		return nil, err
	}
	l.progress.Began(d.id, l.place())
	return d, nil
}

// place is the next one. The lock is held.
func (l *ledger) place() int64 {
	l.next++
	return l.next - 1
}

// notVerified is why a commit is refused. The ledger's lock is held.
func (g *gate) notVerified(run *gatedRun, rule review.CommitRule, l *ledger, why string) error {
	k := l.progress.Capabilities(g.control.boundaries.now.Load().compiled, review.Step{Action: review.StepCommit, Rule: rule})
	i := slices.IndexFunc(k.Reasons, func(m review.Missing) bool { return m.Code == review.CommitNotVerified })
	if i < 0 {
		return fmt.Errorf("%w: it is not told why a commit is refused", bourn.ErrInternal)
	}
	return &workspace.Problem{Code: bourn.CodeDenied, Reason: review.CommitNotVerified,
		Text: fmt.Sprintf("agent %q commits only what is verified, and %s (a workflow safeguard; %s)", run.agent, k.Reasons[i].Text, bourn.Printable(why)),
		Hint: k.Reasons[i].Hint}
}

// evidence is what a request shows when it passes. The command of the profile has to run as
// a person would run it: as it stands, where the run works.
func evidence(rule review.CommitRule, r workspace.Request, cwd string) string {
	switch {
	case r.Verb != workspace.Exec:
		return ""
	case rule.Verify == "" && r.Verifies:
		return review.EvidenceByCall
	case rule.Verify == "" || r.Command != rule.Verify || len(r.Env) > 0 || r.Cwd != "" && filepath.Clean(r.Cwd) != "." && filepath.Clean(r.Cwd) != cwd:
		return ""
	}
	return rule.Evidence()
}

// shows returns what the call has shown: its evidence where the command has passed.
func (d *doing) shows(result json.RawMessage, err error) marks {
	if d == nil || d.evidence == "" || err != nil {
		return marks{}
	}
	var r struct {
		Status   *int   `json:"status"`
		Signal   string `json:"signal"`
		TimedOut bool   `json:"timed_out"`
	}
	if json.Unmarshal(result, &r) != nil || r.Status == nil || *r.Status != 0 || r.Signal != "" || r.TimedOut {
		return marks{}
	}
	return marks{Verification: true, Evidence: d.evidence}
}

// ended notes that the call was performed. Its outcome waits for the log by then.
func (d *doing) ended(m marks) {
	d.leave(func(l *ledger) { l.progress.Ended(d.id, l.place(), m.Evidence) })
}

// never notes that the call was not performed after all.
func (d *doing) never() {
	d.leave(func(l *ledger) { l.progress.Never(d.id) })
}

func (d *doing) leave(f func(l *ledger)) {
	if d == nil {
		return
	}
	d.ledger.mu.Lock()
	f(d.ledger)
	d.ledger.mu.Unlock()
	d.of.leave(d.ledger)
}

// commitRule returns what holds for a run's commits: what its agent's profile says or, where
// that asks for nothing, that of the nearest agent that the run works for and that does. So
// no commit is handed to an agent of whom less is asked.
func (g *gate) commitRule(run *gatedRun) (review.CommitRule, error) {
	rule, err := g.policies.commitOf(run.agent)
	for c := run.child; err == nil && !rule.Verified && c != nil; c = c.of.child {
		rule, err = g.policies.commitOf(c.of.agent)
	}
	return rule, err
}

// commitOf returns what an agent's profile says of commits; a run without one has none.
func (p *policies) commitOf(name bourn.AgentName) (review.CommitRule, error) {
	has, err := p.latest(name)
	return has.commit, err
}

func commitRuleOf(c *profile.Commit) review.CommitRule {
	if c == nil {
		return review.CommitRule{}
	}
	return review.CommitRule{Verified: slices.Contains(c.Requires, profile.Verified), Verify: c.Verify}
}
