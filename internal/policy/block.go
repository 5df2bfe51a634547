package policy

import (
	"path"
	"slices"
	"strings"

	"bourn"
)

// BlockPrefix begins the origin of what stems from a hard block; the block's id follows.
const BlockPrefix = "boundary:"

// GateOnly begins the reason of an item that no kernel keeps: whoever asks the gate is
// refused, and the command's own programs do not ask.
const GateOnly = "gate only: "

// A Block is a hard block of the operator's that is no deny: one that a seal keeps by letting
// nobody write, or one that it cannot keep.
type Block struct {
	From       string // BlockPrefix and the id
	Operations []bourn.Operation
	Reason     string // what the rule says, "" for nothing
	Target     string // what it is about, as it is shown
	Gate       string // why a seal cannot keep it; with it, nothing below is set

	// Tree says that the rule is about what is below the path too. Name says that it is about
	// deleting alone.
	Tree, Name bool
	Place
	Pins   []string // as for Guarded
	More   []Alias  // further names of the same objects
	Hidden bool     // there may be more of them, in directories that cannot be searched
}

// Blocks reports whether the item stems from a hard block.
func (it Item) Blocks() bool { return strings.HasPrefix(it.From, BlockPrefix) }

// GateOnly reports whether the item is a part of a hard block that no kernel keeps.
func (it Item) GateOnly() bool {
	return it.Blocks() && it.Fate == Dropped && strings.HasPrefix(it.Reason, GateOnly)
}

// Closes reports whether the item refuses an operation on what it names.
func (it Item) Closes(op Operation) bool {
	switch {
	case it.Fate == Dropped:
	case it.Kind == KindDeny:
		return true
	case it.Kind == KindProtect && it.Blocks():
		return op == OpWrite && slices.Contains(it.Operations, bourn.Write)
	case it.Kind == KindProtect:
		return true
	}
	return false
}

// byBlock says of a deny of that origin who made it, or nothing.
func byBlock(from string) string {
	if !strings.HasPrefix(from, BlockPrefix) {
		return ""
	}
	return ", a rule of this host's administrator (" + from + ")"
}

