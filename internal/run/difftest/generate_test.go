package difftest

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// A trial is one random tree and one random request. Paths of the request are relative
// to the base directory; a pattern is relative to the working directory.
type trial struct {
	Seed  uint64
	UID   int
	Place string // the directory that holds the base
	Nodes []node
	Cwd   string

	Read, Write, Spawn []string
	Deny               []deny

	Agent bool   // by a profile instead of flags
	Exec  string // any, allowlist or none; without an agent spawn dirs decide
	Bourn string // $BOURN_HOME
	Moves []move // carried out inside, for good, between two runs
}

type deny struct {
	Text string
	Glob bool
}

type move struct{ From, To string }

var names = []string{"a", "b", "c", "d", "a", "b", "c", ".env", "k.pem", "x y", "n\nl", "*", "[a]", "é😀", "-r", "q'\"", `b\s`, "{a,b}",
	".git", "config", "hooks", ".mcp.json", ".envrc", ".vscode", "tasks.json", "sub"}

// generate makes a trial from a seed, the same each time.
func generate(seed uint64, uid int, places []string) *trial {
	r := rand.New(rand.NewPCG(seed, 0x6f75726e))
	t := &trial{Seed: seed, UID: uid, Place: places[r.IntN(len(places))], Bourn: "bh", Cwd: "w", Exec: "any"}
	g := generator{r: r, t: t}
	for _, dir := range []string{"home", "w", "o"} {
		t.Nodes = append(t.Nodes, node{Path: dir, Kind: "dir", Mode: 0o755})
	}
	g.dirs = []string{"w", "w", "o"}
	if r.IntN(4) == 0 {
		t.Nodes = append(t.Nodes, node{Path: "home/p", Kind: "dir", Mode: 0o755})
		g.dirs = append(g.dirs, "home/p", "home/p")
		if r.IntN(2) == 0 {
			t.Cwd = "home/p"
		}
	}
	switch r.IntN(6) {
	case 0:
		t.Bourn = t.Cwd + "/bh"
	case 1:
		t.Bourn = "home/bh"
	}
	t.Nodes = append(t.Nodes, node{Path: t.Bourn, Kind: "dir", Mode: 0o700})
	for range 5 + r.IntN(10) {
		g.entry()
	}
	if *plain {
		for i := range t.Nodes {
			if n := &t.Nodes[i]; n.Kind == "dir" {
				n.Mode |= 0o700
			}
		}
	}
	if r.IntN(5) == 0 {
		g.repository()
	}
	g.request()
	if r.IntN(*again) == 0 {
		g.moves()
	}
	return t
}

