package difftest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A node is one entry of a tree, at a path relative to the trial's base directory.
type node struct {
	Path   string
	Kind   string // dir, file, link, hard, fifo or sock
	Target string // of a link: its text, "@" standing for the base; of a hard link: a path like Path
	Mode   uint32
	Token  string // what a file holds instead of its path, after it was moved
}

// content is what a file holds: the '#' that the probe writes again, a program that
// does nothing, and a token that no other file has.
func (n *node) content() string { return "#!/bin/true\n#token:" + n.token() + ":\n" }

func (n *node) token() string {
	if n.Token != "" {
		return n.Token
	}
	return n.Path
}

// tokenOf returns the path of the file whose content this is, or "".
func tokenOf(content string) string {
	_, rest, ok := strings.Cut(content, "#token:")
	if !ok {
		return ""
	}
	token, _, _ := strings.Cut(rest, ":\n")
	return token
}

// A world is the oracle's own file system: names, links and modes, no kernel.
type world struct {
	base  string
	nodes map[string]*node // by absolute path
	root  bool             // whoever plans the run may pass every mode
}

func newWorld(base string, nodes []node, root bool) *world {
	w := &world{base: base, nodes: map[string]*node{}, root: root}
	for i := range nodes {
		w.nodes[base+"/"+nodes[i].Path] = &nodes[i]
	}
	return w
}

// object returns the path of the first name of what stands at at.
func (w *world) object(at string) string {
	if n := w.nodes[at]; n != nil && n.Kind == "hard" {
		return w.object(w.base + "/" + n.Target)
	}
	return at
}

// kind returns what stands at a real path: "" when nothing does.
func (w *world) kind(at string) string {
	if at == w.base || under(w.base, at) {
		return "dir"
	}
	n := w.nodes[w.object(at)]
	if n == nil {
		return ""
	}
	return n.Kind
}

func (w *world) mode(at string) uint32 {
	if n := w.nodes[w.object(at)]; n != nil {
		return n.Mode
	}
	return 0o755
}

func under(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) })
}

// A way is where a path leads and what was passed.
type way struct {
	real    string
	exists  bool
	links   []string // where the links stand that were followed
	dirs    []string // directories that were searched
	foreign bool     // it leaves what the world knows
	failed  bool     // ELOOP, ENOTDIR
	blocked bool     // an ordinary user may not search a directory on the way
}

// resolve follows p; with last set also a link at its end.
func (w *world) resolve(p string, last bool) (r way) {
	here := "/"
	rest := strings.Split(p, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		final := !slices.ContainsFunc(rest, func(s string) bool { return s != "" })
		if name == "" || name == "." {
			if w.kind(here) != "dir" {
				r.failed = true
				return r
			}
			continue
		}
		if w.kind(here) != "dir" {
			r.failed = true
			return r
		}
		r.dirs = append(r.dirs, here)
		if !w.root && w.mode(here)&0o100 == 0 {
			r.blocked = true
		}
		if name == ".." {
			here = path.Dir(here)
			continue
		}
		next := path.Join(here, name)
		switch k := w.kind(next); {
		case k == "" && !under(next, w.base):
			r.foreign = true
			return r
		case k == "":
			r.real = next
			for _, s := range rest {
				if s == ".." {
					r.failed = true
				}
				r.real = path.Join(r.real, s)
			}
			return r
		case k == "link" && (last || !final):
			if len(r.links) == 40 {
				r.failed = true
				return r
			}
			r.links = append(r.links, next)
			target := w.target(next)
			if target == "" {
				r.failed = true
				return r
			}
			if target[0] == '/' {
				here = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		default:
			here = next
		}
	}
	r.real, r.exists = here, true
	return r
}

// target is the text of a link.
func (w *world) target(at string) string {
	return strings.ReplaceAll(w.nodes[at].Target, "@", w.base)
}

// visible reports whether whoever plans can list every directory above at.
func (w *world) visible(at string) bool {
	for dir := path.Dir(at); under(dir, w.base); dir = path.Dir(dir) {
		if !w.root && w.mode(dir)&0o500 != 0o500 {
			return false
		}
	}
	return true
}

// paths lists every known path, sorted.
func (w *world) paths() []string {
	var out []string
	for at := range w.nodes {
		out = append(out, at)
	}
	slices.Sort(out)
	return out
}

// matchGlob is the oracle's own reading of a pattern: ** is any number of components, the
// rest stays within one.
func matchGlob(pattern, p string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(p, "/"))
}

func matchParts(pat, parts []string) bool {
	if len(pat) == 0 {
		return len(parts) == 0
	}
	if pat[0] == "**" {
		for i := 0; i <= len(parts); i++ {
			if matchParts(pat[1:], parts[i:]) {
				return true
			}
		}
		return false
	}
	return len(parts) > 0 && matchName(pat[0], parts[0]) && matchParts(pat[1:], parts[1:])
}

// matchName matches *, ?, [abc], {x,y} and backslash within one name.
func matchName(pat, name string) bool {
	if pat == "" {
		return name == ""
	}
	switch pat[0] {
	case '*':
		for i := 0; i <= len(name); i++ {
			if matchName(pat[1:], name[i:]) {
				return true
			}
		}
		return false
	case '?':
		for i := range name {
			if i > 0 {
				return matchName(pat[1:], name[i:])
			}
		}
		return name != "" && pat[1:] == ""
	case '[':
		set, rest, _ := strings.Cut(pat[1:], "]")
		return name != "" && strings.IndexByte(set, name[0]) >= 0 && matchName(rest, name[1:])
	case '{':
		set, rest, _ := strings.Cut(pat[1:], "}")
		return slices.ContainsFunc(strings.Split(set, ","), func(s string) bool { return matchName(s+rest, name) })
	case '\\':
		return name != "" && len(pat) > 1 && name[0] == pat[1] && matchName(pat[2:], name[1:])
	}
	return name != "" && name[0] == pat[0] && matchName(pat[1:], name[1:])
}

// escape takes the meaning from what a pattern would read.
func escape(p string) string {
	var b strings.Builder
	for i := range len(p) {
		if strings.IndexByte(`*?[]{}\,`, p[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// script returns shell commands that make the tree.
func script(base string, nodes []node) string {
	var b strings.Builder
	for _, n := range nodes {
		at := quote(base + "/" + n.Path)
		switch n.Kind {
		case "dir":
			fmt.Fprintf(&b, "mkdir -p %s\n", at)
		case "file":
			fmt.Fprintf(&b, "printf '%%s' %s > %s\n", quote(n.content()), at)
		case "link":
			fmt.Fprintf(&b, "ln -s -- %s %s\n", quote(strings.ReplaceAll(n.Target, "@", base)), at)
		case "hard":
			fmt.Fprintf(&b, "ln %s %s\n", quote(base+"/"+n.Target), at)
		case "fifo":
			fmt.Fprintf(&b, "mkfifo %s\n", at)
		case "sock":
			fmt.Fprintf(&b, "python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' %s\n", at)
		}
	}
	for _, n := range slices.Backward(nodes) {
		if n.Kind == "dir" && n.Mode != 0o755 || n.Kind == "file" && n.Mode != 0o644 {
			fmt.Fprintf(&b, "chmod 0%s %s\n", strconv.FormatUint(uint64(n.Mode), 8), quote(base+"/"+n.Path))
		}
	}
	return b.String()
}

func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-=") == "" {
		return s
	}
	if strings.Contains(s, "\n") {
		return "$'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
