package policy

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
)

// Mechanisms that items name.
const (
	byNamespace = "namespace"
	byLandlock  = "landlock"
	bySeccomp   = "seccomp"
	byMount     = "mount"
	byRlimit    = "rlimit"
	byLauncher  = "launcher"
	byEgress    = "egress"
)

// compiler gathers a plan; each method adds the items of one kind.
type compiler struct {
	req    *Request
	plan   Plan
	writes []int // the items of write grants, once they are all there
}

// Compile decides the fate of everything that req asks for and returns the plan that
// carries it out. It never fails: what cannot be had is an item that says so.
func Compile(req *Request) *Plan {
	c := &compiler{req: req}
	c.plan.Command, c.plan.Limits, c.plan.Exec = req.Command, req.Limits, req.Exec
	c.plan.GitUser, c.plan.Nested, c.plan.User = req.GitUser, req.Nested, req.becomes()
	if c.plan.Exec == "" {
		c.plan.Exec = ExecAny
	}
	c.privatePlaces()
	c.system()
	c.grants()
	c.spawnDirs()
	c.unixSockets()
	c.sortBinds()
	c.bournPlace()
	c.blocks()
	c.denies()
	c.protects()
	c.guards()
	c.unsearched()
	c.sockets()
	c.network()
	c.environment()
	c.tools()
	c.records()
	c.limits()
	c.defaults()
	c.files()
	c.finish()
	return &c.plan
}

func (c *compiler) add(it Item) int {
	c.plan.Items = append(c.plan.Items, it)
	return len(c.plan.Items) - 1
}

func (c *compiler) drop(kind Kind, target, from, reason string) int {
	return c.add(Item{Kind: kind, Target: target, From: from, Fate: Dropped, Reason: reason})
}

func (c *compiler) keep(kind Kind, target, from string, by ...string) int {
	return c.add(Item{Kind: kind, Target: target, From: from, Fate: Enforced, By: by})
}

func (c *compiler) privatePlaces() {
	noexec := c.plan.Exec != ExecAny
	for _, p := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		c.plan.Private = append(c.plan.Private, Private{Path: p, NoExec: noexec})
	}
	switch {
	case c.req.AgentHome != "":
		c.plan.Binds = append(c.plan.Binds, Bind{
			Path: c.req.Home, Source: c.req.AgentHome, Dir: true, Write: true, NoExec: noexec, Item: -1})
	case c.req.Home != "" && c.req.Home != "/" && !c.req.WholeHome:
		c.plan.Private = append(c.plan.Private, Private{Path: c.req.Home, NoExec: noexec})
	}
}

// system binds the system paths and toolchains and recreates the symlinks among them
// (/bin → usr/bin on merged-usr hosts).
func (c *compiler) system() {
	for _, p := range c.req.System {
		c.plan.Links = append(c.plan.Links, p.Links...)
		if (p.Symlink && !p.Program) || c.covered(p.Real) {
			continue
		}
		item := -1
		if p.Program {
			item = c.keep(KindDefault, "program: "+p.Real+": read and execute", "default", byNamespace, byLandlock)
		}
		c.plan.Binds = append(c.plan.Binds, Bind{Path: p.Real, Dir: p.Dir, Object: p.Object, Item: item})
	}
	for _, p := range c.req.Etc {
		switch {
		case p.Symlink && c.covered(p.Real):
			c.plan.Links = append(c.plan.Links, p.Links...)
		case p.Dir:
			b := Bind{Path: p.Path, Dir: true, NoExec: true, Object: p.Object, Item: -1}
			if p.Real != p.Path {
				b.Source = p.Real
			}
			c.plan.Binds = append(c.plan.Binds, b)
		default:
			c.plan.Copies = append(c.plan.Copies, p.Path)
		}
	}
}

// covered reports whether a bind already shows p.
func (c *compiler) covered(p string) bool {
	return slices.ContainsFunc(c.plan.Binds, func(b Bind) bool { return b.Source == "" && under(p, b.Path) })
}

