package survey

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// maxResult bounds the bytes of path that one call returns, so that a hostile tree cannot take all memory.
const maxResult = 512 << 20

// A Glob is what one pattern was found to match.
type Glob struct {
	Pattern Pattern
	// Objects that match, by path. Nothing below a directory that matches is listed: it goes with it. What may not be examined has
	// no identity (Ino 0), but is here.
	Objects []Object
	// Symbolic links whose place in the pattern is that of a directory: through them more paths match, which were not looked for. Those
	// that only "**" passes are not listed: it does not follow links.
	Links []Object
	// Visited are the directories in which a later match could appear: those searched, and those on the way to Base. Of a Base that
	// does not exist only the way is there.
	Visited []string
	// TooDeep are the topmost directories whose path is too long for the kernel (PATH_MAX). They were searched; they and those below
	// are not in Visited.
	TooDeep []string
	// Unreadable are the directories that should have been searched and could not be: matches may be missing.
	Unreadable []Unreadable
}

// Expand finds what the patterns match at or below the roots, in one walk that follows no symbolic link, stays on no file system and
// enters no directory that no pattern can match in. Roots are absolute, clean and real: one with a link in it is unreadable, one
// that does not exist is empty. A match above a root, as /w is for the root /w/sub, is a match too: it holds the whole root. The
// globs are in the order of the patterns. An error means that nothing is known.
func Expand(patterns []Pattern, roots []string) ([]Glob, error) {
	globs := make([]Glob, len(patterns))
	for i, p := range patterns {
		globs[i].Pattern = p
	}
	var start []*node
	for _, root := range outermost(roots) {
		if !absolute(root) {
			return nil, fmt.Errorf("cannot search %q: not an absolute clean path", root)
		}
		f, err := enter(globs, root)
		if err != nil {
			return nil, err
		}
		if f != nil {
			start = append(start, &node{name: root, path: root, size: len(root), front: f, byName: f.byName})
		}
	}
	var size atomic.Int64
	expanders := run(start, func() *expander {
		return &expander{globs: make([]Glob, len(patterns)), size: &size}
	})
	if size.Load() > maxResult {
		return nil, fmt.Errorf("cannot expand patterns: more than %d MiB of matching paths", maxResult>>20)
	}
	for i := range globs {
		for _, e := range expanders {
			globs[i].add(&e.globs[i])
		}
	}
	var visits []visit
	for _, e := range expanders {
		visits = append(visits, e.visits...)
	}
	slices.SortFunc(visits, func(a, b visit) int { return comparePaths(a.path, b.path) })
	for _, v := range visits {
		for _, it := range v.front.items {
			globs[it.index].Visited = append(globs[it.index].Visited, v.path)
		}
	}
	for i := range globs {
		globs[i].sort()
	}
	return globs, nil
}

func (g *Glob) add(o *Glob) {
	g.Objects = append(g.Objects, o.Objects...)
	g.Links = append(g.Links, o.Links...)
	g.TooDeep = append(g.TooDeep, o.TooDeep...)
	g.Unreadable = append(g.Unreadable, o.Unreadable...)
}

func (g *Glob) sort() {
	slices.SortFunc(g.Objects, compareObjects)
	g.Objects = slices.CompactFunc(g.Objects, func(a, b Object) bool { return a.Path == b.Path }) // above several roots
	slices.SortFunc(g.Links, compareObjects)
	slices.SortFunc(g.TooDeep, comparePaths)
	slices.SortFunc(g.Unreadable, compareUnreadable)
}

// enter returns the states at a root, or nil if no pattern can match below. Matches at or above it are added to the globs.
func enter(globs []Glob, root string) (*front, error) {
	var items []*item
	for i := range globs {
		g := &globs[i]
		p := &g.Pattern
		if p.text == "" {
			continue
		}
		set := p.closure(1)
		for at := 0; ; {
			prefix := root[:max(at, 1)]
			if p.accepts(set) && p.Match(prefix) {
				o, err := Stat(prefix)
				if err != nil {
					o = Object{Path: prefix}
				}
				if o.Type != Missing {
					g.Objects = append(g.Objects, o)
					set = 0
				}
			}
			if set == 0 || at >= len(root) || root == "/" {
				break
			}
			end := at + 1
			for end < len(root) && root[end] != '/' {
				end++
			}
			set = p.next(set, []byte(root[at+1:end]))
			at = end
		}
		if it := newItem(i, p, set); it != nil {
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return newFront(items), nil
}

// A front is what can match below a directory. Directories share it.
type front struct {
	items  []*item
	byName bool // the names that matter are all known, so that the directory need not be listed
	steady bool // a directory whose name means nothing has the same front
	every  bool // any entry may match
	// Names that could mean something to an item, by their first and last byte. An item is a bit; beyond 64 they share.
	first, last [256]uint64
}

func newFront(items []*item) *front {
	f := &front{items: items, byName: true, steady: true}
	for i, it := range items {
		f.byName = f.byName && it.byName()
		f.every = f.every || it.every
		f.steady = f.steady && it.p.closure(it.loops) == it.set
		for _, s := range it.steps {
			s := &it.p.segments[s]
			first, last := s.text, s.text
			if s.kind == affix {
				last = s.suffix
			} else if s.kind == glob {
				if last = ""; strings.IndexByte(`*?[{\`, first[0]) >= 0 || first[0] >= utf8.RuneSelf {
					first = ""
				}
			}
			for b := range 256 {
				if first == "" || first[0] == byte(b) {
					f.first[b] |= 1 << (i % 64)
				}
				if last == "" || last[len(last)-1] == byte(b) {
					f.last[b] |= 1 << (i % 64)
				}
			}
		}
	}
	return f
}

// idle reports whether the name means nothing to any item; it may err on the other side.
func (f *front) idle(name []byte) bool {
	return !f.every && f.first[name[0]]&f.last[name[len(name)-1]] == 0
}

// An item is a pattern and its states in a directory, taken apart for quick use.
type item struct {
	index int
	p     *Pattern
	set   uint64
	every bool       // every entry may match
	last  []*segment // an entry that matches one of these may match the pattern
	steps []int      // the segments that a name must match to go on
	loops uint64     // the states that stay
}

func newItem(index int, p *Pattern, set uint64) *item {
	it := &item{index: index, p: p, set: set}
	for i := range p.segments {
		switch s := &p.segments[i]; {
		case set&(1<<i) == 0:
		case s.kind >= stars:
			it.loops |= 1 << i
		default:
			it.steps = append(it.steps, i)
			if p.accepts(p.closure(1 << (i + 1))) {
				it.last = append(it.last, s)
			}
		}
	}
	it.every = p.accepts(p.closure(it.loops))
	if it.loops == 0 && len(it.steps) == 0 {
		return nil
	}
	return it
}

// byName reports whether all names that matter are known.
func (it *item) byName() bool {
	return it.loops == 0 && !slices.ContainsFunc(it.steps, func(i int) bool { return it.p.segments[i].kind != literal })
}

// stepped returns the states that a name leads to other than by "**".
func (it *item) stepped(name []byte) (set uint64) {
	for _, i := range it.steps {
		if it.p.segments[i].match(name) {
			set |= 1 << (i + 1)
		}
	}
	return set
}

func (it *item) mayMatch(name []byte) bool {
	if it.every {
		return true
	}
	for _, s := range it.last {
		if s.match(name) {
			return true
		}
	}
	return false
}

// names are those that matter, if byName.
func (f *front) names() []string {
	var names []string
	for _, it := range f.items {
		for _, i := range it.steps {
			names = append(names, it.p.segments[i].text)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
