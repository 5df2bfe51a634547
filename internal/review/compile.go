package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"bourn"

	"mvdan.cc/sh/v3/syntax"
)

// Compiled are boundaries made ready for judging. The zero value, and a nil pointer, are
// boundaries that cannot be read: every action but reads is denied. It may be used by
// several goroutines at once.
type Compiled struct {
	valid    bool
	why      string // why it is not valid
	digest   string
	base     Base
	rules    []rule
	paths    pathIndex
	commands commandIndex
	parsers  sync.Pool // of *syntax.Parser
	matchers sync.Pool // of *matcher
}

// Invalid returns boundaries that could not be read, for the reason that why gives.
func Invalid(why error) *Compiled { return &Compiled{why: why.Error()} }

// Compile makes boundaries ready. base.Root must be absolute. With an error comes what
// Invalid returns, never nil, so that who overlooks the error denies.
func Compile(b Boundaries, base Base) (*Compiled, error) {
	c := &Compiled{valid: true, base: base, digest: b.Digest()}
	invalid := func(format string, args ...any) (*Compiled, error) {
		err := fmt.Errorf("%w boundaries: %s", bourn.ErrInvalid, fmt.Sprintf(format, args...))
		return Invalid(err), err
	}
	switch {
	case b.Version != version:
		return invalid("the version is %d, and only %d is known", b.Version, version)
	case !strings.HasPrefix(base.Root, "/"):
		return invalid("the base root %q is not absolute", base.Root)
	}
	p := syntax.NewParser()
	for i, h := range b.HardBlocks {
		r, problem := newRule(h, base, p)
		switch {
		case problem != nil:
			problem.Path = fmt.Sprintf("hardBlocks.%d", i)
			return invalid("%s", problem)
		case r.ops == 0:
			return invalid("hardBlocks.%d.operations_empty", i)
		}
		c.rules = append(c.rules, r)
	}
	c.index()
	return c, nil
}

// Valid reports whether the boundaries could be read.
func (c *Compiled) Valid() bool { return c != nil && c.valid }

// Why says why the boundaries are not valid.
func (c *Compiled) Why() string {
	if c == nil || c.why == "" {
		return "no boundaries are loaded"
	}
	return c.why
}

// Digest returns that of the boundaries this was compiled from; "" when they are invalid.
func (c *Compiled) Digest() string {
	if !c.Valid() {
		return ""
	}
	return c.digest
}

// index distributes the enabled rules.
func (c *Compiled) index() {
	var paths, commands []int32
	for i := range c.rules {
		switch r := &c.rules[i]; {
		case !r.Enabled:
		case r.Type == PathRule:
			paths = append(paths, int32(i))
		case r.ops&opBit(bourn.Execute) != 0:
			commands = append(commands, int32(i))
		}
	}
	c.paths = newPathIndex(c.rules, paths)
	c.commands = newCommandIndex(c.rules, commands)
}

// A pathIndex finds the path rules that could match a path.
type pathIndex struct {
	dirs   map[string]dirRules
	below  []literalPath // of delete rules, sorted by path
	filter filter
	empty  bool
}

// dirRules are the rules that are about one path.
type dirRules struct {
	exact  []int32
	prefix []int32 // for the path and what is below
	globs  []int32 // whose matches are at or below the path
}

type literalPath struct {
	path string
	rule int32
}

// maxSameDir is how many globs may begin with the same directory and still be found by it.
const maxSameDir = 8

func newPathIndex(rules []rule, which []int32) pathIndex {
	x := pathIndex{dirs: map[string]dirRules{}, empty: len(which) == 0}
	sameDir := map[string]int{}
	for _, i := range which {
		if rules[i].Match == Glob {
			sameDir[rules[i].dir]++
		}
	}
	var needs []need
	for _, i := range which {
		r := &rules[i]
		d := x.dirs[r.form]
		switch {
		case r.Match == Exact:
			d.exact = append(d.exact, i)
			x.dirs[r.form] = d
		case r.Match == Prefix:
			d.prefix = append(d.prefix, i)
			x.dirs[r.form] = d
		case r.Match == Glob && (sameDir[r.dir] <= maxSameDir && r.dir != "/" || len(r.lits) == 0):
			d := x.dirs[r.dir]
			d.globs = append(d.globs, i)
			x.dirs[r.dir] = d
		default:
			needs = append(needs, need{i, r.lits})
		}
		if (r.Match == Exact || r.Match == Prefix) && r.ops&opBit(bourn.Delete) != 0 {
			x.below = append(x.below, literalPath{r.form, i})
		}
	}
	slices.SortFunc(x.below, func(a, b literalPath) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.rule, b.rule))
	})
	x.filter = newFilter(needs)
	return x
}

// A commandIndex finds the command rules that could match a command.
type commandIndex struct {
	exact     map[string][]int32 // by the words, see joinedExactly
	exactRaw  map[string][]int32 // by the pattern as it is written
	byProgram map[string][]int32 // exact rules, by the program
	prefix    *trie              // by the operands
	raw       *trie              // by what stands between blanks
	filter    filter
	empty     bool
}

// A trie finds the rules whose words a command begins with.
type trie struct {
	next  map[string]*trie
	rules []int32
}

func (t *trie) add(ws []string, rule int32) {
	for _, w := range ws {
		if t.next == nil {
			t.next = map[string]*trie{}
		}
		if t.next[w] == nil {
			t.next[w] = &trie{}
		}
		t = t.next[w]
	}
	t.rules = append(t.rules, rule)
}

// all adds every rule below to found.
func (t *trie) all(found *ruleSet) {
	for _, rule := range t.rules {
		found.add(rule)
	}
	for _, next := range t.next {
		next.all(found)
	}
}

func newCommandIndex(rules []rule, which []int32) commandIndex {
	x := commandIndex{
		exact: map[string][]int32{}, exactRaw: map[string][]int32{}, byProgram: map[string][]int32{},
		prefix: &trie{}, raw: &trie{}, empty: len(which) == 0,
	}
	var needs []need
	for _, i := range which {
		r := &rules[i]
		switch r.Match {
		case Exact:
			key, program := joinedExactly(r.words), r.words[0].text
			x.exact[key] = append(x.exact[key], i)
			x.exactRaw[r.form] = append(x.exactRaw[r.form], i)
			x.byProgram[program] = append(x.byProgram[program], i)
		case Prefix:
			ops, _ := operands(r.words)
			x.prefix.add(texts(ops), i)
			x.raw.add(r.fields, i)
		case Glob, Regex, Contains:
			needs = append(needs, need{i, r.lits})
		}
	}
	x.filter = newFilter(needs)
	return x
}

func texts(ws []word) []string {
	all := make([]string, len(ws))
	for i, w := range ws {
		all[i] = w.text
	}
	return all
}

// joinedExactly returns words as one text that no other words have.
func joinedExactly(ws []word) string { return strings.Join(texts(ws), "\x00") }