// blockCaveat says what an administrator's rule does, and the rule's own reason.
func blockCaveat(what, reason string) string {
	s := what + " by a rule of this host's administrator"
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// blocks makes unwritable what hard blocks are about, before anything asks what is writable.
func (c *compiler) blocks() {
	for i := range c.plan.Items {
		if c.plan.Items[i].Kind == KindWrite {
			c.writes = append(c.writes, i)
		}
	}
	for i := range c.req.Blocks {
		b := &c.req.Blocks[i]
		if b.Gate != "" {
			item := c.drop(KindDeny, b.Target, b.From, GateOnly+b.Gate)
			c.plan.Items[item].Operations = b.Operations
			continue
		}
		c.block(b, b.Target, b.Place, "")
		for _, m := range b.More {
			c.block(b, m.Path, m.Place, m.Why)
		}
	}
}

// block carries out a hard block at one place, and adds its item.
func (c *compiler) block(b *Block, target string, p Place, why string) {
	item := c.add(Item{Kind: KindProtect, Target: target, From: b.From, Fate: Enforced, By: []string{byNamespace, byLandlock},
		Operations: b.Operations, Caveat: blockCaveat("read-only", b.Reason)})
	it := &c.plan.Items[item]
	if why != "" {
		it.Caveat = why
	}
	if b.Name {
		it.Caveat = blockCaveat("it can neither be removed nor renamed,", b.Reason)
	} else if b.Tree || !p.Dir {
		c.unwritable(b, p.Real) // also what is granted below it
		it = &c.plan.Items[item]
	}
	view, shown := c.plan.view(p.Real)
	switch {
	case p.Err != "":
		it.Fate, it.By, it.Caveat, it.Reason = Dropped, nil, "", p.Err
	case c.req.AgentHome != "" && under(p.Real, c.req.AgentHome):
		it.Fate, it.By, it.Caveat, it.Reason = Dropped, nil, "", GateOnly+"the agent's own home is there"
	case !shown:
	case view.Source != "":
		it.By = []string{byNamespace}
		it.Caveat = "the run has a " + view.Path + " of its own, and nothing of the host's in it"
	case !view.Write && !p.Special: // a fifo or socket is written to through a read-only mount, too
	case !p.Exists && b.Name:
		it.Fate, it.By, it.Caveat, it.Reason = Dropped, nil, "", "does not exist yet: kept from the next start after it does"
	case !p.Exists:
		it.Fate, it.By, it.Caveat, it.Reason = Dropped, nil, "", watched
		c.plan.Watches = append(c.plan.Watches, Watch{Dir: path.Dir(p.Real), Name: path.Base(p.Real), Guard: true, Item: item})
	default:
		it.By = []string{byMount}
		c.hold(b, p, item)
	}
	if home := c.req.AgentHome; it.Fate == Enforced && b.Tree && home != "" && home != p.Real && under(home, p.Real) {
		it.Caveat += "; the agent's own home below it stays writable"
	}
}

// hold guards what stands at a place in a write grant, or for Name pins it.
func (c *compiler) hold(b *Block, p Place, item int) {
	for _, dir := range b.Pins {
		if under(p.Real, dir) {
			c.pin(dir)
		}
	}
	it := &c.plan.Items[item]
	switch {
	case b.Name:
		if view, _ := c.plan.view(p.Real); view.Path == p.Real {
			return // a mount's place, which keeps its name
		}
		c.plan.Guards = append(c.plan.Guards, Guard{Path: p.Real, Dir: p.Dir, Pin: true, Object: p.Object, Item: item})
	case p.Special: // a read-only mount does not keep it from being written
		c.plan.Masks = append(c.plan.Masks, Mask{Path: p.Real, Object: p.Object, Item: item})
		c.watch(p.Real, false, item)
		it.Caveat = blockCaveat("closed", b.Reason)
	default:
		c.plan.Guards = append(c.plan.Guards, Guard{Path: p.Real, Dir: p.Dir, Object: p.Object, Item: item})
		c.plan.Watches = append(c.plan.Watches, Watch{Dir: path.Dir(p.Real), Name: path.Base(p.Real), Guard: true, Item: item})
		if p.Dir && !slices.Contains(b.Operations, bourn.Write) {
			it.Caveat += "; deleting alone cannot be refused below a directory, so nothing in it can be written"
		}
		if p.Dir {
			it.Caveat += "; a fifo in it can be written"
		}
	}
	if b.Hidden {
		it.Caveat += "; hard links of it in directories that cannot be searched are not known"
	}
	it.Caveat += c.byLink(p)
}

// byLink says that the path of a rule leads through a symlink which the run can replace: the
// next start would follow the new one.
func (c *compiler) byLink(p Place) string {
	if link, ok := c.replaceable(p); ok {
		return "; " + link + " on the way to it is a symlink that can be replaced: name the path without it in the rule"
	}
	return ""
}

// unwritable takes writing away from the grants at and below a path.
func (c *compiler) unwritable(b *Block, at string) {
	var instead map[string]int // the read items that stand for write grants
	for _, i := range c.writes {
		it := &c.plan.Items[i]
		if it.Fate != Enforced || !under(it.Target, at) {
			continue
		}
		target, from := it.Target, it.From
		it.Fate, it.By, it.Caveat = Dropped, nil, ""
		it.Reason = blockCaveat("read-only", b.Reason) + " (" + b.From + ")"
		if instead == nil {
			instead = map[string]int{}
		}
		instead[target] = c.keep(KindRead, target, from, byNamespace, byLandlock)
	}
	for i := range c.plan.Binds {
		bind := &c.plan.Binds[i]
		if !bind.Write || bind.Source != "" || !under(bind.Path, at) {
			continue
		}
		bind.Write = false
		if item, ok := instead[bind.Path]; ok && bind.Item >= 0 && c.plan.Items[bind.Item].Kind == KindWrite {
			bind.Item = item
		}
	}
}
