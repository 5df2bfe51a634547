package sandbox

import (
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// blocks looks at what hard blocks are about: where it is, which directories must keep their
// names with it, and which other names it has in grants.
func (g *gatherer) blocks() error {
	for i := range g.req.Denies {
		if d := &g.req.Denies[i]; strings.HasPrefix(d.From, policy.BlockPrefix) && d.Exists {
			d.Pins = g.above(d.Real)
		}
	}
	var wanted []survey.ID
	of := map[survey.ID][]*policy.Block{}
	add := func(id survey.ID, b *policy.Block) {
		if of[id] == nil {
			wanted = append(wanted, id)
		}
		of[id] = append(of[id], b)
	}
	for i := range g.req.Blocks {
		b := &g.req.Blocks[i]
		if b.Gate != "" {
			continue
		}
		b.Place = place(b.Target)
		if b.Pins = g.above(b.Real); !b.Exists || b.Name {
			continue
		}
		if !b.Dir {
			if b.Nlink > 1 {
				add(survey.ID(b.Object), b)
			}
			continue
		}
		found, err := survey.Linked(b.Real)
		if err != nil {
			return err
		}
		b.Hidden = !found.Complete()
		for _, o := range found.Objects {
			add(o.ID(), b)
		}
	}
	return g.blockLinks(wanted, of)
}

// blockLinks finds the hard links in grants of what may not be written.
func (g *gatherer) blockLinks(wanted []survey.ID, of map[survey.ID][]*policy.Block) error {
	if len(wanted) == 0 {
		return nil
	}
	found, err := survey.Find(wanted, g.roots)
	if err != nil {
		return err
	}
	for _, o := range found.Objects {
		for _, b := range of[o.ID()] {
			moreOf(b, o.Path, "a hard link of "+bourn.Printable(b.Target)+", which is read-only by a rule of this host's administrator")
		}
	}
	if !found.Complete() {
		for _, all := range of {
			for _, b := range all {
				b.Hidden = true
			}
		}
	}
	return nil
}

// moreOf adds another name of what a block is about, once.
func moreOf(b *policy.Block, at, why string) {
	known := policy.Under(at, b.Real) || slices.ContainsFunc(b.More, func(m policy.Alias) bool { return policy.Under(at, m.Path) })
	if !known {
		b.More = append(b.More, policy.Alias{Place: place(at), Why: why})
	}
}

// blockMounts finds second mounts in grants of what may not be written.
func (g *gatherer) blockMounts(table survey.Table) {
	for i := range g.req.Blocks {
		b := &g.req.Blocks[i]
		if b.Gate != "" || !b.Exists || b.Name {
			continue
		}
		others := table.Aliases(b.Real)
		if b.Dir {
			others = append(others, table.Parts(b.Real)...)
			for _, m := range table.Below(b.Real) {
				others = append(others, table.Aliases(m.Point)...)
			}
		}
		for _, at := range others {
			if g.touches(at) {
				moreOf(b, at, bourn.Printable(b.Target)+" through another mount, read-only by a rule of this host's administrator")
			}
		}
	}
}

// touches reports whether a grant shows a path, or something below it.
func (g *gatherer) touches(p string) bool {
	return g.granted(p) || slices.ContainsFunc(g.roots, func(r string) bool { return policy.Under(r, p) })
}
