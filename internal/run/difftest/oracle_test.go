package difftest

import (
	"path"
	"slices"
	"sort"
	"strings"

	"bourn/internal/policy"
)

// An oracle says what a trial's run may do, from the words of the design alone: a deny
// wins over everything below it and over every name of its object; writing includes
// reading; what is not granted is absent; a grant that is missing, resolves elsewhere or
// goes through a link in a write grant is dropped; what runs code on the host later is
// read-only. It shares no code with the planner.
type oracle struct {
	*world
	t       *trial
	refused bool // a grant that may never be given: nothing starts

	reads, writes, spawns []string // effective grants, real
	closed                []string // real places that must be closed, with what is below
	objects               map[string]bool
	guarded               []string
	special               []string        // guarded fifos and sockets: a read-only mount stops no writer there, so they are closed
	meant                 []string        // grants to write of directories that a link makes guarded: they stay writable
	dropped               []string        // grants to write that are guarded themselves: shown, and read-only
	pins                  map[string]bool // directories that may keep their names; true: they must
	denies                []string        // patterns, absolute, of every glob deny
	through               []string        // texts of patterns that lead through a link when taken at their word
	points                []string        // where something is mounted
	learnt
}

// A learnt is what only the report can tell, each with the caveat that says so.
type learnt struct {
	blind  []string // directories that an ordinary user cannot search for what is denied, closed whole
	unread []string // denied directories that cannot be read: hard links of their files elsewhere are not known
	hiding []string // directories in which a pattern's matches cannot be found: nor can their hard links elsewhere
}

func newOracle(t *trial, w *world, l learnt) *oracle {
	o := &oracle{world: w, t: t, objects: map[string]bool{}, pins: map[string]bool{}, learnt: l}
	o.deny()
	o.grant()
	o.guard()
	return o
}

func (o *oracle) abs(rel string) string { return path.Clean(o.base + "/" + rel) }

// place returns what a deny of p closes: "" when nothing that whoever plans can see.
func (o *oracle) place(p string) string {
	r := o.resolve(p, true)
	if !r.exists || r.foreign || r.failed || r.blocked {
		return ""
	}
	return r.real
}

func (o *oracle) deny() {
	known := map[string]bool{} // closed, and whoever plans has its name
	shut := func(at string, named bool) {
		o.closed = append(o.closed, at)
		known[at] = known[at] || named
	}
	shut(o.abs(o.t.Bourn), true) // other agents' authority
	shown := o.asked()
	for _, d := range o.t.Deny {
		if !d.Glob {
			if at := o.place(o.abs(d.Text)); at != "" {
				shut(at, true)
			}
			continue
		}
		pattern := o.rebased(o.abs(o.t.Cwd), d.Text)
		o.denies = append(o.denies, pattern)
		word := o.abs(o.t.Cwd + "/" + d.Text) // taken at its word, it may name something too
		switch real := o.place(word); {
		case real == "":
		case real == word:
			shut(word, true)
		case !matchGlob(pattern, real) && slices.ContainsFunc(shown, func(g string) bool { return under(real, g) || under(g, real) }):
			// Through a link to what is shown, and a pattern follows none: the report must say so.
			o.through = append(o.through, d.Text)
		}
		var matched []string
		for _, at := range slices.Concat(o.above(), o.paths()) {
			if underAny(at, matched) { // a match takes what is below it along; links there are not followed
				continue
			}
			// A pattern is looked for in what grants show and above it, through no link.
			above := slices.ContainsFunc(shown, func(g string) bool { return under(g, at) })
			if (above || underAny(at, shown)) && matchGlob(pattern, at) {
				if o.kind(at) == "dir" {
					matched = append(matched, at)
				}
				named := above || o.named(pattern, at, shown)
				switch real := o.place(at); {
				case o.kind(at) == "link" && !named && o.hiddenIn(at, o.hiding): // nobody sees that it leads elsewhere
				case real != "":
					shut(real, named || real != at)
				case o.kind(at) != "link": // where it cannot be searched for, the directory is closed
					shut(at, false)
				}
			}
		}
	}
	for _, at := range o.paths() {
		for _, c := range o.closed {
			if under(at, c) && o.kind(at) != "dir" && !(o.hidden(at, c) && slices.Contains(o.unread, c)) && (known[c] || !o.hiddenIn(at, o.hiding)) {
				o.objects[o.object(at)] = true
			}
		}
	}
}