type generator struct {
	r    *rand.Rand
	t    *trial
	dirs []string // where entries are made
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (g *generator) has(p string) bool {
	return slices.ContainsFunc(g.t.Nodes, func(n node) bool { return n.Path == p })
}

// entry adds one entry, if its name is free.
func (g *generator) entry() {
	at := pick(g.r, g.dirs) + "/" + pick(g.r, names)
	if g.has(at) {
		return
	}
	n := node{Path: at, Mode: 0o644}
	switch k := g.r.IntN(20); {
	case k < 7:
		n.Kind, n.Mode = "dir", pick(g.r, []uint32{0o755, 0o755, 0o755, 0o755, 0o755, 0o500, 0o300, 0, 0o700})
		if strings.Count(at, "/") < 4 {
			g.dirs = append(g.dirs, at)
		}
	case k < 12:
		n.Kind, n.Mode = "file", pick(g.r, []uint32{0o644, 0o755, 0o755, 0o755, 0o600, 0o400, 0})
	case k < 16:
		n.Kind, n.Target = "link", g.target(at)
	case k < 18:
		var files []string
		for _, o := range g.t.Nodes {
			if o.Kind == "file" {
				files = append(files, o.Path)
			}
		}
		if len(files) == 0 {
			return
		}
		n.Kind, n.Target = "hard", pick(g.r, files)
	case k < 19:
		n.Kind = "fifo"
	default:
		n.Kind = "sock"
	}
	g.t.Nodes = append(g.t.Nodes, n)
}

// repository adds one that runs code on the host, as far as its names are free.
func (g *generator) repository() {
	top := pick(g.r, g.dirs)
	dir := top + pick(g.r, []string{"/.git", "/c/.git", "/a/b/.git", "/bare", "/.git/modules/m", "/a/.git/modules/m/n", "/.git/worktrees/t"})
	for _, f := range []string{"/config", "/HEAD", "/hooks/pre-commit", "/info/attributes", "/objects/x", "/refs/x"} {
		if g.r.IntN(5) > 0 {
			g.file(top, strings.TrimPrefix(dir, top+"/")+f)
		}
	}
}

// file adds a file below a directory, with the directories on the way, unless something
// else stands there.
func (g *generator) file(top, rel string) {
	parts := strings.Split(rel, "/")
	for i := range parts {
		at := top + "/" + strings.Join(parts[:i+1], "/")
		if g.has(at) {
			if !slices.ContainsFunc(g.t.Nodes, func(n node) bool { return n.Path == at && n.Kind == "dir" }) {
				return
			}
			continue
		}
		n := node{Path: at, Kind: "dir", Mode: 0o755}
		if i == len(parts)-1 {
			n.Kind, n.Mode = "file", 0o644
		}
		g.t.Nodes = append(g.t.Nodes, n)
	}
}

// target is the text of a link: to something, absolute or relative, or to nothing.
func (g *generator) target(at string) string {
	to := g.t.Nodes[g.r.IntN(len(g.t.Nodes))].Path
	switch g.r.IntN(10) {
	case 0:
		return pick(g.r, []string{"nowhere", "..", ".", path.Base(at), "/etc/hostname", "/proc/self/root", "../.."})
	case 1:
		return "@/" + to + "/" + pick(g.r, names)
	case 2, 3, 4, 5:
		return "@/" + to
	}
	ups := strings.Repeat("../", strings.Count(at, "/"))
	return ups + to
}

// anyPath is a path to grant or deny: mostly something that exists.
func (g *generator) anyPath() string {
	n := g.t.Nodes[g.r.IntN(len(g.t.Nodes))]
	switch g.r.IntN(9) {
	case 0:
		return n.Path + "/" + pick(g.r, names)
	case 1: // through a link
		for range 10 {
			l := g.t.Nodes[g.r.IntN(len(g.t.Nodes))]
			if l.Kind == "link" {
				return l.Path + "/" + pick(g.r, names)
			}
		}
	}
	return n.Path
}

func (g *generator) request() {
	t, r := g.t, g.r
	t.Agent = r.IntN(4) == 0
	grants := func(max int) (out []string) {
		for range r.IntN(max + 1) {
			p := g.anyPath()
			if p == "home" || p == t.Bourn {
				continue
			}
			out = append(out, p)
		}
		return out
	}
	t.Read, t.Write = grants(3), grants(3)
	if r.IntN(2) == 0 {
		t.Write = append(t.Write, pick(r, []string{"w", "w", "o", t.Cwd}))
	}
	if r.IntN(3) == 0 {
		t.Read = append(t.Read, pick(r, []string{"w", "o", t.Cwd}))
	}
	for range r.IntN(5) {
		if r.IntN(3) > 0 {
			t.Deny = append(t.Deny, deny{Text: g.anyPath()})
			continue
		}
		name := escape(pick(r, names))
		t.Deny = append(t.Deny, deny{Glob: true, Text: pick(r, []string{
			"**/" + name, "**/" + name, "*/" + name, "**/*.pem", name + "/**", name + "/*", "**/?", "**/[ab]", "**/{a,b}", "*/*/*", "**/sub/**", ".*"})})
	}
	if len(t.Deny) > 0 && r.IntN(8) == 0 {
		t.Deny = append(t.Deny, t.Deny[0])
	}
	if r.IntN(6) == 0 {
		for range 1 + r.IntN(2) {
			t.Spawn = append(t.Spawn, g.anyPath())
		}
	}
	g.stay()
	if t.Agent { // what a profile refuses is the profile's own test
		seen := map[string]bool{}
		for _, d := range t.Deny {
			seen[d.Text] = true
		}
		bad := func(p string) bool {
			again := seen[p]
			seen[p] = true
			return again || strings.ContainsAny(p, "*\n")
		}
		t.Write, t.Read = slices.DeleteFunc(t.Write, bad), slices.DeleteFunc(t.Read, bad)
		clear(seen)
		t.Spawn = slices.DeleteFunc(t.Spawn, bad)
	}
	if t.Agent {
		if t.Exec = pick(r, []string{"any", "any", "allowlist", "none"}); t.Exec == "none" {
			t.Spawn = nil
		}
	} else if len(t.Spawn) > 0 {
		t.Exec = "allowlist"
	}
}

// stay takes out grants that lead out of the base: what they give is the host's.
func (g *generator) stay() {
	w := newWorld("/base", g.t.Nodes, true)
	leaves := func(p string) bool { return w.resolve("/base/"+p, true).foreign }
	g.t.Read = slices.DeleteFunc(g.t.Read, leaves)
	g.t.Write = slices.DeleteFunc(g.t.Write, leaves)
	g.t.Spawn = slices.DeleteFunc(g.t.Spawn, leaves)
}

// moves renames directories and files between two runs with the same request.
func (g *generator) moves() {
	for range 1 + g.r.IntN(3) {
		n := g.t.Nodes[g.r.IntN(len(g.t.Nodes))]
		if len(g.t.Deny) > 0 && g.r.IntN(3) > 0 { // above something denied
			if d := pick(g.r, g.t.Deny); !d.Glob && g.has(path.Dir(d.Text)) {
				n.Path = path.Dir(d.Text)
			}
		}
		if strings.Count(n.Path, "/") == 0 || n.Path == g.t.Bourn {
			continue
		}
		to := pick(g.r, g.dirs) + "/" + pick(g.r, []string{"moved", "moved2", "a", "b"})
		g.t.Moves = append(g.t.Moves, move{n.Path, to})
	}
}
