package policy

import (
	"path"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// A model is a host in memory, of which the same is asked as package sandbox asks of a real
// one: it is what the facts of the requests below are of.
type model struct {
	nodes map[string]node
	links map[string]string // symlinks, by their path
}

// A node is a file, directory or socket.
type node struct {
	ino          uint64
	dir, socket  bool
	closed       bool // it cannot be searched
	kernel, tool bool // a kernel file system, a directory of PATH
}

// modelRoots are where grants are. The last two lie in what is the run's own otherwise.
var modelRoots = []string{"/p", "/q", "/home/u/src", "/tmp/w"}

// modelNames are those of what may stand in a directory; those that begin with d are
// directories.
var modelNames = []string{"da", "db", "dtool", "dproc", "dshut", ".git", "k.pem", "x.sock", "f", ".mcp.json"}

func drawModel(t *rapid.T) *model {
	m := &model{nodes: map[string]node{"/usr/bin": {ino: 1, dir: true}, "/usr/bin/sh": {ino: 2}}, links: map[string]string{}}
	ino := uint64(10)
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		m.nodes[dir] = node{ino: ino, dir: true, tool: path.Base(dir) == "dtool", kernel: path.Base(dir) == "dproc", closed: path.Base(dir) == "dshut"}
		ino++
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelNames), 0, 3, rapid.ID).Draw(t, "in "+dir) {
			at := path.Join(dir, name)
			switch {
			case name == ".git":
				m.nodes[at] = node{ino: ino, dir: true}
				m.nodes[at+"/hooks"] = node{ino: ino + 1, dir: true}
				m.nodes[at+"/config"] = node{ino: ino + 2}
				ino += 2
			case name[0] == 'd':
				if depth > 0 {
					fill(at, depth-1)
				}
			default:
				m.nodes[at] = node{ino: ino, socket: name == "x.sock"}
			}
			ino++
		}
	}
	for _, root := range modelRoots {
		fill(root, 2)
	}
	m.nodes["/home/u/.agent"] = node{ino: 5, dir: true}
	for range rapid.IntRange(0, 3).Draw(t, "hard links") {
		m.link(t)
	}
	return m
}

// paths returns all paths, sorted.
func (m *model) paths() []string {
	var out []string
	for at := range m.nodes {
		out = append(out, at)
	}
	slices.Sort(out)
	return out
}

func (m *model) draw(t *rapid.T, what string) string {
	return rapid.SampledFrom(m.paths()).Draw(t, what)
}

// link makes another name for a file.
func (m *model) link(t *rapid.T) {
	file, dir := m.draw(t, "link"), m.draw(t, "into")
	if f := m.nodes[file]; !f.dir && !f.socket && m.nodes[dir].dir && dir != "/usr/bin" {
		m.nodes[path.Join(dir, "hard")] = f
	}
}

// change is what the host does between two seals.
func (m *model) change(t *rapid.T) {
	switch rapid.IntRange(0, 4).Draw(t, "change") {
	case 0: // a directory gives way to a symlink
		at, to := m.draw(t, "from"), m.draw(t, "to")
		if slices.Contains(modelRoots, at) || under(to, at) || under(at, "/usr/bin") {
			return
		}
		m.remove(at)
		m.links[at] = to
	case 1:
		if at := m.draw(t, "removed"); !under(at, "/usr/bin") {
			m.remove(at)
		}
	case 2:
		m.link(t)
	}
}

func (m *model) remove(at string) {
	for p := range m.nodes {
		if under(p, at) {
			delete(m.nodes, p)
		}
	}
}

func (m *model) place(p string) Place {
	out := Place{Path: p, Real: "/"}
	for _, name := range strings.Split(p, "/")[1:] {
		out.Real = path.Join(out.Real, name)
		if to, ok := m.links[out.Real]; ok {
			out.Links = append(out.Links, Link{out.Real, to})
			out.Symlink = out.Real == p
			out.Real = to
		}
	}
	n, ok := m.nodes[out.Real]
	out.Exists, out.Dir, out.Socket, out.Special = ok, n.dir, n.socket, n.socket
	if ok {
		out.Object, out.Nlink = Object{Dev: 1, Ino: n.ino}, uint64(len(m.names(n.ino, nil)))
	}
	return out
}

