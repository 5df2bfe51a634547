package policy

import (
	"path"
	"slices"
)

const watched = "does not exist yet: watched, not prevented"

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
	}
}

// denyPattern lists every match as an item of its own, and the pattern's future part,
// which nothing prevents.
func (c *compiler) denyPattern(d *Deny) {
	for _, m := range d.Matches {
		c.denyPlace(d, m.Path, m, "")
	}
	item := c.drop(KindDeny, d.Pattern, d.From, "what matches later is watched, not prevented")
	if len(d.Blind) > 0 {
		c.plan.Items[item].Reason += "; not searched: " + clip(d.Blind[0], 200)
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
	it.Caveat = why
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
		for _, at := range c.plan.below(p.Real) {
			c.plan.Masks = append(c.plan.Masks, Mask{Path: at, Item: item})
		}
	case view.private() || c.ownHome(view):
		// What stands here is the run's own: the name is taken before the run can.
		c.plan.Stubs = append(c.plan.Stubs, p.Real)
		c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Item: item})
	case !p.Exists:
		it.Fate, it.By, it.Reason = Dropped, nil, watched
		c.watch(p.Real, empty, item)
	default:
		c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Dir: p.Dir, Empty: empty && p.Dir, Object: p.Object, Item: item})
		c.watch(p.Real, empty, item)
		if p.Symlink && why == "" {
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

// below returns the paths of what is shown under dir.
func (p *Plan) below(dir string) []string {
	var out []string
	for _, b := range p.Binds {
		if under(b.Path, dir) {
			out = append(out, b.Path)
		}
	}
	for _, d := range p.Private {
		if under(d.Path, dir) {
			out = append(out, d.Path)
		}
	}
	return out
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

// protects closes what lies inside a grant and may never be granted: $BOURN_HOME,
// kernel file systems mounted below it, and the rows of the table.
func (c *compiler) protects() {
	if c.req.BournDir != "" {
		c.protectPlace(Place{Path: c.req.BournDir, Real: c.req.BournDir, Exists: true, Dir: true}, "it holds the keys and profiles of agents", false)
	}
	for _, p := range c.req.Foreign {
		c.protectPlace(p, "a kernel file system is mounted there", false)
	}
}

// protectPlace closes one protected place, or makes it read-only.
func (c *compiler) protectPlace(p Place, reason string, readOnly bool) {
	view, shown := c.plan.view(p.Real)
	inGrant := shown && view.Source == ""
	if !inGrant {
		item := c.keep(KindProtect, p.Real, "default", byNamespace, byLandlock)
		c.plan.Items[item].Caveat = reason
		return
	}
	item := c.keep(KindProtect, p.Real, "default", byMount)
	c.plan.Items[item].Caveat = reason
	if readOnly {
		c.plan.Guards = append(c.plan.Guards, Guard{Path: p.Real, Dir: p.Dir, Object: p.Object, Item: item})
		return
	}
	c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Dir: p.Dir, Object: p.Object, Item: item})
}

// guards makes read-only what runs code on the host later.
func (c *compiler) guards() {
	pinned := map[string]bool{}
	for _, g := range c.req.Guarded {
		view, shown := c.plan.view(g.Real)
		if !shown || !view.Write || view.Source != "" || c.plan.masked(g.Real) {
			continue
		}
		if !g.Exists {
			c.drop(KindProtect, g.Path, "default", watched)
			c.plan.Late = append(c.plan.Late, Late{Path: g.Path, Reason: g.Reason})
			continue
		}
		if g.Pin != "" && !pinned[g.Pin] && g.Pin != view.Path {
			pinned[g.Pin] = true
			c.plan.Guards = append(c.plan.Guards, Guard{Path: g.Pin, Dir: true, Pin: true, Item: -1})
		}
		item := c.keep(KindProtect, g.Real, "default", byMount)
		c.plan.Items[item].Caveat = "read-only: " + g.Reason
		c.plan.Guards = append(c.plan.Guards, Guard{Path: g.Real, Dir: g.Dir, Object: g.Object, Item: item})
		c.plan.Watches = append(c.plan.Watches, Watch{Dir: path.Dir(g.Real), Name: path.Base(g.Real), Guard: true, Item: item})
	}
}
