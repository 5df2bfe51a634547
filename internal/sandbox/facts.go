// Package sandbox asks the host: it attaches to a request the facts that the planner
// needs, and it says what this kernel can keep.
//
// It changes nothing. What it found can be out of date a moment later; the child checks
// the identity of every object again when it attaches it (package namespace).
package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// Options are what the facts depend on besides the request itself.
type Options struct {
	// Toolchains are directories of PATH and what belongs to them, as found.
	Toolchains []string
	// Programs are paths of programs, symlinks among them, that are shown with the package
	// around what they lead to.
	Programs []string
	// LiveWrites returns what runs that live now can write: a denied object that is not
	// found may be in one's hands. It is called only when one is not found.
	LiveWrites func() ([]string, error)
	// OtherWrites returns the write grants of every other agent: a symlink below one is
	// never followed. It is called only when a grant has a symlink in it.
	OtherWrites func() []string
	// Judge says why a grant, as the host has it, is not to be had, or returns "". Nil judges
	// none.
	Judge func(policy.Grant) string
	// Reach reports whether the user that the run becomes gets to a path that nobody granted,
	// and with read may read what stands there. Nil means that the run becomes nobody else.
	Reach func(path string, read bool) bool
	// Remembered are the objects that earlier runs denied, by deny pattern.
	Remembered []Remembered
	// Projects are directories in which earlier runs found what they guarded: there it is
	// looked for whatever else there is, see [Projects].
	Projects []string
}

// Remembered is an object that an earlier run denied.
type Remembered struct {
	Pattern string
	Path    string
	Root    string // the write grant in which it was: it cannot have left it by a rename
	Object  policy.Object
}

// Gather attaches the host's facts to req. An error means that the request cannot be
// planned safely and nothing may be started.
func Gather(req *policy.Request, opt Options) error {
	g := gatherer{req: req, opt: opt}
	for _, do := range []func() error{
		g.homes, g.grants, g.system, g.denies, g.remembered, g.links, g.blocks, g.mounts, g.guarded, g.inner, g.sockets,
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

type gatherer struct {
	req    *policy.Request
	opt    Options
	roots  []string                 // what grants show, outermost first
	writes []string                 // the write grants of every agent, once asked for
	index  map[string]policy.Object // what is known to be denied, by its real path
	subs   map[string]bool          // the submodules that were looked at
}

// place says what the host knows of p, following symlinks.
func place(p string) policy.Place {
	r, err := survey.Resolve(p)
	if err != nil {
		return policy.Place{Path: p, Real: p, Err: reason(err)}
	}
	out := policy.Place{Path: p, Real: r.Real, Exists: r.Exists, Ancestor: r.Existing}
	for _, l := range r.Links {
		out.Links = append(out.Links, policy.Link{At: l.At, Target: l.Target})
	}
	if n := len(r.Links); n > 0 {
		out.Symlink = path.Base(r.Links[n-1].At) == path.Base(p) && r.Real != p
	}
	fill(&out, r.Object)
	return out
}

func fill(p *policy.Place, o survey.Object) {
	p.Dir = o.Type == survey.Dir
	p.Special = o.Type == survey.Fifo || o.Type == survey.Socket || o.Type == survey.Device
	p.Socket = o.Type == survey.Socket
	p.Nlink = o.Nlink
	if o.Type != survey.Missing {
		p.Object = policy.Object{Dev: o.Dev, Ino: o.Ino, Born: o.Born}
	}
}

// reason is the innermost text of an error about a path that is printed anyway.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return "cannot be examined: " + err.Error()
		}
		err = inner
	}
}

// homes finds every home directory that a grant must not cover.
func (g *gatherer) homes() error {
	homes := append([]string{g.req.Home}, g.req.Homes...)
	if f, err := os.Open("/etc/passwd"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			fields := strings.Split(s.Text(), ":")
			if len(fields) < 7 || len(fields[2]) < 4 && fields[2] != "0" || fields[2] == "65534" {
				continue // system accounts: their homes are system directories
			}
			if h := path.Clean(fields[5]); path.IsAbs(h) && !slices.Contains(homes, h) {
				homes = append(homes, h)
			}
		}
	}
	g.req.Homes = slices.DeleteFunc(homes, func(h string) bool { return h == "" || h == "/" })
	return nil
}