// names returns the paths of an object, below roots where there are some.
func (m *model) names(ino uint64, roots []string) []string {
	var out []string
	for _, p := range m.paths() {
		if m.nodes[p].ino == ino && (roots == nil || slices.ContainsFunc(roots, func(r string) bool { return under(p, r) })) {
			out = append(out, p)
		}
	}
	return out
}

// gather attaches the facts to a request, in the order of sandbox.Gather.
func (m *model) gather(r *Request) {
	r.Homes = append([]string{r.Home}, r.Homes...)
	roots := m.grants(r)
	r.System = append(r.System, m.place("/usr/bin"))
	for _, p := range m.paths() {
		if m.nodes[p].tool && r.Refusal(KindRead, p) == "" {
			r.System = append(r.System, m.place(p))
		}
	}
	for _, name := range []string{"/etc/passwd", "/etc/hosts", "/etc/resolv.conf"} {
		r.Etc = append(r.Etc, Place{Path: name, Real: name, Exists: true})
	}
	for i := range r.Denies {
		m.deny(&r.Denies[i], roots)
	}
	for i := range r.Blocks {
		b := &r.Blocks[i]
		b.Place = m.place(b.Target)
		if b.Exists && !b.Dir && b.Nlink > 1 {
			for _, p := range m.names(b.Object.Ino, roots) {
				b.More = append(b.More, Alias{Place: m.place(p), Why: "a hard link"})
			}
		}
	}
	m.guarded(r, roots)
	for _, p := range m.paths() {
		in := slices.ContainsFunc(roots, func(root string) bool { return under(p, root) })
		switch {
		case in && m.nodes[p].kernel:
			r.Inner = append(r.Inner, Inner{Place: m.place(p), Reason: "a kernel file system is mounted there"})
		case in && m.nodes[p].socket:
			r.Sockets = append(r.Sockets, p)
		}
	}
}

func (m *model) grants(r *Request) (roots []string) {
	for i := range r.Grants {
		g := &r.Grants[i]
		g.Place = m.place(g.Path)
		if g.Exists && g.Kind != KindSpawnDir {
			roots = append(roots, g.Real)
		}
	}
	for i := range r.Unix {
		r.Unix[i].Place = m.place(r.Unix[i].Path)
	}
	return roots
}

func (m *model) deny(d *Deny, roots []string) {
	d.Place = m.place(d.Pattern)
	closed := []Place{d.Place}
	if base, name, ok := strings.Cut(d.Pattern, "/**/"); d.Glob && ok {
		d.Place = Place{Path: d.Pattern}
		for _, p := range m.paths() {
			seen := under(p, base) && slices.ContainsFunc(roots, func(root string) bool { return under(p, root) })
			if seen && path.Base(p) == name {
				d.Matches = append(d.Matches, m.place(p))
			}
			if seen && m.nodes[p].closed {
				d.Blind = append(d.Blind, m.place(p))
			}
		}
		closed = d.Matches
	}
	for _, c := range closed {
		for _, in := range m.paths() {
			if f := m.nodes[in]; c.Exists && !f.dir && under(in, c.Real) {
				for _, p := range m.names(f.ino, roots) {
					if !under(p, c.Real) {
						d.More = append(d.More, Alias{Place: m.place(p), Why: "a hard link"})
					}
				}
			}
		}
	}
}

// guarded looks for what runs code later, not deep below each write grant, and for other
// names of it.
func (m *model) guarded(r *Request, roots []string) {
	guard := func(at, reason string) {
		if !slices.ContainsFunc(r.Guarded, func(g Guarded) bool { return g.Path == at }) {
			p := m.place(at)
			r.Guarded = append(r.Guarded, Guarded{Place: p, Name: p.Object, Reason: reason})
		}
	}
	for _, g := range r.Grants {
		if g.Kind != KindWrite || !g.Dir || r.Refused(g) != "" {
			continue
		}
		for _, p := range m.paths() {
			deep := strings.Count(strings.TrimPrefix(p, g.Real), "/") > 3
			if under(p, g.Real) && p != g.Real && !deep && guardedName(p) != "" && guardedName(path.Dir(p)) == "" {
				guard(p, "it runs")
			}
		}
	}
	for _, g := range r.Guarded {
		if g.Exists && g.Nlink > 1 {
			for _, p := range m.names(g.Object.Ino, roots) {
				guard(p, "a hard link")
			}
		}
	}
}
