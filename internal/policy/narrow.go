package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"bourn"
)

// FromSubagent is the origin of what a subagent was given by name.
const FromSubagent = "subagent"

// presetPrefix begins the origin of what a preset grants; its name follows.
const presetPrefix = "preset:"

// A Narrowing is what a subagent is given of what its parent has. A nil list keeps the
// parent's, an empty one is none; what [Narrow] says of presets holds for every list.
type Narrowing struct {
	Root        string // canonical directory that the child works in; "" keeps the parent's Cwd
	Read, Write []string
	SpawnDirs   []string // these three are canonical paths
	Hosts       []Host   // each must be granted to the parent
	Unix        []string // canonical paths of sockets
	Env         []string // names among those that the parent has beyond the built-in ones
	Tools       []string // names, or beginnings with * behind: only these governed tools are the child's
	Records     string   // "" keeps the parent's; read, or NoRecords
	Deny        []Deny   // added; of each the pattern, style, kind and Placeholder count
	Exec        ExecMode // "" keeps; it may only go down: any, allowlist, none
	Limits      Limits   // zero keeps; the smaller of the two holds
	Command     []string // what the child runs
}

// Narrow returns the request of a subagent: the parent's, narrowed. Whatever the child may
// do the parent may do, apart from what it does in places that are its own (its /tmp, an
// empty home), and all that closes something to the parent closes it to the child. The
// parent's request, with the host's facts in it, is not changed and shares no slice with the
// child's. The child's has none of these facts, and so gives nothing, until the host is
// asked again: with the Toolchains and Programs for which the parent's was, since what they
// show is granted by nobody.
//
// A path that is named must lie under a grant of the parent's that is in effect. It is no
// fresh grant: one that resolves elsewhere when the child starts is dropped. What was fresh
// in the parent's becomes a grant of its real path; what had no effect is left out, so that
// it cannot have one now.
//
// A nil Read keeps all that the parent reads, which includes what it writes and the child
// does not. A write grant gives reading, so an empty Read with a nil Write takes less than
// it seems to. With a Root and a nil Write, the child writes below the Root alone,
// and where presets let it; but where something denied could be moved below the Root while the
// child runs, it writes what the parent does. With lists by which it could, it is refused.
//
// What presets grant stays beside every list, an empty one too, while the child runs the
// parent's program: a program that cannot reach its own state or its model's hosts does not
// run, and a person grants these with the program and not with a task. The lists divide what
// persons granted. A child with another program has of the presets what its lists name.
//
// The error is ErrInvalid for what cannot be meant, else ErrDenied for what the parent does
// not have; it names all that is wrong, up to 20 things.
func Narrow(parent *Request, n Narrowing) (*Request, error) {
	from := *parent
	from.HomeAliases = slices.Clip(from.HomeAliases) // the compiler appends to it
	w := narrower{parent: &from, plan: Compile(&from), n: n, same: sameProgram(parent.Command, n.Command)}
	w.held = w.inEffect()

	child := parent.unasked()
	child.Advisory = false // sealed, or not at all
	child.above = append(slices.Clone(parent.above), w.plan)
	if n.Command != nil {
		child.Command = slices.Clone(n.Command)
	}
	w.checkPaths()
	w.root(child)
	child.Exec = w.exec()
	child.Grants = w.grants()
	moved := w.moved(child)
	if len(moved) > 0 && n.Root != "" && n.Write == nil && n.Read == nil {
		w.wide = true
		child.Grants = w.grants()
		moved = w.moved(child)
	}
	for _, m := range moved {
		w.isDenied(m.hint, "%s", m.text)
	}
	w.hosts(child)
	child.Unix = w.unix()
	child.Env = w.env(child.Cwd)
	child.Denies = append(child.Denies, w.closed()...)
	child.Denies = append(child.Denies, w.executable(child.Grants)...)
	child.Denies = append(child.Denies, w.denies(child)...)
	child.ToolsAmong = w.tools()
	w.records(child)
	child.Limits = w.limits()
	if err := w.err(); err != nil {
		return nil, err
	}
	return child, nil
}

