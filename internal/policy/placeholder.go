package policy

import (
	"path"
	"slices"
)

// placehold takes the name of a denied path that does not exist: an empty object is made on
// the host before the seal, and masked. The directories on the way to it keep their names, so
// that none can be renamed away and made anew. It returns what the item does not cover.
func (c *compiler) placehold(p Place, view Bind, item int) (caveat string) {
	c.plan.Placeholders = append(c.plan.Placeholders, Placeholder{Path: p.Real, Item: item})
	c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Item: item})
	c.watch(p.Real, false, item)
	caveat = "an empty file stands there on the host while it runs, and git status lists it"
	if dir := madeFor(p); dir != "" {
		caveat += "; the directory " + dir + " is made for it, and goes with it unless it holds other things then"
	}
	if link, ok := c.replaceable(p); ok {
		caveat += "; " + link + " on the way to it is a symlink, and can be replaced"
	}
	between := false
	for dir := path.Dir(p.Real); view.Write && dir != view.Path && under(dir, view.Path); dir = path.Dir(dir) {
		c.pin(dir)
		between = true
	}
	if between {
		caveat += "; a rename or link out of its directory crosses a mount (EXDEV)"
	}
	return caveat
}

// madeFor returns the outermost directory that is made for the placeholder of a path, or "".
func madeFor(p Place) string {
	if p.Exists || p.Ancestor == "" {
		return ""
	}
	top := ""
	for dir := path.Dir(p.Real); dir != p.Ancestor && under(dir, p.Ancestor); dir = path.Dir(dir) {
		top = dir
	}
	return top
}

// replaceable returns a symlink on the way to a path that the run can replace.
func (c *compiler) replaceable(p Place) (link string, ok bool) {
	i := slices.IndexFunc(p.Links, func(l Link) bool {
		view, shown := c.plan.view(l.At)
		return shown && view.Write
	})
	if i < 0 {
		return "", false
	}
	return p.Links[i].At, true
}

// placeholders keeps those that no mask of a parent makes needless, each once, parents before
// children.
func (c *compiler) placeholders() {
	if len(c.plan.Placeholders) == 0 {
		return
	}
	masked := map[string]bool{}
	for _, m := range c.plan.Masks {
		masked[m.Path] = true
	}
	c.plan.Placeholders = slices.DeleteFunc(c.plan.Placeholders, func(p Placeholder) bool { return !masked[p.Path] })
	slices.SortStableFunc(c.plan.Placeholders, func(a, b Placeholder) int { return len(a.Path) - len(b.Path) })
	seen := map[string]bool{}
	c.plan.Placeholders = slices.DeleteFunc(c.plan.Placeholders, func(p Placeholder) bool {
		again := seen[p.Path]
		seen[p.Path] = true
		return again
	})
}
