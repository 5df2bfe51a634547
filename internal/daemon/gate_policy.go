package daemon

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/review"
)

// policies are the rules for governed tools that agents' profiles have. A profile is read
// again whenever its file is another than it was: a rule holds from the next call on.
type policies struct {
	home string // $BOURN_HOME
	now  func() time.Time

	mu   sync.Mutex
	kept map[bourn.AgentName]policyOf
}

// policyOf is what was read of one profile.
type policyOf struct {
	file    os.FileInfo
	settled bool // the file was older than a clock can tell apart when it was read
	rules   []review.ToolRule
	commit  review.CommitRule
	// delegate are the agents that this one may hand work to.
	delegate []bourn.AgentName
	records  policy.Records
	err      error
}

// settledAfter is how long after its last change a file's times tell every further one.
const settledAfter = 2 * time.Second

// maxProfile is more bytes than a profile has.
const maxProfile = 1 << 20

func newPolicies(home string, now func() time.Time) *policies {
	return &policies{home: home, now: now, kept: map[bourn.AgentName]policyOf{}}
}

// of returns the rules of an agent; a run without one has none. Without a profile that can be
// read nothing may be called.
func (p *policies) of(name bourn.AgentName) ([]review.ToolRule, error) {
	has, err := p.latest(name)
	return has.rules, err
}

// latest returns what an agent's profile says now. It is nothing for a run without an agent, and
// with an error.
func (p *policies) latest(name bourn.AgentName) (policyOf, error) {
	if name == "" {
		return policyOf{}, nil
	}
	at := filepath.Join(p.home, "agents", string(name), "profile.yaml")
	info, err := os.Stat(at)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no file")
	}
	if err != nil {
		return policyOf{}, unreadable(name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kept, known := p.kept[name]
	if known && kept.settled && os.SameFile(kept.file, info) && kept.file.Size() == info.Size() && kept.file.ModTime().Equal(info.ModTime()) {
		return kept, kept.err
	}
	kept, err = p.read(name, at)
	if err != nil {
		delete(p.kept, name)
		return policyOf{}, unreadable(name, err)
	}
	p.kept[name] = kept
	return kept, kept.err
}

// read reads a profile. What is wrong in it is kept with it.
func (p *policies) read(name bourn.AgentName, at string) (policyOf, error) {
	f, err := os.Open(at)
	if err != nil {
		return policyOf{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return policyOf{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err != nil {
		return policyOf{}, err
	}
	age := p.now().Sub(info.ModTime())
	kept := policyOf{file: info, settled: age > settledAfter}
	read, err := profile.ParseFor(name, at, text)
	if err != nil {
		kept.err = unreadable(name, err)
		return kept, nil
	}
	kept.commit = commitRuleOf(read.Commit)
	kept.delegate, kept.records = read.Delegate, read.Records
	for _, r := range read.Tools.Rules {
		kept.rules = append(kept.rules, review.ToolRule{Tool: r.Tool, Policy: r.Policy, Tier: r.Tier})
	}
	return kept, nil
}

func unreadable(name bourn.AgentName, err error) error {
	return bourn.WithHint(fmt.Errorf("%w: the profile of agent %q cannot be read, so it may call nothing: %s", bourn.ErrDenied, name, bourn.Printable(err.Error())),
		"ask a person to run: bourn agent perm show "+string(name))
}

// sealed: an actor runs in a seal or not at all; see package run.
const sealed = true

// ruling says what the agent's profile makes of a tool now.
func (g *gate) ruling(agent bourn.AgentName, tool string, own bourn.Tier) (review.Ruling, error) {
	rules, err := g.policies.of(agent)
	if err != nil {
		return review.Ruling{}, err
	}
	return review.JudgeTool(tool, own, rules, sealed), nil
}

// shows reports whether a tool is offered to an agent: what is denied is not.
func (g *gate) shows(agent bourn.AgentName, tool string) bool {
	t := g.known[tool]
	if t == nil {
		return false
	}
	r, err := g.ruling(agent, tool, t.Tier)
	return err == nil && r.Outcome != bourn.Deny
}

// why is what a client is told of a verdict that is no allow, and what to do about it.
func why(agent bourn.AgentName, tool string, first bourn.Reason) (text, hint string) {
	switch {
	case first.Code == bourn.ReasonToolPolicy && first.Outcome == bourn.Deny:
		return "the agent's profile refuses the tool" + after(first.Text), "do without it, or ask a person to run: bourn agent perm list-tools " + string(agent)
	case first.Code == bourn.ReasonToolPolicy && agent != "":
		return "it needs a person's answer, and nothing was done" + after(first.Text), "ask a person, who may run: bourn agent perm tool-allow " + string(agent) + " " + tool
	case first.Code == bourn.ReasonUnsealed:
		return "it is refused" + after(first.Text), "ask a person"
	case first.Outcome == bourn.Deny:
		return "a hard block refuses it" + after(first.Text), "ask a person"
	}
	return "it needs a person's answer, and nothing was done" + after(first.Text), "say it another way, or ask a person"
}

// after is a reason as it stands after what it is the reason for; a rule may have none.
func after(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
