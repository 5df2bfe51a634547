package review

import (
	"path"
	"slices"
	"strings"

	"bourn"

	"github.com/bmatcuk/doublestar/v4"
)

// A hit is a rule that matches, or may, and what it was held against.
type hit struct {
	rule    int32
	outcome bourn.Outcome // Deny when it matches, Ask when that cannot be told
	op      bourn.Operation
	target  string // as it was given
	form    string // what the pattern was compared with
	where   string // where that was found
}

// A matcher holds an action against the rules.
type matcher struct {
	c     *Compiled
	hits  []hit
	found ruleSet
	work  int // what may still be spent on regular expressions
	spent bool
}

// maxWork is what one action may spend on regular expressions: bytes of text times the
// sixteenth part of the length of each pattern that is held against it.
const maxWork = 8 << 20

// allow reports whether a regular expression may still be held against n bytes.
func (m *matcher) allow(r *rule, n int) bool {
	m.work -= n * (1 + len(r.Pattern)/16)
	m.spent = m.spent || m.work < 0
	return !m.spent
}

// maxHits is how many hits of one action are kept. What is beyond them changes nothing:
// there is room for rules that match behind as many that may.
const maxHits = 256

func (m *matcher) hit(i int32, outcome bourn.Outcome, op bourn.Operation, target, form, where string) {
	if len(m.hits) >= 2*maxHits || outcome != bourn.Deny && len(m.hits) >= maxHits {
		return
	}
	same := func(h hit) bool {
		return h.rule == i && h.op == op && h.target == target && h.outcome <= outcome
	}
	if !slices.ContainsFunc(m.hits, same) {
		m.hits = append(m.hits, hit{i, outcome, op, target, form, where})
	}
}

// target holds a path against the rules, as given and as resolved.
func (m *matcher) target(p, resolved, dir string, op bourn.Operation) {
	if m.c.paths.empty {
		return
	}
	given := absolute(p, dir)
	m.path(given, p, "the path as it is given", op)
	if resolved = path.Clean(resolved); resolved != "." && resolved != given {
		m.path(resolved, p, "the resolved path", op)
	}
}

// path holds an absolute and clean path against the rules about op. given is how the action
// names it.
func (m *matcher) path(p, given, where string, op bourn.Operation) {
	x := &m.c.paths
	p = fold(p, m.c.base)
	bit := opBit(op)
	check := func(i int32) {
		if m.c.rules[i].ops&bit != 0 && m.matchesPath(&m.c.rules[i], p) {
			m.hit(i, bourn.Deny, op, given, p, where)
		}
	}
	for at := 0; ; {
		dir := p[:max(at, 1)]
		if d, ok := x.dirs[dir]; ok {
			for _, i := range d.prefix {
				check(i)
			}
			for _, i := range d.globs {
				check(i)
			}
			if len(dir) == len(p) {
				for _, i := range d.exact {
					check(i)
				}
			}
		}
		if len(dir) == len(p) {
			break
		}
		next := strings.IndexByte(p[at+1:], '/')
		if next < 0 {
			at = len(p)
		} else {
			at += 1 + next
		}
	}
	if op == bourn.Delete {
		m.deleted(p, given)
	}
	m.found.reset()
	x.filter.candidates(p, &m.found)
	for _, i := range m.found.list {
		check(i)
	}
}

// deleted finds the rules about what goes with a directory that is deleted or moved.
func (m *matcher) deleted(p, given string) {
	below := m.c.paths.below
	dir := strings.TrimSuffix(p, "/") + "/"
	at, _ := slices.BinarySearchFunc(below, dir, func(l literalPath, dir string) int { return strings.Compare(l.path, dir) })
	for ; at < len(below) && strings.HasPrefix(below[at].path, dir); at++ {
		m.hit(below[at].rule, bourn.Deny, bourn.Delete, given, below[at].path, "what is below it")
	}
}

func (m *matcher) matchesPath(r *rule, p string) bool {
	switch r.Match {
	case Exact:
		return p == r.form
	case Prefix:
		return p == r.form || strings.HasPrefix(p, strings.TrimSuffix(r.form, "/")+"/")
	case Glob:
		return doublestar.MatchUnvalidated(r.form, p)
	case Regex:
		return m.allow(r, len(p)) && r.re.MatchString(p)
	case Contains:
		return strings.Contains(p, r.form)
	}
	return true
}

// reading holds what is found in a command against the rules.
func (m *matcher) reading(r *reading, given string) {
	for i := range r.forms {
		m.form(&r.forms[i], given)
	}
	for i, text := range r.texts {
		where := "the text as it is given"
		if i > 0 {
			where = "a text within it"
		}
		m.raw(text, given, where)
		m.text(text, given, where)
	}
	for _, pipe := range r.pipes {
		m.text(pipe, given, "a pipeline")
	}
}

