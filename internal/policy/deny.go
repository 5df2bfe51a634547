package policy

import (
	"path"
	"slices"
)

// What is said of what does not exist yet: a denied path is closed when it appears, a
// guarded one is looked for when the run ends.
const (
	watched = "does not exist yet: watched, not prevented"
	// LookedAt is the reason of a guarded place that does not exist.
	LookedAt = "does not exist yet: reported if it appears, not prevented"
)

func (c *compiler) denies() {
	for i := range c.req.Denies {
		d := &c.req.Denies[i]
		if d.Glob {
			c.denyPattern(d)
		}
		if !d.Glob || d.Exists {
			c.denyPlace(d, d.Pattern, d.Place, "")
		}
		for _, m := range d.More {
			c.denyPlace(d, m.Path, m.Place, m.Why)
		}
		for _, b := range d.Blind {
			c.denyPlace(d, b.Path, b, "it cannot be searched for what "+d.Pattern+" denies, so all of it is closed; hard links of its files elsewhere are not known")
		}
	}
}

// denyPattern lists every match as an item of its own, and the pattern's future part,
// which nothing prevents.
func (c *compiler) denyPattern(d *Deny) {
	for _, m := range d.Matches {
		c.denyPlace(d, m.Path, m, "")
	}
	item := c.drop(KindDeny, d.Pattern, d.From, "what matches later is watched, not prevented")
	if len(d.Through) > 0 {
		c.plan.Items[item].Reason += "; what the symlink " + clip(d.Through[0], 200) + " leads to was not searched"
	}
	if len(d.Dirs) > maxWatchedDirs {
		c.plan.Items[item].Reason = "what matches later is neither watched nor prevented: it spans too many directories"
		return
	}
	for _, dir := range d.Dirs {
		if v, ok := c.plan.view(dir); ok && v.Source == "" {
			c.plan.Watches = append(c.plan.Watches, Watch{Dir: dir, Pattern: d.Pattern, Empty: d.Style == StyleEmpty, Item: item})
		}
	}
}

// maxWatchedDirs bounds the inotify watches that one pattern may cost.
const maxWatchedDirs = 4096

// denyPlace closes one place: what stands there is masked, wherever the run would see
// it. A symlink is closed by closing what it points to.
func (c *compiler) denyPlace(d *Deny, target string, p Place, why string) {
	item := c.keep(KindDeny, target, d.From, byMount)
	it := &c.plan.Items[item]
	it.Operations = d.Operations
	if why == "" && len(d.Operations) > 0 {
		why = blockCaveat("closed", d.Reason)
	}
	it.Caveat = why
	if d.Unsearched && why == "" {
		it.Caveat = "it cannot be read, so hard links of its files elsewhere are not known"
	}
	if reason := undeniable(p); reason != "" {
		it.Fate, it.By, it.Reason = Dropped, nil, reason
		return
	}
	empty := d.Style == StyleEmpty
	view, shown := c.plan.view(p.Real)
	switch {
	case !shown:
		it.By = []string{byNamespace, byLandlock}
		c.plan.Copies = without(c.plan.Copies, p)
		if c.plan.leadsToSomething(p.Real) {
			c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Item: item})
		}
	case view.private() && view.Path == c.req.BournDir:
		it.By = []string{byNamespace} // the run's own, which nobody can write
	case view.private() || c.ownHome(view):
		// What stands here is the run's own: the name is taken before the run can.
		c.plan.Stubs = append(c.plan.Stubs, p.Real)
		c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Item: item})
	case p.Made, !p.Exists && d.Placeholder && view.Write:
		it.Caveat = c.placehold(p, view, item)
	case !p.Exists:
		it.Fate, it.By, it.Reason = Dropped, nil, watched
		if d.Placeholder {
			it.Reason += "; a placeholder stands only where the run can write"
		}
		c.watch(p.Real, empty, item)
	default:
		c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Dir: p.Dir, Empty: empty && p.Dir, Object: p.Object, Item: item})
		c.watch(p.Real, empty, item)
		for _, dir := range d.Pins {
			if under(p.Real, dir) {
				c.pin(dir)
			}
		}
		if len(d.Operations) > 0 {
			it.Caveat += c.byLink(p)
		}
		if empty && p.Dir && it.Caveat == "" {
			it.Caveat = "shown as an empty directory"
		}
		if p.Symlink && it.Caveat == "" {
			it.Caveat = "a symlink: what it points to is closed, the link itself can be replaced"
		}
	}
}

// undeniable returns why no mask can be put on p, or "".
func undeniable(p Place) string {
	for _, own := range []string{"/proc", "/dev", "/run"} {
		if under(p.Real, own) && !under(p.Real, "/dev/shm") {
			return "every run has a " + own + " of its own, and nothing in it can be denied"
		}
	}
	switch {
	case p.Real == "/":
		return "too broad: nothing could run"
	case p.Err != "":
		return p.Err
	}
	return ""
}

// ownHome reports whether b shows the agent's own home.
func (c *compiler) ownHome(b Bind) bool {
	return c.req.AgentHome != "" && b.Source == c.req.AgentHome
}

// leadsToSomething reports whether dir stands inside as a directory on the way to what is
// shown below it.
func (p *Plan) leadsToSomething(dir string) bool {
	return slices.ContainsFunc(p.Binds, func(b Bind) bool { return under(b.Path, dir) }) ||
		slices.ContainsFunc(p.Private, func(d Private) bool { return under(d.Path, dir) })
}