// grants takes write grants before read grants, so that a read grant inside a write
// grant is seen to be covered, and shorter paths before longer ones.
func (c *compiler) grants() {
	for _, kind := range []Kind{KindWrite, KindRead} {
		for _, i := range c.order(kind) {
			g := c.req.Grants[i]
			if reason := c.refusal(g); reason != "" {
				c.drop(kind, g.Path, g.From, reason)
				continue
			}
			item := c.keep(kind, g.Real, g.From, byNamespace, byLandlock)
			c.plan.Items[item].Caveat = c.grantCaveat(g)
			c.plan.Links = append(c.plan.Links, g.Links...)
			offer := g.From == FromContext
			if c.req.offered(g) || !c.shown(g.Real, kind == KindWrite, offer) {
				c.plan.Binds = append(c.plan.Binds, Bind{Path: g.Real, Dir: g.Dir, Write: kind == KindWrite,
					NoExec: offer || c.plan.Exec != ExecAny, Object: g.Object, Item: item})
			}
		}
	}
}

// order returns the indices of the grants of one kind, shortest real path first; what
// has the same path keeps its order.
func (c *compiler) order(kind Kind) []int {
	var ids []int
	for i, g := range c.req.Grants {
		if g.Kind == kind {
			ids = append(ids, i)
		}
	}
	sort.SliceStable(ids, func(a, b int) bool {
		return len(c.req.Grants[ids[a]].Real) < len(c.req.Grants[ids[b]].Real)
	})
	return ids
}

// shown reports whether an earlier bind already gives as much at p. What context offers gives
// less than any grant, which then has a bind of its own.
func (c *compiler) shown(p string, write, offer bool) bool {
	best, found := Bind{}, false
	for _, b := range c.plan.Binds {
		if under(p, b.Path) && (!found || len(b.Path) >= len(best.Path)) {
			best, found = b, true
		}
	}
	for _, d := range c.plan.Private {
		if under(p, d.Path) && len(d.Path) > len(best.Path) {
			return false
		}
	}
	if !found || best.Source != "" || c.ofContext(best.Item) && !offer {
		return false
	}
	// A read grant of something in a system path may still widen what may be executed;
	// system paths are executable already, so it adds nothing.
	return best.Write || !write
}

// refusal returns why a grant has no effect, or "".
func (c *compiler) refusal(g Grant) string {
	switch {
	case g.Err != "":
		return g.Err
	case g.Foul != "":
		return fmt.Sprintf("%s is a symlink inside a write grant, and those are never followed", g.Foul)
	case !g.Exists:
		return "path does not exist on disk"
	case !g.Fresh && g.Real != g.Path:
		return "now resolves to " + g.Real
	}
	if row, ok := protection(g.Real, g.Kind, c.req); ok && !(row.Path == c.req.BournDir && c.req.offered(g)) {
		return "protected: " + row.Reason
	}
	if reason := Broad(g.Real, c.req.noGrants()); reason != "" {
		return reason
	}
	for _, d := range c.req.Denies {
		if p, ok := d.Closes(g.Real); ok {
			return "denied by " + p + byBlock(d.From)
		}
	}
	return ""
}

// Refused returns why a grant has no effect, or "". It knows of what denies name only
// once the facts of the denies are gathered.
func (req *Request) Refused(g Grant) string { return (&compiler{req: req}).refusal(g) }

// Refusal returns why a grant of this kind to a path could never have an effect on
// this host, whatever else the profile says: it is protected or too broad. Else "".
func (req *Request) Refusal(kind Kind, real string) string {
	if row, ok := protection(real, kind, req); ok {
		return "protected, it can never be granted: " + row.Reason
	}
	return Broad(real, req.noGrants())
}

// noGrants returns the homes that no grant may cover.
func (req *Request) noGrants() []string {
	all := slices.Concat(req.HomeAliases, req.Homes)
	if req.WholeHome {
		all = slices.DeleteFunc(all, func(h string) bool { return h == req.Home })
	}
	return all
}

// Closes reports whether p lies under something that d denies, and what that is.
func (d *Deny) Closes(p string) (string, bool) {
	if !d.Glob || d.Exists {
		for _, at := range []string{d.Place.Path, d.Real} {
			if at != "" && under(p, at) {
				return at, true
			}
		}
	}
	for _, m := range d.Matches {
		if under(p, m.Real) || under(p, m.Path) {
			return m.Path, true
		}
	}
	for _, m := range d.More {
		if under(p, m.Real) {
			return m.Path, true
		}
	}
	for _, b := range d.Blind {
		if under(p, b.Real) {
			return b.Path, true
		}
	}
	return "", false
}

