package policy

import (
	"cmp"
	"strings"
)

// A ToolWish is what a profile says of the governed tools that a pattern names.
type ToolWish struct {
	Tool   string
	Policy string // allow, ask or deny
	Tier   string // "" for none
}

// Mechanisms of what no kernel keeps for the agent's own process.
const (
	byGate     = "gate"
	byGateOnly = "gate only" // and the agent's own process is not asked
	ByActor    = "actor"     // the seal of the process that performs governed tools
)

// ToolsOnly is the target of the item that says that governed tools alone have the grants.
const ToolsOnly = "tools.only: the agent's own process has its home and its model's hosts"

// tools adds an item for every rule about governed tools. The gate keeps each: whether the
// agent could do the same by itself is what ToolsOnly says.
func (c *compiler) tools() {
	if c.req.ToolsOnly {
		c.keep(KindTool, ToolsOnly, "profile", byNamespace, byLandlock)
	}
	if among := c.req.ToolsAmong; among != nil {
		c.keep(KindTool, "tools: among "+cmp.Or(strings.Join(among, ", "), "none"), FromSubagent, byGate)
	}
	for _, w := range c.req.Tools {
		target := w.Tool + ": " + w.Policy
		if w.Tier != "" {
			target += ", tier " + w.Tier
		}
		if c.req.ToolsOnly {
			c.keep(KindTool, target, "profile", byGate)
			continue
		}
		item := c.keep(KindTool, target, "profile", byGateOnly)
		if w.Policy != "allow" {
			c.caveat(item, "gate only: the agent's own shell and programs are not asked, but with tools.only: true")
		}
	}
}
