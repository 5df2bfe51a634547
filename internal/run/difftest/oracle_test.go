package difftest

import (
	"path"
	"slices"
	"sort"
	"strings"
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
	maybe                 []string // may be read-only too: what a dropped grant holds of the kind
	denies                []string // patterns, absolute, of every glob deny
}

func newOracle(t *trial, w *world) *oracle {
	o := &oracle{world: w, t: t, objects: map[string]bool{}}
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
	o.closed = append(o.closed, o.abs(o.t.Bourn)) // other agents' authority
	shown := o.asked()
	for _, d := range o.t.Deny {
		if !d.Glob {
			if at := o.place(o.abs(d.Text)); at != "" {
				o.closed = append(o.closed, at)
			}
			continue
		}
		pattern := o.rebased(o.abs(o.t.Cwd), d.Text)
		o.denies = append(o.denies, pattern)
		if at := o.place(o.abs(o.t.Cwd + "/" + d.Text)); at != "" { // taken at its word, it names something too
			o.closed = append(o.closed, at)
		}
		var matched []string
		for _, at := range o.paths() {
			if underAny(at, matched) { // a match takes what is below it along; links there are not followed
				continue
			}
			// A pattern is looked for in what grants show and above it, through no link.
			above := slices.ContainsFunc(shown, func(g string) bool { return under(g, at) })
			if (above || underAny(at, shown)) && o.visible(at) && matchGlob(pattern, at) {
				if o.kind(at) == "dir" {
					matched = append(matched, at)
				}
				if real := o.place(at); real != "" {
					o.closed = append(o.closed, real)
				}
			}
		}
	}
	for _, at := range o.paths() {
		if underAny(at, o.closed) && o.kind(at) != "dir" {
			o.objects[o.object(at)] = true
		}
	}
}

// rebased returns the pattern with the directories that it names outright resolved.
func (o *oracle) rebased(cwd, text string) string {
	parts := strings.Split(text, "/")
	dir := cwd
	for len(parts) > 1 && !strings.ContainsAny(strings.NewReplacer(`\*`, "", `\?`, "", `\[`, "", `\{`, "").Replace(parts[0]), "*?[{") {
		dir += "/" + unescape(parts[0])
		parts = parts[1:]
	}
	if r := o.resolve(dir, true); r.real != "" && !r.foreign && !r.failed {
		dir = r.real
	}
	return escape(dir) + "/" + strings.Join(parts, "/")
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
	list := func(grants []string) (out []string) {
		for _, g := range grants {
			r := o.resolve(o.abs(g), true)
			if r.foreign || r.exists && (under(o.abs("home"), r.real) || under(r.real, o.abs(o.t.Bourn))) {
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
	o.reads, o.writes = list(o.t.Read), list(o.t.writes())
	for _, s := range list(o.t.Spawn) {
		if o.kind(s) == "dir" && o.granted(s) && o.t.Exec != "none" {
			o.spawns = append(o.spawns, s)
		}
	}
}

// guardedBelow are paths below a write grant that run code on the host later.
var guardedBelow = []string{".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info/attributes",
	".vscode/tasks.json", ".vscode/settings.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks",
	".mcp.json", ".envrc"}

func (o *oracle) guard() {
	o.guarded = o.guards(o.writes)
	o.maybe = o.guards(o.asked())
}

// guards returns what is read-only of trees that may be written.
func (o *oracle) guards(grants []string) (guarded []string) {
	for _, g := range grants {
		if o.kind(g) != "dir" {
			continue
		}
		for _, rel := range []string{".git", ".vscode", ".claude"} { // .git is a file in a worktree
			if at := o.place(g + "/" + rel); at != "" && o.kind(at) != "dir" {
				guarded = append(guarded, at)
			}
		}
		for _, rel := range guardedBelow {
			if at := o.place(g + "/" + rel); at != "" {
				guarded = append(guarded, at)
			}
		}
	}
	for _, at := range o.paths() { // repositories three levels below a grant
		sub := path.Dir(at)
		if path.Base(at) != ".git" || o.kind(at) != "dir" || !slices.ContainsFunc(grants, func(g string) bool { return o.nested(sub, g) }) {
			continue
		}
		for _, rel := range guardedBelow[:5] {
			if real := o.place(sub + "/" + rel); real != "" {
				guarded = append(guarded, real)
			}
		}
	}
	guarded = slices.DeleteFunc(guarded, func(at string) bool { return !underAny(at, o.writes) })
	sort.Strings(guarded)
	return guarded
}

// nested reports whether repositories are looked for in a directory below a grant.
func (o *oracle) nested(sub, grant string) bool {
	rest, ok := strings.CutPrefix(sub, grant+"/")
	if !ok || strings.Count(rest, "/") > 2 || !o.visible(sub) {
		return false
	}
	return !strings.HasPrefix(rest, ".") && !strings.Contains(rest, "/.")
}

func (o *oracle) isClosed(real string) bool {
	return underAny(real, o.closed) || o.objects[o.object(real)]
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
	return slices.ContainsFunc(o.paths(), func(at string) bool { return o.object(at) == object && underAny(at, o.guarded) })
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

// mountPoint reports whether something is attached at a place, or may be.
func (o *oracle) mountPoint(at string) bool {
	for _, list := range [][]string{o.reads, o.writes, o.spawns, o.closed, o.guarded, o.maybe} {
		if slices.Contains(list, at) {
			return true
		}
	}
	for _, g := range slices.Concat(o.guarded, o.maybe) { // the directories that hold them keep their names
		if path.Dir(g) == at {
			return true
		}
	}
	return o.objects[o.object(at)]
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