// closing calls f with every path below which d closes everything: those by which Closes
// judges.
func (d *Deny) closing(f func(string)) {
	if !d.Glob || d.Exists {
		f(d.Place.Path)
		f(d.Real)
	}
	for _, m := range d.Matches {
		f(m.Real)
		f(m.Path)
	}
	for _, m := range d.More {
		f(m.Real)
	}
	for _, b := range d.Blind {
		f(b.Real)
	}
}

func (c *compiler) grantCaveat(g Grant) string {
	if g.From == FromContext {
		return c.offerCaveat(g)
	}
	if !g.Dir && g.Kind == KindWrite {
		const busy = "a program that replaces the file by rename gets EBUSY"
		if c.req.Refusal(KindWrite, path.Dir(g.Real)) != "" {
			return busy
		}
		return busy + ": grant " + path.Dir(g.Real) + " instead"
	}
	if !g.Dir {
		return "when the host replaces the file, the old content stays visible until the next start"
	}
	return ""
}

func (c *compiler) spawnDirs() {
	for _, i := range c.order(KindSpawnDir) {
		g := c.req.Grants[i]
		if reason := c.refusal(g); reason != "" {
			c.drop(KindSpawnDir, g.Path, g.From, reason)
			continue
		}
		at, write, ok := c.holder(g.Real)
		switch {
		case !g.Dir:
			c.drop(KindSpawnDir, g.Path, g.From, "not a directory")
			continue
		case !ok:
			c.drop(KindSpawnDir, g.Path, g.From, "must also be readable or writable: no grant covers it")
			continue
		case c.plan.Exec == ExecNone:
			c.drop(KindSpawnDir, g.Path, g.From, "processes.mode is none: only system paths may execute")
			continue
		}
		item := c.keep(KindSpawnDir, g.Real, g.From, byMount, byLandlock)
		if c.plan.Exec == ExecAny {
			c.plan.Items[item].Caveat = "processes.mode is any: every grant may execute"
			continue
		}
		if at != g.Real {
			c.plan.Items[item].Caveat = "a rename or link between it and the rest of " + at + " crosses a mount (EXDEV)"
		}
		c.plan.Binds = slices.DeleteFunc(c.plan.Binds, func(b Bind) bool { return b.Path == g.Real && b.Source == "" })
		c.plan.Binds = append(c.plan.Binds, Bind{Path: g.Real, Dir: true, Write: write, Object: g.Object, Item: item})
		for i := range c.plan.Binds {
			if b := &c.plan.Binds[i]; b.Item >= 0 && under(b.Path, g.Real) && !c.ofContext(b.Item) {
				b.NoExec = false
			}
		}
	}
}

// holder returns the user's grant that shows p, and whether p is writable: a toolchain in a
// write grant is not.
func (c *compiler) holder(p string) (at string, write, ok bool) {
	for _, b := range c.plan.Binds {
		if b.Item >= 0 && !c.ofContext(b.Item) && under(p, b.Path) && len(b.Path) >= len(at) {
			at, write, ok = b.Path, b.Write, true
		}
	}
	for _, b := range c.plan.Binds {
		if b.Item < 0 && b.Source == "" && under(p, b.Path) && len(b.Path) > len(at) {
			write = write && b.Write
		}
	}
	return at, write, ok
}

// sortBinds orders binds so that a parent is attached before its children, whatever
// its kind; two binds of one path keep the later (stronger) one.
func (c *compiler) sortBinds() {
	sort.SliceStable(c.plan.Binds, func(i, j int) bool { return c.plan.Binds[i].Path < c.plan.Binds[j].Path })
	byPath := map[string]int{}
	var out []Bind
	for _, b := range c.plan.Binds {
		if i, ok := byPath[b.Path]; ok {
			b.Write = b.Write || out[i].Write
			b.NoExec = b.NoExec && out[i].NoExec
			out[i] = b
			continue
		}
		byPath[b.Path] = len(out)
		out = append(out, b)
	}
	c.plan.Binds = out
}

