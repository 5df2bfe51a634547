package review

import (
	"cmp"
	"slices"
	"strings"

	"bourn"

	"mvdan.cc/sh/v3/syntax"
)

// Judge says what the hard blocks make of an action. Every target and the command are held
// against every enabled rule, and every rule that matches is a reason. It gives the same
// verdict for the same action and rules, and its work is bounded.
func Judge(a bourn.Action, c *Compiled) bourn.Verdict {
	if reason, bad := malformed(a); bad {
		return bourn.Verdict{Outcome: bourn.Deny, Reasons: []bourn.Reason{reason}}
	}
	if !c.Valid() {
		if !a.Mutates() {
			return bourn.Verdict{Outcome: bourn.Allow}
		}
		return bourn.Verdict{Outcome: bourn.Deny, Reasons: []bourn.Reason{{
			Code: bourn.ReasonBoundariesInvalid, Outcome: bourn.Deny, Text: c.Why(),
		}}}
	}
	m := c.matcher()
	defer c.matchers.Put(m)
	r := m.judge(a)
	return m.verdict(a, r)
}

// maxPath is more bytes than any path has that a kernel takes.
const maxPath = 16 << 10

// malformed returns why an action is not one.
func malformed(a bourn.Action) (bourn.Reason, bool) {
	bad := func(o bourn.Operation, target, text string) (bourn.Reason, bool) {
		return bourn.Reason{Code: bourn.ReasonInvalidAction, Outcome: bourn.Deny, Operation: o, Target: target, Text: text}, true
	}
	for _, t := range a.Targets {
		switch {
		case opBit(t.Operation) == 0:
			return bad(t.Operation, t.Path, "the operation is not known")
		case len(t.Path) > maxPath || len(t.Resolved) > maxPath:
			return bad(t.Operation, cut(t.Path), "no path is that long")
		case strings.ContainsRune(t.Path, 0) || strings.ContainsRune(t.Resolved, 0):
			return bad(t.Operation, t.Path, "no path holds a NUL")
		case t.Resolved != "" && !strings.HasPrefix(t.Resolved, "/"):
			return bad(t.Operation, t.Path, "the resolved path is not absolute")
		}
	}
	c := a.Command
	switch {
	case c == nil:
	case (c.Text == "") == (len(c.Argv) == 0):
		return bad(bourn.Execute, c.Text, "a command is either a text or a program with its arguments")
	case strings.ContainsRune(c.Text, 0) || strings.ContainsRune(strings.Join(c.Argv, ""), 0):
		return bad(bourn.Execute, c.Text, "no command holds a NUL")
	case len(c.Cwd) > maxPath || len(c.CwdResolved) > maxPath:
		return bad(bourn.Execute, cut(c.Cwd), "no path is that long")
	case strings.ContainsRune(c.Cwd, 0) || strings.ContainsRune(c.CwdResolved, 0):
		return bad(bourn.Execute, c.Cwd, "no path holds a NUL")
	case strings.ContainsRune(strings.Join(c.Env, ""), 0):
		return bad(bourn.Execute, c.Text, "no variable's name holds a NUL")
	case c.CwdResolved != "" && !strings.HasPrefix(c.CwdResolved, "/"):
		return bad(bourn.Execute, c.Cwd, "the resolved path is not absolute")
	}
	return bourn.Reason{}, false
}

func (c *Compiled) matcher() *matcher {
	m, ok := c.matchers.Get().(*matcher)
	if !ok {
		m = &matcher{c: c}
	}
	m.hits, m.work, m.spent = m.hits[:0], maxWork, false
	return m
}

// judge finds what matches, and returns the reading of the command, if there is one.
func (m *matcher) judge(a bourn.Action) *reading {
	for _, t := range a.Targets {
		m.target(t.Path, t.Resolved, m.c.base.Root, t.Operation)
	}
	if a.Command == nil {
		return nil
	}
	return m.command(a.Command)
}

func (m *matcher) command(c *bourn.Command) *reading {
	m.target(c.Cwd, c.CwdResolved, m.c.base.Root, bourn.Execute)
	if m.c.commands.empty && m.c.paths.empty {
		return nil
	}
	p, ok := m.c.parsers.Get().(*syntax.Parser)
	if !ok {
		p = syntax.NewParser()
	}
	var r *reading
	given := c.Text
	if given != "" {
		r = readCommand(p, given, m.c.base.FoldCase)
	} else {
		given = strings.Join(c.Argv, " ")
		r = readArgv(p, c.Argv, m.c.base.FoldCase)
	}
	m.c.parsers.Put(r.parser)
	if !m.c.commands.empty {
		r.environment(c.Env)
		m.reading(r, given)
	}
	m.programs(r, c.Cwd, given)
	return r
}

// verdict makes a verdict of what was found.
func (m *matcher) verdict(a bourn.Action, r *reading) bourn.Verdict {
	v := bourn.Verdict{Outcome: bourn.Allow}
	slices.SortStableFunc(m.hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.rule, b.rule))
	})
	add := func(reason bourn.Reason) {
		v.Outcome = min(v.Outcome, reason.Outcome)
		v.Reasons = append(v.Reasons, reason)
	}
	for _, h := range m.hits {
		rule := &m.c.rules[h.rule]
		reason := bourn.Reason{Code: bourn.ReasonHardBlock, Outcome: h.outcome, Rule: rule.ID, Operation: h.op, Target: h.target, Text: rule.Reason}
		if h.outcome == bourn.Ask {
			reason.Code = bourn.ReasonCommandUnclear
			reason.Text = "it cannot be told whether the rule " + rule.ID + " matches " + bourn.Printable(cut(h.form))
		}
		add(reason)
	}
	if r != nil && !m.c.commands.empty {
		for _, why := range r.unclear {
			add(bourn.Reason{Code: bourn.ReasonCommandUnclear, Outcome: bourn.Ask, Operation: bourn.Execute, Text: bourn.Printable(cut(why))})
		}
	}
	if m.spent {
		add(bourn.Reason{Code: bourn.ReasonCommandUnclear, Outcome: bourn.Ask, Text: "the text is too long for so many regular expressions"})
	}
	return v
}

// cut shortens what is shown.
func cut(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