// named reports whether whoever plans comes to a pattern's match: each directory on the
// way from what is shown can be listed, or be passed where the pattern says the next name
// outright.
func (o *oracle) named(pattern, at string, shown []string) bool {
	if o.root {
		return true
	}
	parts := strings.Split(pattern, "/")
	for dir := path.Dir(at); underAny(dir, shown); dir = path.Dir(dir) {
		depth := strings.Count(dir, "/") + 1 // of the name in it
		said := depth < len(parts) && !slices.Contains(parts[:depth], "**") && outright(parts[depth])
		if mode := o.mode(dir); mode&0o100 == 0 || mode&0o400 == 0 && !said {
			return false
		}
	}
	return true
}

// above lists the base and the directories above it but the root, outermost first.
func (o *oracle) above() (out []string) {
	for dir := o.base; dir != "/"; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// hidden reports whether whoever plans cannot list all directories from top, where that is
// one, down to what stands at a path.
func (o *oracle) hidden(at, top string) bool {
	for dir := path.Dir(at); under(dir, top); dir = path.Dir(dir) {
		if !o.root && o.mode(dir)&0o500 != 0o500 {
			return true
		}
	}
	return false
}

// lists reports whether a directory known by name can be listed: it must be readable, and
// those above it, up to top, passable.
func (o *oracle) lists(at, top string) bool {
	if o.root {
		return true
	}
	for dir := path.Dir(at); under(dir, top); dir = path.Dir(dir) {
		if o.mode(dir)&0o100 == 0 {
			return false
		}
	}
	return o.mode(at)&0o500 == 0o500
}

// hiddenIn reports whether a place is hidden in one of these directories.
func (o *oracle) hiddenIn(at string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(at, d) && o.hidden(at, d) })
}

// cautious is an oracle that counts on no name of an object but those that whoever plans
// can find. It says where something that destroys may be tried.
func (o *oracle) cautious() *oracle {
	l := o.learnt
	l.unread, l.hiding = slices.Clone(o.closed), append(o.paths(), o.base)
	return newOracle(o.t, o.world, l)
}

// Caveats of deny items that relax what the oracle wants.
const (
	caveatBlind, caveatBlindEnd = "it cannot be searched for what ", " denies, so all of it is closed; hard links of its files elsewhere are not known"
	caveatUnread                = "it cannot be read, so hard links of its files elsewhere are not known"
)

// learn returns an oracle that knows what the report says and it alone can know.
func (o *oracle) learn(items []policy.Item) *oracle {
	var l learnt
	for _, it := range items {
		if it.Kind != policy.KindDeny || it.Fate != policy.Enforced {
			continue
		}
		switch r := o.resolve(it.Target, true); {
		case !r.exists || r.foreign || o.kind(r.real) != "dir":
		case it.Caveat == caveatUnread:
			l.unread = append(l.unread, r.real)
		case strings.HasPrefix(it.Caveat, caveatBlind) && strings.HasSuffix(it.Caveat, caveatBlindEnd) && o.mayBeBlind(r.real):
			l.blind, l.hiding = append(l.blind, r.real), append(l.hiding, r.real)
		}
	}
	if len(l.blind)+len(l.unread) == 0 {
		return o
	}
	return newOracle(o.t, o.world, l)
}