// A narrower collects what is wrong with a narrowing.
type narrower struct {
	parent  *Request
	plan    *Plan // the parent's
	n       Narrowing
	same    bool    // the child runs the parent's program
	wide    bool    // it writes what the parent does, though it has a root
	held    []Grant // the parent's grants of paths that are in effect, with what each gives
	invalid []string
	denied  []string
	hints   []string
}

func sameProgram(parent, child []string) bool {
	return child == nil || len(parent) > 0 && len(child) > 0 && parent[0] == child[0]
}

// stays reports whether something of the parent's is the child's without being named.
func (w *narrower) stays(from string) bool { return w.same && strings.HasPrefix(from, presetPrefix) }

func (w *narrower) isInvalid(format string, args ...any) {
	w.invalid = append(w.invalid, fmt.Sprintf(format, args...))
}

// isDenied notes what the parent does not have, with what could be asked for instead.
func (w *narrower) isDenied(hint, format string, args ...any) {
	w.denied = append(w.denied, fmt.Sprintf(format, args...))
	if hint = cmp.Or(hint, askAPerson); !slices.Contains(w.hints, hint) {
		w.hints = append(w.hints, hint)
	}
}

const askAPerson = "ask a person to grant it to the parent"

// err returns everything that is wrong as one error, or nil.
func (w *narrower) err() error {
	if len(w.invalid) > 0 {
		return fmt.Errorf("%w: cannot make a subagent: %s", bourn.ErrInvalid, listed(append(w.invalid, w.denied...)))
	}
	if len(w.denied) > 0 {
		return bourn.WithHint(fmt.Errorf("%w: a subagent has no more than its parent: %s", bourn.ErrDenied, listed(w.denied)), listed(w.hints))
	}
	return nil
}

// maxListed is how much of what is wrong is named: whoever asks decides how much that is, and
// it stands in the log.
const maxListed = 20

