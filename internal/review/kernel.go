package review

import (
	"path"
	"slices"
	"strings"

	"bourn"
)

// A KernelKind says how a seal can keep a rule.
type KernelKind string

// The ways.
const (
	Mask     KernelKind = "mask"      // nothing of the path is there
	ReadOnly KernelKind = "read only" // a bind of the path onto itself that refuses writing
	GateOnly KernelKind = "gate only" // the kernel does not know of it; review refuses
)

// A KernelItem is what a seal can do about one operation of one rule. Whether the path
// exists is for the caller to see: what does not exist can be neither masked nor bound,
// and stays with the gate.
type KernelItem struct {
	Rule      string
	Operation bourn.Operation
	Path      string // absolute; empty with GateOnly
	Tree      bool   // the rule is about what is below the path too
	How       KernelKind
	Why       string // of GateOnly: why the kernel cannot
}

// KernelItems returns an item for every operation of every enabled rule, in order; none
// for boundaries that are invalid.
func KernelItems(c *Compiled) []KernelItem {
	if !c.Valid() {
		return nil
	}
	var items []KernelItem
	for i := range c.rules {
		items = append(items, c.rules[i].KernelItems(c.base)...)
	}
	return items
}

// KernelItems returns an item for every operation of the rule, in order; none where the
// rule is not enabled.
func (r *HardBlock) KernelItems(base Base) []KernelItem {
	if !r.Enabled {
		return nil
	}
	p, tree, why := r.literalPath(base)
	items := make([]KernelItem, 0, len(r.Operations))
	for _, o := range r.Operations {
		items = append(items, kernelItem(r, o, p, tree, why))
	}
	return items
}

func kernelItem(r *HardBlock, o bourn.Operation, p string, tree bool, why string) KernelItem {
	item := KernelItem{Rule: r.ID, Operation: o, How: GateOnly, Why: why}
	if why != "" {
		return item
	}
	reads := slices.Contains(r.Operations, bourn.Read)
	switch {
	case o == bourn.Execute:
		item.Why = "what may be executed is judged by the command, not by the path alone"
	case o == bourn.Delegate:
		item.Why = "delegating is an act of Bourn's own"
	case reads:
		item.How, item.Path, item.Tree = Mask, p, tree
	default:
		item.How, item.Path, item.Tree = ReadOnly, p, tree
	}
	return item
}

// literalPath returns the one path that a rule is about, or why there is none.
func (r *HardBlock) literalPath(base Base) (p string, tree bool, why string) {
	if r.Type == CommandRule {
		return "", false, "a command is text"
	}
	pattern := r.Pattern
	switch r.Match {
	case Exact:
	case Prefix:
		tree = true
	case Glob:
		pattern, tree = strings.CutSuffix(pattern, "/**")
		if strings.ContainsAny(pattern, `*?[{\`) {
			return "", false, "a pattern stands for paths that do not exist yet"
		}
	case Regex, Contains:
		return "", false, "a pattern stands for paths that do not exist yet"
	}
	if rest, home := strings.CutPrefix(pattern, "~"); home && (rest == "" || rest[0] == '/') && base.Home != "" {
		pattern = base.Home + rest
	}
	p = absolute(pattern, base.Root)
	if p == "/" || p == path.Clean(base.Root) {
		return "", false, "the path is the whole of what a run works in"
	}
	return p, tree, ""
}
