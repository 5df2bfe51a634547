package policy

import (
	"slices"
	"strings"

	"bourn"
)

// inEffect returns the parent's grants that are in effect, each as what it gives: a write
// grant that a hard block or a guard keeps from writing gives reading.
func (w *narrower) inEffect() []Grant {
	var out []Grant
	for _, g := range w.parent.Grants {
		switch {
		case w.parent.Refused(g) != "", !w.may(OpRead, g.Real):
			continue
		case g.Kind == KindWrite && !w.may(OpWrite, g.Real):
			g.Kind = KindRead
		case g.Kind == KindSpawnDir && (!g.Dir || !w.may(OpExec, g.Real) || w.everyRuns(OpExec, g.Real)):
			continue
		}
		out = append(out, g)
	}
	return out
}

// may reports whether the parent may do something with what the host has at a path.
func (w *narrower) may(op Operation, at string) bool {
	if v, shown := w.plan.view(at); !shown || v.Source != "" {
		return false
	}
	return w.plan.Explain(op, at).Allowed == "allowed"
}

// everyRuns reports whether the parent may do something in a system path or toolchain, which
// the child may as well without a grant.
func (w *narrower) everyRuns(op Operation, at string) bool {
	v, _ := w.plan.view(at)
	return v.Item < 0 && w.may(op, at)
}

// root sets where the child works.
func (w *narrower) root(child *Request) {
	if w.n.Root == "" {
		return
	}
	child.Cwd, child.CwdName = w.n.Root, ""
	if !w.everyRuns(OpRead, w.n.Root) {
		w.ask(KindRead, "work in", w.n.Root)
	}
}

// grants returns the child's grants of paths.
func (w *narrower) grants() []Grant {
	var out []Grant
	add := func(kind Kind, g Grant) {
		if !slices.ContainsFunc(out, func(o Grant) bool {
			return o.Path == g.Real && (o.Kind == kind || o.Kind == KindWrite && kind == KindRead)
		}) {
			out = append(out, g.narrowed(kind))
		}
	}
	ask := func(kind Kind, paths []string) {
		for _, at := range paths {
			if kind != KindWrite && w.everyRuns(operationOf[kind], at) {
				continue
			}
			if w.ask(kind, string(kind), at) {
				add(kind, Grant{From: w.origin(at), Place: named(at)})
			}
		}
	}
	for _, g := range w.held {
		if g.Kind == KindWrite && w.writes(g) {
			add(KindWrite, g)
		}
	}
	ask(KindWrite, w.n.Write)
	if w.n.Write == nil && w.n.Root != "" && w.covers(KindWrite, w.n.Root) {
		add(KindWrite, Grant{From: FromSubagent, Place: named(w.n.Root)})
	}
	for _, g := range w.held {
		if g.Kind != KindSpawnDir && (w.n.Read == nil || w.stays(g.From)) {
			add(KindRead, g)
		}
	}
	ask(KindRead, w.n.Read)
	for _, g := range w.held {
		if g.Kind == KindSpawnDir && w.n.SpawnDirs == nil {
			add(KindSpawnDir, g)
		}
	}
	ask(KindSpawnDir, w.n.SpawnDirs)
	return out
}

// writes reports whether a write grant of the parent's is one of the child's.
func (w *narrower) writes(g Grant) bool {
	switch {
	case w.n.Write != nil:
		return w.stays(g.From)
	case w.n.Root == "", w.wide, strings.HasPrefix(g.From, presetPrefix):
		return true
	}
	return under(g.Real, w.n.Root)
}

// executable returns denies of what a write grant of the parent's in a system path keeps from
// being executed, and the child does not have: without the grant it would be executable as the
// rest of that path is, whatever the parent has put there.
func (w *narrower) executable(grants []Grant) []Deny {
	var out []Deny
	for _, g := range w.held {
		kept := slices.ContainsFunc(grants, func(o Grant) bool { return o.Kind == KindWrite && o.Path == g.Real })
		system := slices.ContainsFunc(w.parent.System, func(p Place) bool { return under(g.Real, p.Real) })
		if system && !kept && !w.may(OpExec, g.Real) {
			out = append(out, Deny{Pattern: g.Real, From: FromSubagent, Place: named(g.Real)})
		}
	}
	return out
}

// narrowed returns a grant as the child's, for what it leads to now.
func (g Grant) narrowed(kind Kind) Grant {
	out := Grant{Kind: kind, From: g.From, Gives: g.Gives, Place: named(g.Real)}
	if kind == KindWrite {
		out.Linked = g.Linked
	}
	return out
}

// operationOf is what a grant of a kind lets a run do.
var operationOf = map[Kind]Operation{KindRead: OpRead, KindWrite: OpWrite, KindSpawnDir: OpExec}

// gives reports whether a grant of one kind gives another below it.
func gives(held, kind Kind) bool { return held == kind || kind != KindWrite && held != KindUnix }

// origin returns the origin of a grant that is named. What is only offered stays an offer,
// which nobody executes.
func (w *narrower) origin(at string) string {
	if slices.ContainsFunc(w.held, func(g Grant) bool { return g.From != FromContext && under(at, g.Real) }) {
		return FromSubagent
	}
	return FromContext
}

// covers reports whether a path lies under a grant of the parent's that is in effect there.
func (w *narrower) covers(kind Kind, at string) bool {
	return w.may(operationOf[kind], at) &&
		slices.ContainsFunc(w.held, func(g Grant) bool { return gives(g.Kind, kind) && under(at, g.Real) })
}

// ask reports whether the parent can give a grant of a path, and notes why it cannot.
func (w *narrower) ask(kind Kind, verb, at string) bool {
	refused := w.parent.Refused(Grant{Kind: kind, From: w.origin(at), Place: Place{Path: at, Real: at, Exists: true}})
	switch {
	case refused != "":
		w.isDenied("leave it out: it cannot be given", "%s %s: %s", verb, bourn.Printable(at), bourn.Printable(refused))
	case w.covers(kind, at):
		return true
	default:
		w.isDenied(w.nearest(kind, at), "%s %s: %s", verb, bourn.Printable(at), w.lacking(kind, at))
	}
	return false
}

// lacking says why a grant of the parent's does not cover a path.
func (w *narrower) lacking(kind Kind, at string) string {
	a := w.plan.Explain(operationOf[kind], at)
	switch {
	case a.Item != nil && a.Item.Closes(a.Operation):
		return "closed by " + string(a.Item.Kind) + " " + bourn.Printable(a.Item.Target)
	case kind == KindWrite && w.covers(KindRead, at):
		return "granted for reading only"
	case kind == KindSpawnDir && w.covers(KindRead, at):
		return "nothing there may be executed"
	}
	return "not granted"
}

// nearest names the parent's grant that is nearest to a path, or is "".
func (w *narrower) nearest(kind Kind, at string) string {
	best, most := "", 0
	for _, g := range w.held {
		if !gives(g.Kind, kind) || !w.may(operationOf[kind], g.Real) {
			continue
		}
		if n := shared(at, g.Real); n > most {
			best, most = g.Real, n
		}
	}
	if best == "" {
		return ""
	}
	return "the nearest that the parent can give is " + string(kind) + " " + bourn.Printable(best)
}

// shared returns how many of their first names two paths share.
func shared(a, b string) int {
	x, y := strings.Split(a, "/")[1:], strings.Split(b, "/")[1:]
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}
