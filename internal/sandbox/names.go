package sandbox

import (
	"fmt"
	"path"
	"slices"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// Here is how the other names of denied objects are found: those to which they were
// renamed, their hard links, and second mounts.

// remembered finds denied objects that were renamed away since an earlier run: the
// object stays denied under its new name. Where the search could not see everything,
// nothing may start, since the object may be what was not seen.
func (g *gatherer) remembered() error {
	var wanted []survey.ID
	owner := map[int]*policy.Deny{}
	var gone []Remembered
	patterns := map[string]int{}
	for i, d := range g.req.Denies {
		patterns[d.Pattern] = i
	}
	g.indexDenied()
	for _, r := range g.opt.Remembered {
		i, ok := patterns[r.Pattern]
		if !ok {
			continue
		}
		if g.stillThere(r) {
			// Either its name is denied, or it was found under this one before.
			if !g.closed(r.Path) {
				g.alias(&g.req.Denies[i], r.Path, "denied in an earlier run under another name")
			}
			continue
		}
		owner[len(gone)] = &g.req.Denies[i]
		gone = append(gone, r)
		wanted = append(wanted, survey.ID(r.Object))
	}
	if len(wanted) == 0 {
		return nil
	}
	found, err := survey.Find(wanted, g.roots)
	if err != nil {
		return err
	}
	if !found.Complete() {
		return bourn.WithHint(fmt.Errorf("%w: %q was denied in an earlier run and is not at its place, and %q cannot be searched for it",
			bourn.ErrDenied, gone[0].Path, found.Unreadable[0].Path),
			"make that directory readable for yourself, or move it out of the grants, and start again")
	}
	if err := g.inOtherHands(gone, found); err != nil {
		return err
	}
	for _, o := range found.Objects {
		for j, id := range wanted {
			if id.Is(o.ID()) {
				g.alias(owner[j], o.Path, "the denied "+bourn.Printable(gone[j].Path)+" under another name")
			}
		}
	}
	return nil
}

// inOtherHands refuses when a remembered object was not found and a run that lives now can
// move it about: it may have been where the search had been already.
func (g *gatherer) inOtherHands(gone []Remembered, found survey.Finding) error {
	for _, r := range gone {
		if g.opt.LiveWrites == nil || !g.granted(r.Root) ||
			slices.ContainsFunc(found.Objects, func(o survey.Object) bool { return o.ID().Is(survey.ID(r.Object)) }) {
			continue
		}
		live, err := g.opt.LiveWrites()
		if err != nil {
			return err
		}
		for _, w := range live {
			if policy.Under(r.Root, w) || policy.Under(w, r.Root) {
				return bourn.WithHint(fmt.Errorf("%w: %q was denied in an earlier run and is not at its place, and a run that can write %q may be moving it",
					bourn.ErrDenied, r.Path, w), "end that run, and start again")
			}
		}
	}
	return nil
}

func (g *gatherer) stillThere(r Remembered) bool {
	if o, ok := g.index[r.Path]; ok && survey.ID(o).Is(survey.ID(r.Object)) {
		return true // it was just looked at
	}
	o, err := survey.Stat(r.Path)
	return err == nil && o.ID().Is(survey.ID(r.Object))
}

// alias adds another name of a denied object, unless that name is denied by itself.
func (g *gatherer) alias(d *policy.Deny, at, why string) {
	p := place(at)
	for _, m := range d.More {
		if m.Path == p.Path {
			return
		}
	}
	if p.Path == d.Real {
		return
	}
	d.More = append(d.More, policy.Alias{Place: p, Why: why})
	if g.index != nil {
		g.index[p.Real] = p.Object
	}
}

// links finds the hard links that lie in grants of files that are denied elsewhere.
func (g *gatherer) links() error {
	var wanted []survey.ID
	names := map[survey.ID]string{}
	owners := map[survey.ID]*policy.Deny{}
	add := func(d *policy.Deny, o survey.Object) {
		id := o.ID()
		if owners[id] == nil {
			wanted = append(wanted, id)
			owners[id], names[id] = d, o.Path
		}
	}
	err := g.denied(func(d *policy.Deny, p policy.Place) error {
		if !p.Dir {
			if p.Nlink > 1 {
				add(d, survey.Object{Path: p.Real, Dev: p.Object.Dev, Ino: p.Object.Ino, Born: p.Object.Born})
			}
			return nil
		}
		found, err := survey.Linked(p.Real)
		if err != nil {
			return err
		}
		for _, o := range found.Objects {
			add(d, o)
		}
		d.Unsearched = d.Unsearched || !found.Complete()
		return nil
	})
	if err != nil || len(wanted) == 0 {
		return err
	}
	found, err := survey.Find(wanted, g.roots)
	if err != nil {
		return err
	}
	for _, u := range found.Unreadable {
		g.blind(owners[wanted[0]], u.Path)
	}
	for _, o := range found.Objects {
		id := o.ID()
		d := owners[id]
		if d == nil || g.closed(o.Path) {
			continue
		}
		g.alias(d, o.Path, "a hard link of the denied "+bourn.Printable(names[id]))
	}
	return nil
}

// closed reports whether a deny closes p already.
func (g *gatherer) closed(p string) bool {
	g.indexDenied()
	for {
		if _, ok := g.index[p]; ok || p == "/" {
			return ok
		}
		p = path.Dir(p)
	}
}

// indexDenied indexes what is denied, once: it is asked for every remembered and every
// found object.
func (g *gatherer) indexDenied() {
	if g.index != nil {
		return
	}
	g.index = map[string]policy.Object{}
	_ = g.denied(func(_ *policy.Deny, at policy.Place) error {
		g.index[at.Real] = at.Object
		return nil
	})
}

// mounts finds second mounts of denied objects inside grants, and kernel file systems.
func (g *gatherer) mounts() error {
	if len(g.roots) == 0 {
		return nil
	}
	table, err := survey.Mounts()
	if err != nil {
		return err
	}
	g.secondMounts(table)
	g.blockMounts(table)
	err = g.denied(func(d *policy.Deny, p policy.Place) error {
		others := table.Aliases(p.Real)
		if p.Dir {
			others = append(others, table.Parts(p.Real)...)
			for _, m := range table.Below(p.Real) {
				others = append(others, table.Aliases(m.Point)...)
			}
		}
		for _, at := range others {
			if g.granted(at) && !g.closed(at) {
				g.alias(d, at, "the denied "+bourn.Printable(p.Path)+" through another mount")
			}
		}
		return nil
	})
	for _, root := range g.roots {
		for _, m := range table.Below(root) {
			if kernelFS[m.FSType] {
				g.req.Inner = append(g.req.Inner, policy.Inner{Place: place(m.Point), Reason: "a kernel file system is mounted there"})
			}
		}
	}
	return err
}

// secondMounts closes other paths to $BOURN_HOME inside grants, and drops grants that are
// a home under another name.
func (g *gatherer) secondMounts(table survey.Table) {
	if g.req.BournDir != "" {
		for _, at := range append(table.Aliases(g.req.BournDir), table.Parts(g.req.BournDir)...) {
			if g.granted(at) {
				g.req.Inner = append(g.req.Inner, policy.Inner{Place: place(at), Reason: "it is " + g.req.BournDir + " through another mount"})
			}
		}
	}
	for _, h := range g.req.Homes {
		g.req.HomeAliases = append(g.req.HomeAliases, table.Aliases(h)...)
	}
}

// kernelFS are file systems through which the kernel itself is read and set.
var kernelFS = map[string]bool{"proc": true, "sysfs": true, "devpts": true, "devtmpfs": true, "cgroup": true, "cgroup2": true,
	"securityfs": true, "debugfs": true, "tracefs": true, "bpf": true, "configfs": true, "efivarfs": true, "mqueue": true, "binfmt_misc": true}
