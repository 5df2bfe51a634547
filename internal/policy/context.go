package policy

import (
	"path"
	"slices"
)

// FromContext is the origin of what an agent is offered: read items that its profile's context
// selects. They give reading and nothing else, whatever processes.mode says, and take nothing
// from other grants.
const FromContext = "context"

// ContextDir is where what an agent may be offered of its own stands; SkillsDir is where
// Bourn's own skills do. Both lie in $BOURN_HOME.
func ContextDir(bournDir, agent string) string {
	return path.Join(bournDir, "agents", agent, "context")
}

// SkillsDir is described with [ContextDir].
func SkillsDir(bournDir string) string { return path.Join(bournDir, "skills") }

// offered reports whether a grant is of what context may show of $BOURN_HOME, which is
// protected but for that: to read, the agent's own context alone, and Bourn's own skills.
func (req *Request) offered(g Grant) bool {
	if g.From != FromContext || g.Kind != KindRead || req.Agent == "" || req.BournDir == "" {
		return false
	}
	return under(g.Real, ContextDir(req.BournDir, req.Agent)) || under(g.Real, SkillsDir(req.BournDir))
}

// ofContext reports whether an item is of what context selects.
func (c *compiler) ofContext(item int) bool {
	return item >= 0 && c.plan.Items[item].From == FromContext
}

// bournPlace gives the run a $BOURN_HOME of its own, in memory, where context shows something
// of the host's. It hides the host's where a grant would show it, and what the agent puts at
// this path of its home is not what a later run finds there.
func (c *compiler) bournPlace() {
	dir := c.req.BournDir
	if dir == "" || !slices.ContainsFunc(c.plan.Binds, func(b Bind) bool { return c.ofContext(b.Item) && under(b.Path, dir) }) {
		return
	}
	c.plan.Private = append(c.plan.Private, Private{Path: dir, NoExec: true})
}

// hasBournPlace reports whether bournPlace made one.
func (c *compiler) hasBournPlace() bool {
	return slices.ContainsFunc(c.plan.Private, func(p Private) bool { return p.Path == c.req.BournDir })
}

// closeBournPlace makes the run's own $BOURN_HOME read-only, once all that is shown in it has
// its place.
func (c *compiler) closeBournPlace(item int) {
	for _, pin := range c.req.BournPins {
		c.pin(pin)
	}
	c.plan.Guards = append(c.plan.Guards, Guard{Path: c.req.BournDir, Dir: true, Item: item})
}

// offerCaveat says what is offered, and what else gives more there.
func (c *compiler) offerCaveat(g Grant) string {
	at, _ := c.plan.view(g.Real)
	granted := at.Source == "" && at.Item >= 0 && !c.ofContext(at.Item) && !c.req.offered(g)
	switch {
	case granted && at.Write:
		return "offered to read; what writes there is the grant of " + at.Path
	case granted && !at.NoExec:
		return "offered to read; what executes there is the grant of " + at.Path
	case !g.Dir:
		return "offered to read; when the host replaces the file, the old content stays visible until the next start"
	}
	return "offered to read: nothing in it is executed or written"
}
