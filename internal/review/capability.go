package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"bourn"
)

// What a run may do next follows from its receipts, in the order of the log. A change is
// whatever was performed and did not only read; a verification is a command that passed and
// of which the control plane has noted what it is evidence of.
//
//	  place in the log   10    11    12    13    14
//	  verification        ├─────┤                        passed: evidence of 10
//	  change                          ├─────┤            changed until 13
//	  commit                                      ?      10 is not after 13: refused
//
// It is a safeguard of a workflow and no boundary: a shell can still do whatever its seal
// allows.

// A Receipt is what is known of one performed action, as far as it bears on what may come
// next.
type Receipt struct {
	ID    string
	Began int64 // the place of its entry in the log, from 1
	Ended int64 // the place of its outcome; 0 while there is none
	// Changes: it may have changed something. What only reads does not.
	Changes bool
	// Evidence is what it shows, as CommitRule.Evidence has it, where it is a verification
	// that passed; else "". What has evidence is no change.
	Evidence string
}

// A CommitRule is what an agent's profile says of commits. The zero value asks for nothing.
type CommitRule struct {
	Verified bool   // a commit needs a verification that is newer than the last change
	Verify   string // the command that verifies, as it is given to a shell; "" leaves it to the call
}

// EvidenceByCall is the evidence of a command that its call says verifies.
const EvidenceByCall = "call"

// Evidence names what has to have passed. Another command's passing is other evidence.
func (r CommitRule) Evidence() string {
	if r.Verify == "" {
		return EvidenceByCall
	}
	sum := sha256.Sum256([]byte(r.Verify))
	return "command:" + hex.EncodeToString(sum[:])
}

// how says what to do about a verification that is missing.
func (r CommitRule) how() string {
	if r.Verify == "" {
		return `verify with shell_exec, with "verifies": true, and commit right after it has passed`
	}
	return fmt.Sprintf("run this with shell_exec, as it stands and without env or another cwd, and commit right after it has passed: %s", bourn.Printable(r.Verify))
}

// Progress is what the receipts of a run come to, noted one after the other; its zero value
// is that of a run that has done nothing. It is not safe for use at once.
type Progress struct {
	open    map[string]int64 // changes without an outcome, and where they began
	changed int64            // where the last change ended; 0 for none
	passed  map[string]int64 // by evidence, where the newest verification began
}

// Began notes an action that changes something, or may. Places only grow.
func (p *Progress) Began(id string, place int64) {
	if p.open == nil {
		p.open = map[string]int64{}
	}
	p.open[id] = place
}

// Never takes back an action that was not performed after all.
func (p *Progress) Never(id string) { delete(p.open, id) }

// Ended notes the outcome of an action, with its evidence where it is a verification that
// passed. What did not begin, or only reads, is nothing.
func (p *Progress) Ended(id string, place int64, evidence string) {
	began, open := p.open[id]
	if !open {
		return
	}
	delete(p.open, id)
	if evidence == "" {
		p.changed = max(p.changed, place)
		return
	}
	if p.passed == nil {
		p.passed = map[string]int64{}
	}
	p.passed[evidence] = max(p.passed[evidence], began)
}

// Verified reports whether the evidence began after every change had ended.
func (p *Progress) Verified(evidence string) bool {
	return len(p.open) == 0 && p.passed[evidence] > p.changed
}

// ProgressOf notes receipts in the order of their places.
func ProgressOf(receipts []Receipt) *Progress {
	type event struct {
		place int64
		of    *Receipt
		ends  bool
	}
	var events []event
	for i := range receipts {
		r := &receipts[i]
		if !r.Changes && r.Evidence == "" {
			continue
		}
		events = append(events, event{r.Began, r, false})
		if r.Ended > 0 {
			events = append(events, event{r.Ended, r, true})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.place, b.place) })
	p := &Progress{}
	for _, e := range events {
		if e.ends {
			p.Ended(e.of.ID, e.place, e.of.Evidence)
		} else {
			p.Began(e.of.ID, e.place)
		}
	}
	return p
}

// StepCommit is the structural action of a step that commits; other steps have none, "".
const StepCommit = "commit"

// A Step is what a workflow asks about.
type Step struct {
	Action string     // StepCommit, or ""
	Path   string     // where given, it is judged whether this may be written
	Rule   CommitRule // of the agent's profile
}

// Capability says what a workflow may do next, and of what it may not, why.
type Capability struct {
	Mutate  bool
	Commit  bool
	Reasons []Missing
}

// CommitNotVerified is why a commit is refused that no verification precedes.
const CommitNotVerified = "commit_not_verified"

// A Missing is one reason why a workflow may not do something.
type Missing struct {
	Of   string // mutate or commit
	Code string // for programs
	Text string
	Hint string // what to do about it
}

// Capabilities derives what a run may do next from the hard blocks and its receipts alone. A
// commit needs all that a change does, to be what the step is, and where the rule says so a
// verification that is newer than the last change.
func Capabilities(c *Compiled, receipts []Receipt, s Step) Capability {
	return ProgressOf(receipts).Capabilities(c, s)
}

// Capabilities is the function of that name, over what was noted.
func (p *Progress) Capabilities(c *Compiled, s Step) Capability {
	var k Capability
	if why := blocked(c, s.Path); why != nil {
		k.Reasons = append(k.Reasons, *why)
	}
	k.Mutate = len(k.Reasons) == 0
	k.Commit = k.Mutate
	lacks := func(m Missing) {
		k.Commit = false
		k.Reasons = append(k.Reasons, m)
	}
	if s.Action != StepCommit {
		lacks(Missing{StepCommit, "step_not_a_commit", "the step is not a commit", "ask about a step that is one: action=commit"})
	}
	if why := p.unverified(s.Rule); why != nil {
		lacks(*why)
	}
	return k
}

// blocked returns why a change is refused, of a path where one is given.
func blocked(c *Compiled, path string) *Missing {
	if !c.Valid() {
		return &Missing{"mutate", string(bourn.ReasonBoundariesInvalid), c.Why(), "ask an administrator to mend them: bourn boundaries show"}
	}
	if path == "" {
		return nil
	}
	v := Judge(bourn.Action{Tool: "capabilities", Targets: []bourn.Target{{Operation: bourn.Write, Path: path}}}, c)
	if v.Outcome == bourn.Allow {
		return nil
	}
	return &Missing{"mutate", v.Reasons[0].Blocker(), "a hard block refuses to write there: " + v.Reasons[0].Text, "change something else, or ask an administrator"}
}

// unverified returns why a commit is not verified, or nil where it is or needs not be.
func (p *Progress) unverified(r CommitRule) *Missing {
	if !r.Verified || p.Verified(r.Evidence()) {
		return nil
	}
	m := &Missing{StepCommit, CommitNotVerified, "no verification has passed in this run", r.how()}
	switch {
	case len(p.open) > 0:
		m.Text = fmt.Sprintf("%s without an outcome", counted(len(p.open), "action"))
		m.Hint = "wait until it has ended, then " + r.how() + "; what has none since the control plane ended never gets one: start another run"
	case p.passed[r.Evidence()] > 0:
		m.Text = "something was done after the last verification that passed, or while it ran"
	}
	return m
}

// counted says that there is one, or that there are several.
func counted(n int, what string) string {
	if n == 1 {
		return "there is 1 " + what
	}
	return fmt.Sprintf("there are %d %ss", n, what)
}