// mayBeBlind reports whether a directory hides its entries from whoever plans, and among
// them may be something denied: a pattern's match, or another name of a denied file.
func (o *oracle) mayBeBlind(dir string) bool {
	if o.root || o.mode(dir)&0o500 == 0o500 {
		return false
	}
	for _, p := range o.denies {
		if leadsOn(strings.Split(p, "/"), strings.Split(dir, "/")) {
			return true
		}
	}
	names := map[string]int{}
	for _, at := range o.paths() {
		names[o.object(at)]++
	}
	for object := range o.objects {
		if names[object] > 1 {
			return true
		}
	}
	return false
}

// leadsOn reports whether something below the directory with these parts can match.
func leadsOn(pat, parts []string) bool {
	switch {
	case len(parts) == 0:
		return len(pat) > 0
	case len(pat) == 0:
		return false
	}
	return pat[0] == "**" || matchName(pat[0], parts[0]) && leadsOn(pat[1:], parts[1:])
}

// rebased returns the pattern with the directories that it names outright resolved.
func (o *oracle) rebased(cwd, text string) string {
	parts := strings.Split(text, "/")
	dir := cwd
	for len(parts) > 1 && outright(parts[0]) {
		dir += "/" + unescape(parts[0])
		parts = parts[1:]
	}
	if r := o.resolve(dir, true); r.real != "" && !r.foreign && !r.failed {
		dir = r.real
	}
	return escape(dir) + "/" + strings.Join(parts, "/")
}