func (c *compiler) environment() {
	for _, v := range c.req.Env {
		if v.Missing {
			c.drop(KindEnv, v.Name, v.From, "not set outside")
			continue
		}
		c.plan.Env = append(c.plan.Env, v.Name+"="+v.Value)
		if v.From != "" {
			c.keep(KindEnv, v.Name, v.From, byLauncher)
		}
	}
	c.proxyVariables()
}

func (c *compiler) defaults() {
	c.keep(KindDefault, "files: everything else is absent", "default", byNamespace, byLandlock)
	c.keep(KindDefault, "system paths and toolchains: read and execute", "default", byNamespace, byLandlock)
	c.networkDefault()
	c.keep(KindDefault, "processes outside: neither seen nor signalled", "default", byNamespace, byLandlock)
	c.keep(KindDefault, "environment: built, not inherited", "default", byLauncher)
	c.user()
	if c.plan.Nested {
		item := c.keep(KindDefault, "nested sandboxes: user, pid and network namespaces and chroot are allowed", "profile", bySeccomp)
		c.plan.Items[item].Caveat = "programs reach more of the kernel; files, hosts and processes stay as they are listed"
	}
	if c.plan.Exec != ExecAny {
		item := c.keep(KindDefault, "execution outside system paths and spawn dirs is refused", "default", byMount, byLandlock)
		c.plan.Items[item].Caveat = "interpreters and memfd are not covered"
	}
}

// finish settles what depends on everything else: where the command starts, the
// lexical aliases that must not hide a bind, and the order of masks.
func (c *compiler) finish() {
	c.plan.Cwd = "/"
	if c.req.Home != "" && !c.plan.masked(c.req.Home) {
		c.plan.Cwd = c.req.Home
	}
	view, shown := c.plan.view(c.req.Cwd)
	onTheWay := slices.ContainsFunc(c.plan.Binds, func(b Bind) bool { return under(b.Path, c.req.Cwd) })
	if (shown && view.Source == "" || onTheWay) && !c.plan.masked(c.req.Cwd) {
		c.plan.Cwd = c.req.Cwd
	}
	c.plan.Links = c.usableLinks()
	sort.SliceStable(c.plan.Masks, func(i, j int) bool { return c.plan.Masks[i].Path < c.plan.Masks[j].Path })
	if c.req.above == nil {
		c.plan.Masks = outermost(c.plan.Masks)
	} else { // those that it works for can move what is denied out of what is closed to it alone
		c.plan.Masks = slices.CompactFunc(c.plan.Masks, func(a, b Mask) bool { return a.Path == b.Path })
	}
	c.placeholders()
	c.plan.Stubs = slices.DeleteFunc(c.plan.Stubs, func(s string) bool {
		return !slices.ContainsFunc(c.plan.Masks, func(m Mask) bool { return m.Path == s })
	})
	sort.SliceStable(c.plan.Guards, func(i, j int) bool { return c.plan.Guards[i].Path < c.plan.Guards[j].Path })
	c.plan.Guards = unguarded(c.plan.Guards)
}

// files adds the run's own files in /etc that the request brings.
func (c *compiler) files() {
	if len(c.req.Files) == 0 {
		return
	}
	c.plan.Files = append(c.plan.Files, c.req.Files...)
	c.keep(KindDefault, "ssh: an own /etc/ssh with the host's client configuration", c.req.FilesOf, byNamespace)
}

// unguarded drops the pins of what is read-only, or lies in a directory that is read-only as
// a whole: they would make what they keep writable again. The input is sorted by path.
func unguarded(guards []Guard) []Guard {
	whole, guarded := map[string]bool{}, map[string]bool{}
	for _, g := range guards {
		guarded[g.Path] = guarded[g.Path] || !g.Pin
	}
	return slices.DeleteFunc(guards, func(g Guard) bool {
		if g.Pin && guarded[g.Path] {
			return true
		}
		for p := path.Dir(g.Path); g.Pin && p != "/"; p = path.Dir(p) {
			if whole[p] {
				return true
			}
		}
		whole[g.Path] = whole[g.Path] || g.Dir && !g.Pin
		return false
	})
}