func without(copies []string, p Place) []string {
	return slices.DeleteFunc(copies, func(at string) bool {
		return under(at, p.Real) || p.Path != "" && under(at, p.Path)
	})
}

// watch asks for a mask whenever something new stands at p: the host may replace what
// is denied, and what does not exist yet may appear.
func (c *compiler) watch(p string, empty bool, item int) {
	c.plan.Watches = append(c.plan.Watches, Watch{Dir: path.Dir(p), Name: path.Base(p), Empty: empty, Item: item})
}

// protects closes what lies inside a grant and may never be granted: $BOURN_HOME, kernel
// file systems mounted below it, and the rows of the table.
func (c *compiler) protects() {
	if c.req.BournDir != "" {
		c.protect(Inner{Place: Place{Path: c.req.BournDir, Real: c.req.BournDir, Exists: c.req.BournMade, Dir: true},
			Reason: "it holds the keys and profiles of agents", Pins: c.req.BournPins})
	}
	for _, p := range c.req.Inner {
		c.protect(p)
	}
}

// protect closes one protected place, or makes it read-only.
func (c *compiler) protect(p Inner) {
	view, shown := c.plan.view(p.Real)
	switch {
	case shown && view.Source == "" && p.Write && !view.Write, c.plan.masked(p.Real):
		return // nobody can write there
	case shown && view.Source == "" && !p.Exists:
		c.drop(KindProtect, p.Path, "default", LookedAt)
		c.plan.Late = append(c.plan.Late, Late{Path: p.Path, Reason: p.Reason})
		return
	case !shown || view.Source != "":
		item := c.keep(KindProtect, p.Real, "default", byNamespace, byLandlock)
		c.plan.Items[item].Caveat = p.Reason
		if p.Real == c.req.BournDir && c.hasBournPlace() {
			c.closeBournPlace(item)
		}
		return
	}
	for _, pin := range p.Pins {
		c.pin(pin)
	}
	item := c.keep(KindProtect, p.Real, "default", byMount)
	c.plan.Items[item].Caveat = p.Reason
	if p.Write {
		c.guard(Guard{Path: p.Real, Dir: p.Dir, Object: p.Object, Item: item}, Late{p.Path, p.Reason, p.Name})
		return
	}
	c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Dir: p.Dir, Object: p.Object, Item: item})
}

// guards makes read-only what runs code on the host later.
func (c *compiler) guards() {
	for _, g := range c.req.Guarded {
		if g.Link {
			c.plan.Late = append(c.plan.Late, Late{g.Path, g.Reason, g.Name})
			continue
		}
		view, shown := c.plan.view(g.Real)
		if !shown || !view.Write || view.Source != "" || c.plan.masked(g.Real) || g.Dir && under(view.Path, g.Real) {
			continue
		}
		if view.Path == g.Real {
			it := &c.plan.Items[view.Item]
			it.Fate, it.By, it.Reason, it.Caveat = Dropped, nil, "read-only: "+g.Reason, ""
		}
		if !g.Exists {
			c.drop(KindProtect, g.Path, "default", LookedAt)
			c.plan.Late = append(c.plan.Late, Late{Path: g.Path, Reason: g.Reason})
			continue
		}
		for _, pin := range g.Pins {
			c.pin(pin)
		}
		item := c.keep(KindProtect, g.Real, "default", byMount)
		if g.Special { // a read-only mount does not keep a fifo from being written
			c.plan.Items[item].Caveat = "closed: " + g.Reason
			c.plan.Masks = append(c.plan.Masks, Mask{Path: g.Real, Object: g.Object, Item: item})
			c.plan.Late = append(c.plan.Late, Late{g.Path, g.Reason, g.Name})
			continue
		}
		c.plan.Items[item].Caveat = "read-only: " + g.Reason
		if g.Dir {
			c.plan.Items[item].Caveat += "; a fifo in it can be written"
		}
		if g.Hidden {
			c.plan.Items[item].Caveat += "; hard links of it in directories that cannot be searched are not guarded"
		}
		if g.Path != g.Real {
			c.plan.Items[item].Caveat += "; " + g.Path + " is a symlink to it and can be replaced, which is reported"
		}
		c.guard(Guard{Path: g.Real, Dir: g.Dir, Object: g.Object, Item: item}, Late{g.Path, g.Reason, g.Name})
		if g.Quiet {
			c.plan.Late = c.plan.Late[:len(c.plan.Late)-1]
		}
	}
}

// unsearched says which directories of write grants were not looked through.
func (c *compiler) unsearched() {
	for _, dir := range c.req.Unsearched {
		c.drop(KindProtect, dir+"/*", "default", "more directories than are looked through at a start: projects there are not guarded")
	}
}

// guard adds a guard, a watch that renews it, and a look at it when the run ends.
func (c *compiler) guard(g Guard, end Late) {
	c.plan.Guards = append(c.plan.Guards, g)
	c.plan.Watches = append(c.plan.Watches, Watch{Dir: path.Dir(g.Path), Name: path.Base(g.Path), Guard: true, Item: g.Item})
	c.plan.Late = append(c.plan.Late, end)
}

// pin keeps a directory's name, unless it is the top of a bind and keeps it anyway.
func (c *compiler) pin(dir string) {
	view, shown := c.plan.view(dir)
	if !shown || view.Path == dir || c.plan.masked(dir) ||
		slices.ContainsFunc(c.plan.Guards, func(g Guard) bool { return g.Path == dir }) {
		return
	}
	c.plan.Guards = append(c.plan.Guards, Guard{Path: dir, Dir: true, Pin: true, Item: -1})
}
