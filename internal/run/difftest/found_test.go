package difftest

import (
	"testing"

	"bourn/internal/run/runtest"
)

func dirNode(p string, mode uint32) node   { return node{Path: p, Kind: "dir", Mode: mode} }
func fileNode(p string, mode uint32) node  { return node{Path: p, Kind: "file", Mode: mode} }
func linkNode(p, target string) node       { return node{Path: p, Kind: "link", Target: target} }
func hardNode(p, target string) node       { return node{Path: p, Kind: "hard", Target: target} }
func literal(paths ...string) (out []deny) { return denies(false, paths) }
func pattern(texts ...string) (out []deny) { return denies(true, texts) }

func denies(glob bool, texts []string) (out []deny) {
	for _, s := range texts {
		out = append(out, deny{Text: s, Glob: glob})
	}
	return out
}

// found are trials that once showed a difference, made small.
var found = []struct {
	name string
	t    trial
}{
	{"a fifo in a read grant below a private place", trial{Read: []string{"w"},
		Nodes: []node{{Path: "w/f", Kind: "fifo"}}}},
	{"a hard link of a file in a denied directory that the person cannot list", trial{Write: []string{"o"}, Deny: literal("o/d"),
		Nodes: []node{fileNode("o/f", 0o644), dirNode("o/d", 0), hardNode("o/d/g", "o/f")}}},
	{"a hard link in a directory that the person cannot list", trial{Write: []string{"o"}, Deny: literal("o/f"),
		Nodes: []node{fileNode("o/f", 0o644), dirNode("o/d", 0), hardNode("o/d/g", "o/f")}}},
	{"a pattern that names a file in a directory that the person cannot search", trial{Deny: pattern("*/a"),
		Nodes: []node{dirNode("w/d", 0)}}},
	{"a deny above the home directory", trial{Write: []string{"w"}, Deny: literal("w/up"),
		Nodes: []node{linkNode("w/up", "..")}}},
	{"a grant below a directory that is closed to everybody", trial{Read: []string{"w"}, Write: []string{"w/d/f"},
		Nodes: []node{dirNode("w/d", 0), fileNode("w/d/f", 0o600)}}},
	{"two denies in an agent's home, one below the other", trial{Agent: true, Deny: literal("home/p", "home/p/a")}},
	{"a grant by a link in a denied directory", trial{Write: []string{"w/l"}, Deny: literal("w"),
		Nodes: []node{linkNode("w/l", "@/o")}}},
	{"a hard link of a file that runs code on the host", trial{Write: []string{"w"},
		Nodes: []node{fileNode("w/.envrc", 0o644), hardNode("w/other", "w/.envrc")}}},
	{"a hard link of a file that is guarded, below what a link makes guarded", trial{Write: []string{"w"},
		Nodes: []node{linkNode("w/.envrc", ".."), dirNode("w/.mcp.json", 0o755), fileNode("w/f", 0o644), hardNode("w/.mcp.json/g", "w/f")}}},
	{"a hard link of a hook, below what a link makes guarded", trial{Write: []string{"w"},
		Nodes: []node{linkNode("w/.envrc", "."), dirNode("w/.git", 0o755), dirNode("w/.git/hooks", 0o755), fileNode("w/.git/hooks/pre-commit", 0o755),
			hardNode("w/f", "w/.git/hooks/pre-commit"), fileNode("w/free", 0o644), hardNode("w/free2", "w/free")}}},
	{"a directory above a nested repository is replaced", trial{Write: []string{"w"},
		Nodes: []node{dirNode("w/sub", 0o755), dirNode("w/sub/.git", 0o755), fileNode("w/sub/.git/config", 0o644)}}},
	{"a write grant in a spawn dir", trial{Read: []string{"w"}, Write: []string{"w/d/f"}, Spawn: []string{"w/d"}, Exec: "allowlist",
		Nodes: []node{dirNode("w/d", 0o755), fileNode("w/d/f", 0o755)}}},
	{"a socket with a newline in its name", trial{Write: []string{"w"}, Nodes: []node{{Path: "w/n\nl", Kind: "sock"}}}},
	{"what a dropped grant holds of the guarded kind", trial{Write: []string{"o", "w"}, Deny: literal("w"),
		Nodes: []node{linkNode("w/config", "../o"), linkNode("w/.git", "../w")}}},
	{"a denied object under another name", trial{Read: []string{"w", "o"}, Deny: literal("w/f"),
		Nodes: []node{fileNode("w/f", 0o644), hardNode("o/g", "w/f"), linkNode("o/l", "../w/f")}}},
	{"a fifo for .git", trial{Write: []string{"w"}, Nodes: []node{{Path: "w/.git", Kind: "fifo"}}}},
	{"a fifo that runs code on the host", trial{Write: []string{"w"}, Nodes: []node{{Path: "w/.envrc", Kind: "fifo"}}}},
	{"a nested repository in two grants", trial{Write: []string{"w/sub", "w"},
		Nodes: []node{dirNode("w/sub", 0o755), dirNode("w/sub/.git", 0o755), fileNode("w/sub/.git/config", 0o644)}}},
	{"the directory of a repository's attributes", trial{Write: []string{"w"},
		Nodes: []node{dirNode("w/.git", 0o755), dirNode("w/.git/info", 0o755), fileNode("w/.git/info/attributes", 0o644)}}},
	{"a spawn dir that is guarded", trial{Write: []string{"w"}, Spawn: []string{"w/.git/hooks"}, Exec: "allowlist",
		Nodes: []node{dirNode("w/.git", 0o755), dirNode("w/.git/hooks", 0o755), fileNode("w/.git/hooks/pre-commit", 0o755)}}},
	{"a hard link of a hook", trial{Write: []string{"w"},
		Nodes: []node{dirNode("w/.git", 0o755), dirNode("w/.git/hooks", 0o755), fileNode("w/.git/hooks/pre-commit", 0o755), hardNode("w/f", "w/.git/hooks/pre-commit")}}},
	{"a hard link, itself granted, of a file that runs code on the host", trial{Write: []string{"w", "o/f"},
		Nodes: []node{fileNode("w/.envrc", 0o644), hardNode("o/f", "w/.envrc")}}},
	{"a grant that cannot be searched", trial{Read: []string{"w/d"}, Deny: pattern("**/a"), Nodes: []node{dirNode("w/d", 0)}}},
	{"a hard link of what a directory that cannot be searched holds", trial{Write: []string{"w", "o"}, Deny: pattern("**/a"),
		Nodes: []node{dirNode("w/d", 0o300), fileNode("w/d/a", 0o644), hardNode("o/f", "w/d/a")}}},
	{"a hard link of what a pattern says outright in a directory that cannot be listed", trial{Read: []string{"w"}, Write: []string{"o"}, Deny: pattern("*/a"),
		Nodes: []node{dirNode("w/d", 0o300), fileNode("w/d/a", 0o644), hardNode("o/f", "w/d/a")}}},
	{"a worktree's .git in a directory that is closed since it cannot be searched", trial{Write: []string{"w"}, Deny: pattern("**/a"),
		Nodes: []node{dirNode("w/c", 0o755), dirNode("w/c/d", 0o300), fileNode("w/c/d/.git", 0o644)}}},
	{"a link to a grant in what is denied through a link", trial{Read: []string{"w/l"}, Write: []string{"w/here"}, Deny: literal("w/here"),
		Nodes: []node{fileNode("o/f", 0o644), linkNode("w/here", "../w"), linkNode("w/l", "../o/f")}}},
	{"a pattern that passes a link by its literal name", trial{Write: []string{"w"}, Deny: pattern("*/*"),
		Nodes: []node{linkNode("w/*", "../o"), fileNode("o/*", 0o644)}}},
	{"a directory above a denied file is renamed between runs", trial{Write: []string{"w"}, Deny: literal("w/d/f"),
		Nodes: []node{dirNode("w/d", 0o755), fileNode("w/d/f", 0o644)}, Moves: []move{{"w/d", "w/moved"}}}},
}

func TestFound(t *testing.T) {
	bourn, bin := runtest.Binary(t), buildProbe(t)
	for _, uid := range users() {
		for _, place := range places() {
			e, err := newEngine(bourn, bin, uid, []string{place})
			if err != nil {
				t.Fatal(err)
			}
			defer e.close()
			for _, f := range found {
				made := f.t.clone()
				made.UID, made.Place, made.Cwd, made.Bourn = uid, place, "w", "bh"
				if made.Exec == "" {
					made.Exec = "any"
				}
				made.Nodes = append([]node{dirNode("home", 0o755), dirNode("w", 0o755), dirNode("o", 0o755), dirNode("bh", 0o700)}, made.Nodes...)
				v, err := e.run(made)
				if err != nil {
					t.Errorf("%s: %v", f.name, err)
				}
				for i, d := range v.findings {
					if i < 3 {
						t.Errorf("%s: [%s] %s", f.name, d.Kind, d.Text)
					}
				}
				if len(v.findings) > 0 {
					t.Log(e.reproduction(made))
				}
			}
		}
	}
}
