package bourn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// An Operation is what an action does to a target. The list is closed.
type Operation string

// The operations, in the order in which they are written and shown.
const (
	Read     Operation = "read"
	Write    Operation = "write"
	Delete   Operation = "delete"
	Execute  Operation = "execute"
	Delegate Operation = "delegate"
)

// Operations returns the closed list, in order.
func Operations() []Operation { return []Operation{Read, Write, Delete, Execute, Delegate} }

// ParseOperation returns s as an operation, exactly as it is spelled; anything else is
// ErrInvalid.
func ParseOperation(s string) (Operation, error) {
	for _, o := range Operations() {
		if s == string(o) {
			return o, nil
		}
	}
	return "", fmt.Errorf("%w operation %q: use read, write, delete, execute or delegate", ErrInvalid, s)
}

// A Tier says how far the effect of a tool reaches. What is not in the list, the zero
// value too, counts as TierPrivileged.
type Tier string

// The tiers, each above the one before.
const (
	TierRead        Tier = "read"
	TierWrite       Tier = "write"
	TierEgress      Tier = "network-egress"
	TierSpend       Tier = "spend"
	TierDestructive Tier = "destructive"
	TierPrivileged  Tier = "privileged"
)

var tiers = [...]Tier{TierRead, TierWrite, TierEgress, TierSpend, TierDestructive, TierPrivileged}

// Tiers returns the closed list, the lowest first.
func Tiers() []Tier { return append([]Tier(nil), tiers[:]...) }

// ParseTier returns s as a tier, exactly as it is spelled; anything else is ErrInvalid.
func ParseTier(s string) (Tier, error) {
	for _, t := range tiers {
		if s == string(t) {
			return t, nil
		}
	}
	return "", fmt.Errorf("%w tier %q: use read, write, network-egress, spend, destructive or privileged", ErrInvalid, s)
}

// Above reports whether t reaches further than u.
func (t Tier) Above(u Tier) bool { return t.rank() > u.rank() }

func (t Tier) rank() int {
	for i, known := range tiers {
		if t == known {
			return i
		}
	}
	return len(tiers) - 1
}

// An Action is a tool call in its normal form: what review judges and an approval is
// about. One action may have several targets, each with its own operation: a patch
// writes some files and deletes others.
type Action struct {
	Person  string    `json:"person,omitempty"` // for whom; empty on a host without people
	Agent   AgentName `json:"agent,omitempty"`
	Run     string    `json:"run,omitempty"`
	Tool    string    `json:"tool"`
	Tier    Tier      `json:"tier,omitempty"`
	Targets []Target  `json:"targets,omitempty"`
	Command *Command  `json:"command,omitempty"` // what is executed; nil when nothing is
	Input   string    `json:"input,omitempty"`   // digest of the exact bytes of the tool's input
}

// A Target is a path and what is done to it.
type Target struct {
	Operation Operation `json:"operation"`
	Path      string    `json:"path"`               // as it was given
	Resolved  string    `json:"resolved,omitempty"` // absolute, without symbolic links; empty when nobody has looked
}

// A Command is what a shell is given, or a program and its arguments without a shell.
// Exactly one of Text and Argv is set. Executing it is the operation Execute, and so is
// starting it in Cwd, which needs no target of its own.
type Command struct {
	Text        string   `json:"text,omitempty"`
	Argv        []string `json:"argv,omitempty"`
	Cwd         string   `json:"cwd,omitempty"`          // as it was given; empty is the base root
	CwdResolved string   `json:"cwd_resolved,omitempty"` // as in Target
	Env         []string `json:"env,omitempty"`          // the names of the variables that are set for it; their values are in the input
}

// Mutates reports whether the action may do more than read. An action without targets
// does, unless its tool is known to read only.
func (a Action) Mutates() bool {
	if a.Command != nil {
		return true
	}
	for _, t := range a.Targets {
		if t.Operation != Read {
			return true
		}
	}
	return len(a.Targets) == 0 && a.Tier != TierRead
}

// Digest returns the SHA-256 of the action in hexadecimal: two actions have the same
// exactly if every field is the same.
func (a Action) Digest() string {
	// Quoted, because JSON has one and the same mark for every byte that is not UTF-8.
	text, err := json.Marshal(a.quoted())
	if err != nil {
		panic(err) // strings and slices of strings: cannot happen
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// quoted returns the action with every text that JSON cannot hold in Go's ASCII quotes.
// A text that looks quoted already is quoted again, so that no two become one.
func (a Action) quoted() Action {
	q := func(s string) string {
		if strings.ToValidUTF8(s, "") == s && !strings.HasPrefix(s, `"`) {
			return s
		}
		return fmt.Sprintf("%+q", s)
	}
	a.Person, a.Run, a.Tool, a.Input = q(a.Person), q(a.Run), q(a.Tool), q(a.Input)
	a.Agent, a.Tier = AgentName(q(string(a.Agent))), Tier(q(string(a.Tier)))
	targets := make([]Target, len(a.Targets))
	for i, t := range a.Targets {
		targets[i] = Target{Operation(q(string(t.Operation))), q(t.Path), q(t.Resolved)}
	}
	a.Targets = targets
	if c := a.Command; c != nil {
		argv := make([]string, len(c.Argv))
		for i, arg := range c.Argv {
			argv[i] = q(arg)
		}
		env := make([]string, len(c.Env))
		for i, name := range c.Env {
			env[i] = q(name)
		}
		a.Command = &Command{q(c.Text), argv, q(c.Cwd), q(c.CwdResolved), env}
	}
	return a
}
