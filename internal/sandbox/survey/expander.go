package survey

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
)

// An expander is one worker's part of Expand.
type expander struct {
	globs  []Glob
	visits []visit
	size   *atomic.Int64

	d    *dir
	next []*item // of the entry at hand

	items map[states]*item // made so far
	made  *front           // made last
}

type states struct {
	index int
	set   uint64
}

type visit struct {
	path  string
	front *front
}

// unreadable has what may not be listed looked into for the patterns that give the names.
func (e *expander) unreadable(n *node, err error) *node {
	path := n.fullPath()
	var named []*item
	for _, it := range n.front.items {
		if errors.Is(err, syscall.EACCES) && !n.byName && it.byName() {
			named = append(named, it)
			continue
		}
		g := &e.globs[it.index]
		g.Unreadable = append(g.Unreadable, Unreadable{path, err})
	}
	if named == nil {
		return nil
	}
	again := *n
	again.front, again.byName = newFront(named), true
	return &again
}

func (e *expander) visit(d *dir) error {
	if e.size.Load() > maxResult {
		return nil
	}
	if d.path != "" {
		e.visits = append(e.visits, visit{d.path, d.front})
	} else if d.parent.path != "" {
		path := d.fullPath()
		for _, it := range d.front.items {
			e.globs[it.index].TooDeep = append(e.globs[it.index].TooDeep, path)
		}
	}
	e.d = d
	if !d.byName {
		return d.each(e.entry)
	}
	var failed error
	for _, name := range d.front.names() {
		o, err := d.stat(name)
		if absent(err) {
			continue
		}
		if err != nil {
			failed = err
		}
		e.entry(entry{name: []byte(name), kind: o.Type})
	}
	return failed
}

func (e *expander) entry(n entry) {
	d := e.d
	f := d.front
	if n.kind == Unknown {
		o, err := d.stat(string(n.name))
		if absent(err) {
			return
		}
		n.kind = o.Type // still Unknown if it may not be examined; then opening it tells
	}
	enters := n.kind == Dir || n.kind == Unknown
	if f.idle(n.name) && (!enters || f.steady) {
		if enters {
			e.push(n.name, f)
		}
		return
	}
	same := true
	e.next = e.next[:0]
	for _, it := range f.items {
		if it.mayMatch(n.name) && e.hit(it, n) {
			same = false
			continue
		}
		if !enters {
			if n.kind == Symlink && (it.leads(n.name) || it.every && it.p.opaque()) {
				e.found(&e.globs[it.index].Links, n)
			}
			continue
		}
		set := it.p.closure(it.loops | it.stepped(n.name))
		if set != it.set {
			same = false
			if it = e.item(it, set); it == nil {
				continue
			}
		}
		e.next = append(e.next, it)
	}
	if !enters || len(e.next) == 0 {
		return
	}
	if !same {
		if e.made == nil || !slices.Equal(e.made.items, e.next) {
			e.made = newFront(slices.Clone(e.next))
		}
		f = e.made
	}
	e.push(n.name, f)
}

func (e *expander) push(name []byte, f *front) {
	n := e.d.push(name)
	n.front, n.byName = f, f.byName
}

// item returns the pattern of it with other states, nil if nothing can match any more.
func (e *expander) item(it *item, set uint64) *item {
	k := states{it.index, set}
	made, ok := e.items[k]
	if !ok {
		made = newItem(it.index, it.p, set)
		if e.items == nil {
			e.items = map[states]*item{}
		}
		e.items[k] = made
	}
	return made
}

// leads reports whether the name is that of a directory in the pattern, with more to come.
func (it *item) leads(name []byte) bool {
	for _, i := range it.steps {
		if i+1 < len(it.p.segments) && it.p.segments[i].match(name) {
			return true
		}
	}
	return false
}

// hit records n if it matches as a whole.
func (e *expander) hit(it *item, n entry) bool {
	if !it.p.Match(e.d.join(string(n.name))) {
		return false
	}
	e.found(&e.globs[it.index].Objects, n)
	return true
}

// found adds n to list, unless it has vanished.
func (e *expander) found(list *[]Object, n entry) {
	o, err := e.d.stat(string(n.name))
	if absent(err) {
		return
	}
	if err != nil {
		o = Object{Path: e.d.join(string(n.name)), Type: n.kind}
	}
	if e.size.Add(int64(len(o.Path))) <= maxResult {
		*list = append(*list, o)
	}
}