// text holds a text against the rules that look for something in one.
func (m *matcher) text(text, given, where string) {
	m.found.reset()
	m.c.commands.filter.candidates(text, &m.found)
	for _, i := range m.found.list {
		r := &m.c.rules[i]
		if r.re == nil && strings.Contains(text, r.form) || r.re != nil && m.allow(r, len(text)) && r.re.MatchString(text) {
			m.hit(i, bourn.Deny, bourn.Execute, given, text, where)
		}
	}
}

// maxFields is how many blanks of a text the prefix of a raw text may reach over.
const maxFields = 128

// raw holds a text as it is given against exact and prefix rules.
func (m *matcher) raw(text, given, where string) {
	x := &m.c.commands
	trimmed := strings.TrimSpace(text)
	for _, i := range x.exactRaw[trimmed] {
		m.hit(i, bourn.Deny, bourn.Execute, given, trimmed, where)
	}
	if x.raw.next == nil {
		return
	}
	t := x.raw
	fields := 0
	for field := range strings.FieldsSeq(trimmed) {
		if t = t.next[field]; t == nil || fields == maxFields {
			break
		}
		fields++
		for _, i := range t.rules {
			m.hit(i, bourn.Deny, bourn.Execute, given, trimmed, where)
		}
	}
}

// form holds a simple command against every rule.
func (m *matcher) form(f *form, given string) {
	x := &m.c.commands
	if len(x.exact) > 0 {
		m.exact(f, given)
	}
	if x.prefix.next != nil {
		ops, opts := operands(f.words)
		p := prefixes{m: m, f: f, given: given, ops: ops, opts: &opts}
		p.from(x.prefix, 0, false)
	}
	m.text(f.text, given, f.how)
}

// exact finds the exact rules for a form, and those that it may be.
func (m *matcher) exact(f *form, given string) {
	x := &m.c.commands
	for _, i := range x.exact[joinedExactly(f.words)] {
		m.hit(i, bourn.Deny, bourn.Execute, given, f.text, f.how)
	}
	if f.firm || !f.open && !slices.ContainsFunc(f.words, func(w word) bool { return !w.known || w.glob }) {
		return
	}
	for _, i := range x.byProgram[f.words[0].text] {
		if couldBe(f.words, m.c.rules[i].words, f.open) {
			m.hit(i, bourn.Ask, bourn.Execute, given, f.text, f.how)
		}
	}
}

// couldBe reports whether words may turn out to be those of a pattern.
func couldBe(ws, pattern []word, open bool) bool {
	for i, w := range ws {
		if w.split {
			return true
		}
		if i >= len(pattern) || !w.couldBe(pattern[i].text) {
			return false
		}
	}
	return len(ws) == len(pattern) || open && len(ws) < len(pattern)
}

// prefixes is the search for the prefix rules of one form.
type prefixes struct {
	m     *matcher
	f     *form
	given string
	ops   []word
	opts  *options
}

// from goes on at the operand at, from where the trie has come to; maybe says that a word
// before was not known.
func (p *prefixes) from(t *trie, at int, maybe bool) {
	for _, i := range t.rules {
		switch {
		case p.opts.holds(&p.m.c.rules[i].needs):
			p.hit(i, maybe)
		case p.opts.unknown:
			p.hit(i, true)
		}
	}
	if t.next == nil {
		return
	}
	if at == len(p.ops) {
		if p.f.open && at == 1 {
			p.all(t)
		}
		return
	}
	w := p.ops[at]
	if next := t.next[w.text]; next != nil {
		p.from(next, at+1, maybe)
	}
	if at == 0 || w.known && !w.glob {
		return
	}
	if w.split {
		p.all(t)
		return
	}
	for text, next := range t.next {
		if text != w.text && w.couldBe(text) {
			p.from(next, at+1, true)
		}
	}
}

// all finds every rule that goes on from t: words that are not known may be its words.
func (p *prefixes) all(t *trie) {
	if p.f.firm {
		return
	}
	var found ruleSet
	for _, next := range t.next {
		next.all(&found)
	}
	slices.Sort(found.list)
	for _, i := range found.list {
		p.hit(i, true)
	}
}

func (p *prefixes) hit(i int32, maybe bool) {
	outcome := bourn.Deny
	if maybe {
		if p.f.firm {
			return
		}
		outcome = bourn.Ask
	}
	p.m.hit(i, outcome, bourn.Execute, p.given, p.f.text, p.f.how)
}

// programs holds the programs of a command that are named by a path against the path
// rules about executing.
func (m *matcher) programs(r *reading, cwd, given string) {
	if m.c.paths.empty {
		return
	}
	cwd = absolute(cwd, m.c.base.Root)
	for i := range r.forms {
		if p := r.forms[i].path; p != "" {
			m.path(absolute(p, cwd), given, "a program of the command", bourn.Execute)
		}
	}
}
