package review

import (
	"cmp"
	"slices"

	"bourn"
)

// An Explanation is a verdict with what led to it, for people who write rules.
type Explanation struct {
	Verdict  bourn.Verdict
	Findings []Finding // one for each rule and place where it matches, or may
	Commands []Found   // the simple commands that were found, in order
	Unclear  []string  // why it cannot be told what is executed
}

// A Finding is a rule that matches, or may match, and where.
type Finding struct {
	Rule      HardBlock
	Outcome   bourn.Outcome // Deny when it matches, Ask when that cannot be told
	Operation bourn.Operation
	Target    string // the path or the command as it was given
	Compared  string // what the pattern was compared with: a path, a normal form, a text
	Where     string // where that was found: "the resolved path", "inside sudo"
}

// A Found is a simple command in its normal form.
type Found struct {
	Text  string
	Where string
	Guess bool // it may be no command: it is matched, and never asked about
}

// Explain judges an action as Judge does and says how it came to the verdict.
func Explain(a bourn.Action, c *Compiled) Explanation {
	e := Explanation{Verdict: Judge(a, c)}
	if _, bad := malformed(a); bad || !c.Valid() {
		return e
	}
	m := c.matcher()
	defer c.matchers.Put(m)
	r := m.judge(a)
	slices.SortStableFunc(m.hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.rule, b.rule))
	})
	for _, h := range m.hits {
		e.Findings = append(e.Findings, Finding{m.c.rules[h.rule].HardBlock, h.outcome, h.op, h.target, h.form, h.where})
	}
	if r == nil {
		return e
	}
	e.Unclear = r.unclear
	for _, f := range r.forms {
		if found := (Found{f.text, f.how, f.guess}); !slices.Contains(e.Commands, found) {
			e.Commands = append(e.Commands, found)
		}
	}
	return e
}

// TestCommand explains what becomes of a command that is given to a shell.
func TestCommand(text string, c *Compiled) Explanation {
	return Explain(bourn.Action{Command: &bourn.Command{Text: text}}, c)
}

// TestPath explains what becomes of an operation on a path. resolved is empty when nobody
// has looked.
func TestPath(path, resolved string, o bourn.Operation, c *Compiled) Explanation {
	return Explain(bourn.Action{Targets: []bourn.Target{{Operation: o, Path: path, Resolved: resolved}}}, c)
}