func (g *gatherer) system() error {
	for _, p := range policy.SystemPaths {
		if pl := place(p); pl.Exists && pl.Err == "" {
			g.req.System = append(g.req.System, pl)
		}
	}
	for _, p := range g.opt.Toolchains {
		pl := place(p)
		// PATH is no grant: an agent that turned a directory of it into a symlink gains
		// nothing, and what may not be granted is not shown either.
		if g.showable(pl) {
			g.req.System = append(g.req.System, pl)
		}
	}
	for _, p := range g.opt.Programs {
		g.program(p)
	}
	g.etc()
	return nil
}

// packageMarks are files in the root of what a program belongs to.
var packageMarks = []string{"package.json", "pyvenv.cfg"}

// program shows the file that a program's path leads to, and the package around it. As
// for directories of PATH, a symlink in a write grant gains nothing.
func (g *gatherer) program(p string) {
	file := place(p)
	if !g.showable(file) || file.Dir || file.Special || policy.InSystem(file.Real) {
		return
	}
	if o, err := survey.Stat(file.Real); err != nil || o.Mode&0o111 == 0 {
		return
	}
	file.Program = true
	g.req.System = append(g.req.System, file)
	if len(file.Links) == 0 {
		return
	}
	for dir, level := path.Dir(file.Real), 0; level < 6 && dir != "/"; dir, level = path.Dir(dir), level+1 {
		if !slices.ContainsFunc(packageMarks, func(mark string) bool { return has(dir, mark) }) {
			continue
		}
		if around := place(dir); g.showable(around) {
			around.Program = true
			g.req.System = append(g.req.System, around)
		}
		return
	}
}

// showable reports whether a place that nobody granted may be shown for a toolchain.
func (g *gatherer) showable(p policy.Place) bool {
	return p.Exists && p.Err == "" && g.foul(p.Links) == "" && g.req.Refusal(policy.KindRead, p.Real) == "" && g.reach(p.Real, false)
}

func (g *gatherer) reach(path string, read bool) bool {
	return g.opt.Reach == nil || g.opt.Reach(path, read)
}

// etc finds the named entries of /etc that exist. One listing of /etc spares looking at
// each of them: most are plain files, and those need no more than their name.
func (g *gatherer) etc() {
	entries, err := os.ReadDir("/etc")
	if err != nil {
		return // what cannot be listed is not shown
	}
	types := make(map[string]os.FileMode, len(entries))
	for _, e := range entries {
		types[e.Name()] = e.Type()
	}
	for _, p := range policy.EtcFiles {
		top, _, deep := strings.Cut(strings.TrimPrefix(p, "/etc/"), "/")
		mode, ok := types[top]
		switch {
		case !ok, !g.reach(p, true):
		case !deep && mode.IsRegular():
			g.req.Etc = append(g.req.Etc, policy.Place{Path: p, Real: p, Exists: true})
		default:
			if pl := place(p); pl.Exists && pl.Err == "" {
				g.req.Etc = append(g.req.Etc, pl)
			}
		}
	}
}

func (g *gatherer) grants() error {
	for i := range g.req.Grants {
		gr := &g.req.Grants[i]
		gr.Place = place(gr.Path)
		if len(gr.Links) > 0 {
			gr.Foul = g.foul(gr.Links)
		}
		g.judge(gr)
		if gr.Exists && gr.Err == "" && gr.Foul == "" && gr.Kind != policy.KindSpawnDir {
			g.roots = append(g.roots, gr.Real)
		}
	}
	for i := range g.req.Unix {
		gr := &g.req.Unix[i]
		gr.Place = place(gr.Path)
		gr.Foul = g.foul(gr.Links)
		g.judge(gr)
	}
	slices.Sort(g.roots)
	g.roots = slices.CompactFunc(g.roots, func(a, b string) bool { return policy.Under(b, a) })
	return nil
}

func (g *gatherer) judge(gr *policy.Grant) {
	if g.opt.Judge != nil && gr.Err == "" {
		gr.Err = g.opt.Judge(*gr)
	}
}

// foul returns the first link that lies under a write grant of any agent.
func (g *gatherer) foul(links []policy.Link) string {
	if len(links) == 0 {
		return ""
	}
	if g.writes == nil {
		for _, gr := range g.req.Grants {
			if gr.Kind == policy.KindWrite {
				g.writes = append(g.writes, gr.Path)
			}
		}
		if g.opt.OtherWrites != nil {
			g.writes = append(g.writes, g.opt.OtherWrites()...)
		}
		g.writes = append(g.writes, "") // asked for once
	}
	for _, l := range links {
		for _, w := range g.writes {
			if w != "" && l.At != w && policy.Under(l.At, w) {
				return l.At
			}
		}
	}
	return ""
}