func listed(all []string) string {
	if more := len(all) - maxListed; more > 0 {
		all = append(all[:maxListed:maxListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// checkPaths refuses paths that are not canonical, as far as a look at them tells.
func (w *narrower) checkPaths() {
	for _, list := range [][]string{w.n.Read, w.n.Write, w.n.SpawnDirs, w.n.Unix} {
		for _, at := range list {
			w.canonical(at)
		}
	}
	if w.n.Root != "" {
		w.canonical(w.n.Root)
	}
	for _, d := range w.n.Deny {
		w.canonical(d.Pattern)
	}
}

func (w *narrower) canonical(at string) {
	if !path.IsAbs(at) || path.Clean(at) != at || strings.ContainsRune(at, 0) {
		w.isInvalid("\"%s\" is not the full path of anything", bourn.Printable(at))
	}
}

// unasked returns a copy of a request that shares no slice with it and has nothing of what
// the host said, but for guarded places.
func (r *Request) unasked() *Request {
	c := *r
	c.Command = slices.Clone(r.Command)
	c.Grants, c.Unix, c.Env, c.ToolsAmong = nil, nil, nil, nil // by the narrower
	c.System, c.Etc, c.HomeAliases, c.Inner = nil, nil, nil, nil
	c.BournMade, c.BournPins = false, nil
	c.Unsearched, c.Hollow, c.Sockets = nil, nil, nil
	c.Homes = slices.DeleteFunc(slices.Clone(r.Homes), func(h string) bool { return h == r.Home })
	c.Denies, c.Blocks, c.Guarded = stillDenied(r.Denies), stillBlocked(r.Blocks), stillGuarded(r.Guarded)
	c.Hosts, c.HostDenies = slices.Clone(r.Hosts), slices.Clone(r.HostDenies)
	c.Tools, c.Files = slices.Clone(r.Tools), slices.Clone(r.Files)
	if r.User != nil {
		u := *r.User
		u.Groups = slices.Clone(u.Groups)
		c.User = &u
	}
	return &c
}

// stillDenied returns the denies without what the host said. What it found for one stays
// denied by its own name: the child's search goes through the child's grants alone, and would
// miss a file elsewhere of which there is a hard link in them.
func stillDenied(denies []Deny) []Deny {
	var out []Deny
	known := map[[2]string]bool{} // literal ones, by path and origin
	add := func(d Deny) {
		key := [2]string{d.Pattern, d.From}
		if !d.Glob && known[key] {
			return
		}
		known[key] = known[key] || !d.Glob
		out = append(out, d)
	}
	for i := range denies {
		add(denies[i].unasked())
	}
	for i := range denies {
		d := &denies[i]
		found := func(p Place) {
			literal := d.unasked()
			literal.Glob, literal.Placeholder = false, false
			for _, at := range p.names() {
				literal.Operations = slices.Clone(d.Operations)
				literal.Pattern, literal.Place = at, named(at)
				add(literal)
			}
		}
		if d.Exists {
			found(d.Place)
		}
		for _, m := range d.Matches {
			found(m)
		}
		for _, m := range d.More {
			found(m.Place)
		}
		for _, b := range d.Blind {
			found(b)
		}
	}
	return out
}

// closed returns denies of what the parent's plan closes and nobody denied: a kernel file
// system in a grant, a socket that a hard block keeps from being written. Why it is closed
// may be a grant that the child does not have, while it sees the place by another.
func (w *narrower) closed() []Deny {
	var out []Deny
	for _, m := range w.plan.Masks {
		if m.Item < 0 || w.plan.Items[m.Item].Kind != KindProtect || m.Path == w.parent.BournDir {
			continue // $BOURN_HOME is closed to every run
		}
		it := w.plan.Items[m.Item]
		out = append(out, Deny{Pattern: m.Path, From: it.From, Operations: slices.Clone(it.Operations), Place: named(m.Path)})
	}
	return out
}

func (d *Deny) unasked() Deny {
	return Deny{Pattern: d.Pattern, From: d.From, Style: d.Style, Glob: d.Glob, Placeholder: d.Placeholder,
		Operations: slices.Clone(d.Operations), Reason: d.Reason, Place: named(d.Pattern)}
}

// names returns a path, and what it leads to: the host can lead it elsewhere.
func (p Place) names() []string {
	if p.Real == "" || p.Real == p.Path {
		return []string{p.Path}
	}
	return []string{p.Path, p.Real}
}

// named is a place of which nothing but the name is known.
func named(at string) Place { return Place{Path: at, Real: at} }

// stillBlocked returns the blocks without what the host said. What it found to be the same
// object stays blocked by its own name.
func stillBlocked(blocks []Block) []Block {
	var out []Block
	add := func(b Block, at string) {
		if !slices.ContainsFunc(out, func(o Block) bool { return o.From == b.From && o.Target == at && o.Gate == b.Gate && o.Name == b.Name }) {
			out = append(out, Block{From: b.From, Operations: slices.Clone(b.Operations), Reason: b.Reason, Target: at, Gate: b.Gate,
				Tree: b.Tree, Name: b.Name, Place: named(at)})
		}
	}
	for _, b := range blocks {
		add(b, b.Target)
	}
	for _, b := range blocks {
		if b.Exists {
			add(b, b.Real)
		}
		for _, m := range b.More {
			add(b, m.Path)
		}
	}
	return out
}

// stillGuarded returns the guarded places that exist. The child's own search begins at the
// child's grants and would not see from there why each of them is guarded. Whatever stands
// there is guarded, since the host may have replaced it meanwhile, and the end of the
// parent's run looks at it.
func stillGuarded(places []Guarded) []Guarded {
	var out []Guarded
	for _, g := range places {
		if !g.Exists || g.Link {
			continue
		}
		g.Pins, g.Links = slices.Clone(g.Pins), slices.Clone(g.Links)
		g.Object, g.Nlink, g.Quiet = Object{}, 0, true
		out = append(out, g)
	}
	return out
}

// denies returns the narrowing's denies that the child does not have yet.
func (w *narrower) denies(child *Request) []Deny {
	var out []Deny
	for _, d := range w.n.Deny {
		same := func(o Deny) bool { return o.Pattern == d.Pattern && o.Glob == d.Glob }
		if i := slices.IndexFunc(child.Denies, same); i >= 0 {
			child.Denies[i].Placeholder = child.Denies[i].Placeholder || d.Placeholder
			continue
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, Deny{Pattern: d.Pattern, From: FromSubagent, Style: d.Style, Glob: d.Glob, Placeholder: d.Placeholder, Place: named(d.Pattern)})
		}
	}
	return out
}