// outright reports whether a component of a pattern is a name.
func outright(part string) bool {
	return !strings.ContainsAny(strings.NewReplacer(`\*`, "", `\?`, "", `\[`, "", `\{`, "").Replace(part), "*?[{")
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// asked returns the real paths of all grants that lead somewhere.
func (o *oracle) asked() []string {
	var out []string
	for _, list := range [][]string{o.t.Read, o.t.writes()} {
		for _, g := range list {
			if r := o.resolve(o.abs(g), true); r.exists && !r.failed && !r.foreign && !r.blocked && !o.foul(r) {
				out = append(out, r.real)
			}
		}
	}
	return out
}

// writes are the write grants; without an agent and one of them, the working directory.
func (t *trial) writes() []string {
	if t.Agent || len(t.Write) > 0 {
		return t.Write
	}
	for _, r := range t.Read {
		if under("/"+t.Cwd, path.Clean("/"+r)) {
			return nil
		}
	}
	return []string{t.Cwd}
}

// foul reports whether a followed link lies under a write grant.
func (o *oracle) foul(r way) bool {
	return slices.ContainsFunc(r.links, func(l string) bool {
		return slices.ContainsFunc(o.t.writes(), func(g string) bool { return l != o.abs(g) && under(l, o.abs(g)) })
	})
}

func (o *oracle) grant() {
	list := func(grants []string, more bool) (out []string) { // more than to read

		for _, g := range grants {
			r := o.resolve(o.abs(g), true)
			never := under(o.abs("home"), r.real) || under(r.real, o.abs(o.t.Bourn)) || more && runsOnHost(r.real)
			if r.foreign || r.exists && never {
				o.refused = o.refused || !o.t.Agent
				continue
			}
			switch {
			case r.failed, r.blocked, !r.exists, o.foul(r):
			case o.t.Agent && r.real != o.abs(g):
			case o.isClosed(r.real):
			default:
				out = append(out, r.real)
			}
		}
		return out
	}
	o.reads, o.writes = list(o.t.Read, false), list(o.t.writes(), true)
	for _, s := range list(o.t.Spawn, true) {
		if o.kind(s) == "dir" && o.granted(s) && o.t.Exec != "none" {
			o.spawns = append(o.spawns, s)
		}
	}
}

// What runs code on the host later: in a git directory, in an editor's or an agent's
// config directory, and by itself.
var (
	gitEntries    = []string{"hooks", "config", "config.worktree", "commondir", "info/attributes"}
	configEntries = map[string][]string{".vscode": {"tasks.json", "settings.json"}, ".claude": {"settings.json", "settings.local.json", "hooks"}}
	hostFiles     = []string{".mcp.json", ".envrc"}
)

// runsOnHost reports whether a path is, or lies in, what runs code on the host later: to
// write there can never be granted by itself.
func runsOnHost(at string) bool {
	parts := strings.Split(at, "/")
	for i, p := range parts {
		entries := configEntries[p]
		if p == ".git" {
			entries = gitEntries
		}
		rest := strings.Join(parts[i+1:], "/") + "/"
		if slices.Contains(hostFiles, p) || slices.ContainsFunc(entries, func(e string) bool { return strings.HasPrefix(rest, e+"/") || strings.Contains(rest, "/"+e+"/") }) {
			return true
		}
	}
	return false
}

// guard finds what is read-only in the grants to write, and which directories keep their
// names: those between a grant and what is guarded in a repository, and the config
// directories. Nested .envrc and .mcp.json have no such directories.
func (o *oracle) guard() {
	g := guards{oracle: o}
	g.ownPins()
	for _, root := range o.writes {
		if o.kind(root) != "dir" {
			continue
		}
		if slices.Contains(strings.Split(root, "/"), ".git") {
			g.repository(root, root, false)
		}
		for _, e := range configEntries[path.Base(root)] {
			g.add(root, root+"/"+e, "", false)
		}
		g.project(root, root)
		for _, sub := range o.below(root) {
			g.project(root, sub)
			for _, deep := range o.below(sub) {
				g.project(root, deep)
			}
		}
	}
	// The other names of guarded files, where they can be found. What a guarded directory
	// reaches is what it is, with no item of its own.
	for _, at := range o.paths() {
		reached := slices.ContainsFunc(g.dirs, func(dir string) bool { return g.reaches(dir, at) })
		if !slices.Contains(g.files, o.object(at)) || o.kind(at) != "file" || reached {
			continue
		}
		for _, root := range o.writes {
			if under(at, root) && !o.hidden(at, root) {
				o.guarded = append(o.guarded, at)
				if slices.Contains(o.tops(), at) { // granted by itself: such a grant has no effect
					o.dropped = append(o.dropped, at)
				}
			}
		}
	}
	o.guarded = slices.DeleteFunc(o.guarded, o.isClosed)
	o.special = g.special
	sort.Strings(o.guarded)
	o.guarded = slices.Compact(o.guarded)
}

// below lists the directories in one in which projects are looked for.
func (o *oracle) below(dir string) (out []string) {
	if o.hidden(dir+"/x", dir) || !o.reachable(dir) {
		return nil
	}
	for _, at := range o.paths() {
		if path.Dir(at) == dir && o.nodes[at].Kind == "dir" && path.Base(at) != ".git" && path.Base(at) != "node_modules" {
			out = append(out, at)
		}
	}
	return out
}

func (o *oracle) reachable(at string) bool { return o.place(at) == at }

type guards struct {
	*oracle
	files   []string // objects
	dirs    []string // real
	special []string
}

// tops lists the grants to write that no other grant to write covers.
func (o *oracle) tops() (out []string) {
	for _, w := range o.writes {
		if !slices.ContainsFunc(o.writes, func(v string) bool { return v != w && under(w, v) }) {
			out = append(out, w)
		}
	}
	return out
}

// ownPins keeps the names of the directories between a grant and Bourn's own in it: moved
// with one of them, it would be under a name that is not closed.
func (g *guards) ownPins() {
	own := g.abs(g.t.Bourn)
	if underAny(own, g.closed[1:]) || underAny(own, g.blind) { // closed by a deny, which remembers
		return
	}
	for dir := path.Dir(own); g.granted(dir); dir = path.Dir(dir) {
		if g.granted(path.Dir(dir)) && !g.isClosed(dir) { // else the top of a grant keeps its name anyway
			g.pins[dir] = true
		}
	}
}

// add guards what stands at a path, found from a grant. Names are kept of the directories
// down to it that lie below pinned; "" keeps none. Through a link, nothing must keep its
// name: the link can be replaced as well, and that is reported.
func (g *guards) add(root, at, pinned string, linked bool) {
	r := g.resolve(at, true)
	if !r.exists || r.foreign || r.failed || r.blocked {
		return
	}
	linked = linked || len(r.links) > 0
	if g.kind(r.real) != "dir" {
		g.files = append(g.files, g.object(r.real))
	}
	if g.kind(r.real) == "dir" {
		g.dirs = append(g.dirs, r.real)
	}
	for _, in := range g.paths() { // a guarded directory guards all its files, by their other names too
		if g.kind(r.real) == "dir" && in != r.real && g.reaches(r.real, in) && g.kind(in) == "file" && !g.hidden(in, r.real) {
			g.files = append(g.files, g.object(in))
		}
	}
	if !underAny(r.real, g.writes) || g.isClosed(r.real) {
		return
	}
	// A directory that is granted by its own name was meant, whatever link leads to it; for
	// a file, the grant to write has no effect.
	if slices.Contains(g.tops(), r.real) {
		if g.kind(r.real) == "dir" {
			g.meant = append(g.meant, r.real)
			return
		}
		g.dropped = append(g.dropped, r.real)
	}
	switch g.kind(r.real) {
	case "fifo", "sock":
		g.special = append(g.special, r.real)
	default:
		g.guarded = append(g.guarded, r.real)
	}
	if pinned == "" {
		return
	}
	for dir := path.Dir(at); dir != root && under(dir, pinned); dir = path.Dir(dir) {
		g.pins[dir] = g.pins[dir] || !linked
	}
}

// reaches reports whether what stands at a path is guarded with a directory: not what a
// grant to write shows that is the directory, or lies below it and in no other grant.
func (g *guards) reaches(dir, at string) bool {
	within := func(w string) bool { return w != dir && under(dir, w) }
	own := func(w string) bool { return under(w, dir) && under(at, w) }
	return under(at, dir) && (slices.ContainsFunc(g.writes, within) || !slices.ContainsFunc(g.writes, own))
}

func (g *guards) project(root, dir string) {
	git := g.resolve(dir+"/.git", true)
	switch {
	case !git.exists || git.foreign || git.failed || git.blocked:
	case g.kind(git.real) == "dir":
		g.repository(root, git.real, len(git.links) > 0)
	default: // of a worktree
		g.add(root, dir+"/.git", root, false)
	}
	for name, entries := range configEntries {
		if c := g.resolve(dir+"/"+name, true); c.exists && !c.foreign && !c.failed && !c.blocked {
			for _, e := range entries {
				g.add(root, c.real+"/"+e, c.real, len(c.links) > 0)
			}
		}
	}
	for _, name := range hostFiles {
		g.add(root, dir+"/"+name, "", false)
	}
	if g.place(dir+"/HEAD") != "" && g.place(dir+"/objects") != "" && g.place(dir+"/refs") != "" {
		g.repository(root, dir, false)
	}
}

func (g *guards) repository(root, git string, linked bool) {
	for _, e := range gitEntries {
		g.add(root, git+"/"+e, root, linked)
	}
	if modules := git + "/modules"; g.kind(modules) == "dir" && g.lists(modules, git) {
		g.modules(root, modules, linked, 8)
	}
	if trees := git + "/worktrees"; g.kind(trees) == "dir" && g.lists(trees, git) {
		for _, d := range g.below(trees) {
			for _, e := range gitEntries {
				g.add(root, d+"/"+e, root, linked)
			}
		}
	}
}

func (g *guards) modules(root, dir string, linked bool, levels int) {
	for _, d := range g.below(dir) {
		if g.place(d+"/HEAD") != "" || g.place(d+"/config") != "" || g.place(d+"/hooks") != "" {
			g.repository(root, d, linked)
		} else if levels > 1 {
			g.modules(root, d, linked, levels-1)
		}
	}
}

func (o *oracle) isClosed(real string) bool {
	return underAny(real, o.closed) || underAny(real, o.blind) || slices.Contains(o.special, real) || o.objects[o.object(real)]
}
func (o *oracle) granted(real string) bool {
	return underAny(real, o.reads) || underAny(real, o.writes)
}
func (o *oracle) canRead(real string) bool { return o.granted(real) && !o.isClosed(real) }
func (o *oracle) canWrite(real string) bool {
	return underAny(real, o.writes) && !o.isClosed(real) && !underAny(real, o.guarded)
}

func (o *oracle) canExec(real string) bool {
	return o.canRead(real) && (o.t.Exec == "any" || underAny(real, o.spawns))
}

// guardedByName reports whether some name of an object is read-only.
func (o *oracle) guardedByName(object string) bool {
	return slices.ContainsFunc(o.paths(), func(at string) bool {
		return o.object(at) == object && underAny(at, o.guarded) && !o.hiddenIn(at, o.guarded)
	})
}

// readableByName reports whether an object may be read by some name of it.
func (o *oracle) readableByName(object string) bool {
	return slices.ContainsFunc(o.paths(), func(at string) bool { return o.object(at) == object && o.canRead(at) })
}

// passable reports whether inside the seal a way can be gone as outside: its links are
// shown, and its directories are shown or lead to what is.
func (o *oracle) passable(r way) bool {
	for _, l := range r.links {
		if !o.canRead(l) {
			return false
		}
	}
	for _, d := range r.dirs {
		if o.canRead(d) {
			continue
		}
		if o.isClosed(d) || !slices.ContainsFunc(slices.Concat(o.reads, o.writes), func(g string) bool { return under(g, d) }) {
			return false
		}
	}
	return true
}

// mounts lists the places that are mounts inside: grants, save those that another one
// shows as well; spawn dirs; what is guarded, pinned or closed.
func (o *oracle) mounts() []string {
	if o.points != nil {
		return o.points
	}
	byLength := func(in []string) []string {
		out := slices.Clone(in)
		slices.SortStableFunc(out, func(a, b string) int { return len(a) - len(b) })
		return out
	}
	var shown []string
	for _, g := range byLength(o.writes) {
		if !underAny(g, shown) {
			shown = append(shown, g)
		}
	}
	for _, g := range byLength(o.reads) {
		if !underAny(g, shown) {
			shown = append(shown, g)
		}
	}
	if o.t.Exec != "any" {
		shown = append(shown, o.spawns...)
	}
	shown = slices.Concat(shown, o.guarded, o.special, o.closed, o.blind)
	for dir := range o.pins {
		shown = append(shown, dir)
	}
	o.points = append(shown, "/")
	return o.points
}

// mountPoint reports whether something is attached at a place.
func (o *oracle) mountPoint(at string) bool {
	return slices.Contains(o.mounts(), at) || o.objects[o.object(at)]
}

// mount returns the mount on which a place lies.
func (o *oracle) mount(at string) (best string) {
	for _, m := range o.mounts() {
		if under(at, m) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

// private reports whether a place lies where every run has a writable place of its own,
// which a grant to read then lies below.
func (o *oracle) private(at string) bool {
	return underAny(at, []string{o.abs("home"), "/tmp", "/var/tmp"})
}

// later reports whether a pattern would close what is made at a path.
func (o *oracle) later(at string) bool {
	return slices.ContainsFunc(o.denies, func(p string) bool {
		for p2 := at; under(p2, o.base); p2 = path.Dir(p2) {
			if matchGlob(p, p2) {
				return true
			}
		}
		return false
	})
}

// relative returns a path below the base for a message.
func (o *oracle) relative(at string) string { return strings.TrimPrefix(at, o.base+"/") }