// usableLinks keeps the symlinks that lie outside every bind (inside one they are
// there already) and do not stand where a bind or a parent of one must be.
func (c *compiler) usableLinks() []Link {
	var out []Link
	seen := map[string]bool{}
	closed := map[string]bool{} // the links and what is above them: whether a deny closes it
	for _, l := range c.plan.Links {
		for at := l.At; at != "/"; at = path.Dir(at) {
			closed[at] = false
		}
	}
	for i := range c.req.Denies {
		c.req.Denies[i].closing(func(at string) {
			if _, above := closed[at]; above || at == "/" {
				closed[at] = true
			}
		})
	}
	for _, l := range c.plan.Links {
		blocked := seen[l.At] || slices.ContainsFunc(c.plan.Binds, func(b Bind) bool {
			return under(l.At, b.Path) && b.Source == "" || under(b.Path, l.At)
		})
		for at := l.At; !blocked; at = path.Dir(at) {
			blocked = closed[at]
			if at == "/" {
				break
			}
		}
		if blocked || under(l.At, "/proc") || under(l.At, "/dev") || under(l.At, "/run") {
			continue
		}
		seen[l.At] = true
		out = append(out, l)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].At < out[j].At })
	return out
}

// outermost drops masks that lie under another one: nothing below a mask is reachable.
// The input is sorted by path.
func outermost(masks []Mask) []Mask {
	var out []Mask
	dirs := map[string]bool{}
	for _, m := range masks {
		hidden := false
		for p := m.Path; p != "/" && !hidden; p = path.Dir(p) {
			hidden = dirs[p]
		}
		if hidden {
			continue
		}
		dirs[m.Path] = true
		out = append(out, m)
	}
	return out
}

// view returns what shows p inside, by the longest path: a bind or a private place.
func (p *Plan) view(at string) (Bind, bool) {
	best, found := Bind{}, false
	for _, b := range p.Binds {
		if under(at, b.Path) && (!found || len(b.Path) >= len(best.Path)) {
			best, found = b, true
		}
	}
	for _, d := range p.Private {
		if under(at, d.Path) && (!found || len(d.Path) > len(best.Path)) {
			best, found = Bind{Path: d.Path, Dir: true, Write: true, NoExec: d.NoExec, Item: -1, Source: privateSource}, true
		}
	}
	return best, found
}

// privateSource marks the view of a private place: what stands there is not the host's.
const privateSource = "private"

// private reports whether b is a place of the run's own in memory.
func (b Bind) private() bool { return b.Source == privateSource }

func (c *compiler) limits() {
	l := c.req.Limits
	if l.Memory > 0 {
		item := c.keep(KindLimit, fmt.Sprintf("memory %d bytes", l.Memory), "profile", byRlimit)
		c.plan.Items[item].Caveat = "per process (RLIMIT_DATA), not for the whole run"
	}
	switch target := fmt.Sprintf("processes %d", l.Processes); {
	case l.Processes == 0:
	case c.req.Root && c.req.User == nil:
		c.drop(KindLimit, target, "profile", "the kernel does not count the processes of uid 0 (RLIMIT_NPROC): run as another user")
	default:
		item := c.keep(KindLimit, target, "profile", byRlimit)
		c.plan.Items[item].Caveat = "threads count as well, and bourn's own, up to 16, on top"
	}
	if l.OpenFiles > 0 {
		item := c.keep(KindLimit, fmt.Sprintf("open files %d", l.OpenFiles), "profile", byRlimit)
		c.plan.Items[item].Caveat = "per process"
	}
	if l.Time > 0 {
		c.keep(KindLimit, "time "+l.Time.String(), "profile", byLauncher)
	}
}

func (c *compiler) sockets() {
	for _, s := range c.req.Sockets {
		v, ok := c.plan.view(s)
		if !ok || v.Source != "" || v.Item < 0 {
			continue
		}
		granted := slices.ContainsFunc(c.plan.Items, func(it Item) bool { return it.Kind == KindUnix && it.Target == s })
		if granted || c.plan.masked(s) || c.plan.Items[v.Item].Kind == KindUnix {
			continue
		}
		item := c.keep(KindUnix, s, c.plan.Items[v.Item].From, byNamespace)
		c.plan.Items[item].Caveat = "a socket of the host that lies in a grant: it can be connected to; deny it to close it"
	}
}

// masked reports whether p lies under a mask.
func (p *Plan) masked(at string) bool {
	return slices.ContainsFunc(p.Masks, func(m Mask) bool { return under(at, m.Path) })
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
