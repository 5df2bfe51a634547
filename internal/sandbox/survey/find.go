package survey

import (
	"fmt"
	"slices"
)

// A Finding is what a search came upon, in the order of paths.
type Finding struct {
	Objects    []Object
	Unreadable []Unreadable // where more may be
}

// Complete reports whether everything was looked at.
func (f Finding) Complete() bool { return len(f.Unreadable) == 0 }

// Find returns every path at or below the roots where one of the wanted objects stands: other hard links, what was renamed away, the
// same directory through a second mount. Roots are as for Expand. Only entries that bear a wanted inode number are examined, where the
// file system gives the true ones; else, and where the mount table cannot be read, all are.
func Find(wanted []ID, roots []string) (Finding, error) {
	table, err := Mounts()
	f := finder{blind: err != nil, wanted: wanted, inodes: make(map[uint64]bool, len(wanted))}
	for _, id := range wanted {
		f.inodes[id.Ino] = true
	}
	// An entry that is a mount point bears the number of what the mount covers.
	var points []string
	if len(wanted) > 0 {
		for _, root := range roots {
			for _, m := range table.Below(root) {
				points = append(points, m.Point)
			}
		}
	}
	return search(roots, points, func() *finder {
		own := f
		own.honest = map[uint64]bool{}
		return &own
	})
}

// Linked returns what lies at or below root and has more than one hard link, directories aside: their other names may be anywhere on
// the file system. Root is as for Expand.
func Linked(root string) (Finding, error) {
	return search([]string{root}, nil, func() *linker { return &linker{} })
}

// A seeker is a visitor that collects.
type seeker interface {
	visitor
	take(Object)
	finding() *Finding
}

// search has seekers walk the roots. The roots and points themselves, which are no entries of what is walked, are shown to the first.
func search[S seeker](roots, points []string, newSeeker func() S) (Finding, error) {
	roots = outermost(roots)
	first := newSeeker()
	var start []*node
	for _, root := range roots {
		if !absolute(root) {
			return Finding{}, fmt.Errorf("cannot search %q: not an absolute clean path", root)
		}
		start = append(start, &node{name: root, path: root, size: len(root)})
	}
	for _, p := range slices.Concat(roots, points) {
		switch o, err := stat(p); {
		case err == nil:
			first.take(o)
		case !absent(err):
			first.finding().Unreadable = append(first.finding().Unreadable, Unreadable{p, err})
		}
	}
	all := *first.finding()
	for _, s := range run(start, newSeeker) {
		all.Objects = append(all.Objects, s.finding().Objects...)
		all.Unreadable = append(all.Unreadable, s.finding().Unreadable...)
	}
	slices.SortFunc(all.Objects, compareObjects)
	all.Objects = slices.CompactFunc(all.Objects, func(a, b Object) bool { return a.Path == b.Path })
	slices.SortFunc(all.Unreadable, compareUnreadable)
	all.Unreadable = slices.CompactFunc(all.Unreadable, sameUnreadable)
	return all, nil
}

// A collector is what the seekers have in common.
type collector struct{ result Finding }

func (c *collector) finding() *Finding { return &c.result }

func (c *collector) unreadable(n *node, err error) *node {
	c.result.Unreadable = append(c.result.Unreadable, Unreadable{n.fullPath(), err})
	return nil
}

type finder struct {
	collector
	wanted []ID
	inodes map[uint64]bool
	honest map[uint64]bool // by device
	blind  bool            // trust no inode number of an entry
}

func (f *finder) take(o Object) {
	if slices.ContainsFunc(f.wanted, o.ID().Is) {
		f.result.Objects = append(f.result.Objects, o)
	}
}

func (f *finder) visit(d *dir) error {
	honest := !f.blind && f.trusts(d.handle)
	var failed error
	err := d.each(func(e entry) {
		kind := e.kind
		if !honest || f.inodes[e.ino] || kind == Unknown {
			o, err := d.stat(string(e.name))
			switch {
			case err == nil:
				f.take(o)
				kind = o.Type
			case !absent(err):
				failed = err
			}
		}
		if kind == Dir {
			d.push(e.name)
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// trusts reports whether the entries of the directory bear the inode numbers that stat would give.
func (f *finder) trusts(h handle) bool {
	dev, err := h.device()
	if err != nil {
		return false
	}
	known, ok := f.honest[dev]
	if !ok {
		known = h.honest()
		f.honest[dev] = known
	}
	return known
}

type linker struct{ collector }

func (l *linker) take(o Object) {
	if o.Type != Dir && o.Nlink > 1 {
		l.result.Objects = append(l.result.Objects, o)
	}
}

func (l *linker) visit(d *dir) error {
	var failed error
	err := d.each(func(e entry) {
		if e.kind == Dir {
			d.push(e.name)
			return
		}
		o, err := d.stat(string(e.name))
		switch {
		case err != nil && !absent(err):
			failed = err
		case err == nil && o.Type == Dir:
			d.push(e.name)
		case err == nil:
			l.take(o)
		}
	})
	if err == nil {
		err = failed
	}
	return err
}