func (g *gatherer) denies() error {
	var patterns []survey.Pattern
	var owners []int
	for i := range g.req.Denies {
		d := &g.req.Denies[i]
		d.Place = place(d.Pattern)
		if !d.Glob {
			continue
		}
		if d.Real != d.Pattern { // not the name of something by itself
			d.Place = policy.Place{Path: d.Pattern}
		}
		p, err := survey.ParsePattern(d.Pattern)
		if err != nil {
			return fmt.Errorf("%w: %w", bourn.ErrInvalid, err)
		}
		// The base may be spelled through a symlink; a walk sees real paths only.
		if base := place(p.Base()); base.Real != p.Base() {
			if p, err = p.Rebase(base.Real); err != nil {
				return fmt.Errorf("%w: %w", bourn.ErrInvalid, err)
			}
		}
		patterns, owners = append(patterns, p), append(owners, i)
	}
	if len(patterns) == 0 {
		return nil
	}
	globs, err := survey.Expand(patterns, g.searched())
	if err != nil {
		return err
	}
	for i, found := range globs {
		g.matched(&g.req.Denies[owners[i]], found)
	}
	return nil
}

// searched are the trees in which a pattern can match: all that the run will see.
func (g *gatherer) searched() []string {
	roots := slices.Clone(g.roots)
	for _, s := range g.req.System {
		roots = append(roots, s.Real)
	}
	return roots
}

func (g *gatherer) matched(d *policy.Deny, found survey.Glob) {
	for _, o := range found.Objects {
		if o.Ino == 0 { // it may not be examined: its directory is closed
			g.blind(d, path.Dir(o.Path))
			continue
		}
		m := policy.Place{Path: o.Path, Real: o.Path, Exists: true}
		fill(&m, o)
		if o.Type == survey.Symlink {
			m = place(o.Path)
		}
		d.Matches = append(d.Matches, m)
	}
	d.Dirs = found.Visited
	for _, l := range found.Links {
		d.Through = append(d.Through, l.Path)
	}
	for _, at := range found.TooDeep {
		g.blind(d, at)
	}
	for _, u := range found.Unreadable {
		g.blind(d, u.Path)
	}
}

// blind notes a directory in a grant that cannot be searched. Its owner could open it
// inside, and what it holds would be readable: it is closed as a whole.
func (g *gatherer) blind(d *policy.Deny, at string) {
	if !g.granted(at) || slices.ContainsFunc(d.Blind, func(p policy.Place) bool { return p.Path == at }) {
		return
	}
	if p := place(at); p.Exists && p.Err == "" {
		d.Blind = append(d.Blind, p)
	}
}

// denied calls f for every existing object that is known to be denied.
func (g *gatherer) denied(f func(d *policy.Deny, p policy.Place) error) error {
	for i := range g.req.Denies {
		d := &g.req.Denies[i]
		places := slices.Clone(d.Matches)
		if d.Exists {
			places = append(places, d.Place)
		}
		for _, m := range d.More {
			places = append(places, m.Place)
		}
		for _, p := range places {
			if !p.Exists || p.Err != "" {
				continue
			}
			if err := f(d, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gatherer) granted(p string) bool {
	return slices.ContainsFunc(g.roots, func(r string) bool { return policy.Under(p, r) })
}

// sockets lists the bound unix sockets of the host that lie in grants.
func (g *gatherer) sockets() error {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil // the kernel has none, or does not tell: nothing is claimed
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if i := strings.IndexByte(s.Text(), '/'); i >= 0 && g.granted(s.Text()[i:]) && !slices.Contains(g.req.Sockets, s.Text()[i:]) {
			g.req.Sockets = append(g.req.Sockets, s.Text()[i:])
		}
	}
	return nil
}

// Links returns the symlinks on the way to p, for the alias of a working directory.
func Links(p string) []policy.Link { return place(p).Links }

// Changed says of a place that is looked at when a run ends whether something else
// stands there than when it began, and whether that was nothing.
func Changed(l policy.Late) (changed, made bool) {
	o, err := survey.Stat(l.Path)
	if err != nil {
		return false, false
	}
	if l.Object == (policy.Object{}) {
		return false, o.Type != survey.Missing
	}
	return !o.ID().Is(survey.ID(l.Object)), false
}
