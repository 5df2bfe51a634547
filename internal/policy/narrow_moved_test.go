package policy

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What is denied to the parent cannot be moved into a mount of the child's: TestSubagentMoved
// does it.
func TestNarrowMoved(t *testing.T) {
	parent := request([]Grant{grant(KindWrite, at("/p")), grant(KindRead, at("/lore"))},
		[]Deny{deny(at("/p/x/a/.env")), deny(at("/p/.env")), deny(at("/lore/y/.env")), deny(at("/p/closed"))})
	spawning := func(exec ExecMode, grants ...Grant) *Request {
		r := request(append([]Grant{grant(KindWrite, at("/p")), grant(KindSpawnDir, at("/p/da"))}, grants...), nil)
		r.Inner, r.Exec = []Inner{{Place: at("/p/db/dproc"), Reason: "a kernel file system is mounted there"}}, exec
		return r
	}
	nested := request([]Grant{grant(KindRead, at("/p")), grant(KindWrite, at("/p/w"))}, []Deny{deny(at("/p/w/x/a/.env"))})
	inner := request([]Grant{grant(KindWrite, at("/p"))}, []Deny{deny(at("/p/x/tool/.env"))})
	inner.System = append(inner.System, at("/p/x/tool"))
	offer := Grant{Kind: KindRead, From: FromContext, Place: at("/p")}
	offered := request([]Grant{offer, grant(KindWrite, at("/p/w"))}, []Deny{deny(at("/p/w/a/.env"))})
	offered.Agent = "a"
	for _, c := range []struct {
		name   string
		parent *Request
		n      Narrowing
		want   []string // the child's grants, or nil: it is refused
	}{
		{"beside it", parent, Narrowing{Root: "/p/sub"}, []string{"read /lore profile", "write /p profile", "write /p/sub subagent"}},
		{"beside it, by name", parent, Narrowing{Root: "/p/sub", Write: []string{"/p/sub"}}, nil},
		{"beside it, to read", parent, Narrowing{Root: "/p/sub", Read: []string{"/p/sub"}, Write: []string{}}, nil},
		{"round it", parent, Narrowing{Root: "/p/x"}, []string{"read /lore profile", "write /p profile", "write /p/x subagent"}},
		{"round it, by name", parent, Narrowing{Root: "/p/x", Write: []string{"/p/x"}}, nil}, // x/a goes to where the rest of /p is shown
		{"round it alone", parent, Narrowing{Root: "/p/x", Write: []string{"/p/x"}, Read: []string{}}, []string{"write /p/x subagent"}},
		{"in the directory itself", parent, Narrowing{Root: "/p/x/a", Write: []string{"/p/x/a"}}, []string{"read /lore profile", "read /p profile", "write /p/x/a subagent"}},
		{"below the directory", parent, Narrowing{Root: "/p/x/a/sub", Write: []string{"/p/x/a/sub"}}, nil}, // sub goes up, and then x/a into it
		{"where nothing can be moved", parent, Narrowing{Read: []string{"/lore/z"}, Write: []string{}}, []string{"read /lore/z subagent"}},
		{"all", parent, Narrowing{Root: "/p/sub", Write: []string{"/p"}}, []string{"read /lore profile", "write /p subagent"}},
		{"a spawn dir where everything executes", spawning(""), Narrowing{}, []string{"spawn_dir /p/da profile", "write /p profile"}},
		{"a spawn dir that becomes a mount", spawning(""), Narrowing{Exec: ExecAllowlist}, nil},
		{"a spawn dir named", spawning(""), Narrowing{SpawnDirs: []string{"/p/dc"}}, []string{"spawn_dir /p/dc subagent", "write /p profile"}},
		{"a spawn dir named, that becomes a mount", spawning(""), Narrowing{SpawnDirs: []string{"/p/dc"}, Exec: ExecAllowlist}, nil},
		{"no spawn dir", spawning(""), Narrowing{SpawnDirs: []string{}, Exec: ExecAllowlist}, []string{"write /p profile"}},
		{"a spawn dir where nothing executes", spawning(""), Narrowing{Exec: ExecNone}, []string{"spawn_dir /p/da profile", "write /p profile"}},
		{"a spawn dir that is a mount of the parent's", spawning(ExecAllowlist), Narrowing{}, []string{"spawn_dir /p/da profile", "write /p profile"}},
		{"another in it", spawning(ExecAllowlist), Narrowing{SpawnDirs: []string{"/p/da/dc"}}, []string{"spawn_dir /p/da/dc subagent", "write /p profile"}},
		{"out of a mount that the child reads", nested, Narrowing{Root: "/p/w/x", Write: []string{"/p/w/x"}}, nil},
		{"all that the parent writes there", nested, Narrowing{Root: "/p/w/x", Write: []string{"/p/w"}}, []string{"read /p profile", "write /p/w subagent"}},
		{"with a mount that lies in what is moved", inner, Narrowing{Write: []string{"/p/sub"}, Read: []string{}}, nil},
		{"what is named in an offer", offered, Narrowing{Read: []string{"/p", "/p/w/b"}, Write: []string{}}, nil},
	} {
		child, err := Narrow(c.parent, c.n)
		switch {
		case c.want == nil && (!errors.Is(err, bourn.ErrDenied) || !strings.Contains(err.Error(), "could be moved there") || bourn.HintOf(err) == ""):
			t.Errorf("%s: %v", c.name, err)
		case c.want != nil && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != nil:
			if d := cmp.Diff(c.want, lines(child.Grants)); d != "" {
				t.Errorf("%s: %s", c.name, d)
			}
		}
	}
}

// What those could move that a run works for is as good as what it could move itself.
func TestNarrowMovedFromAbove(t *testing.T) {
	first := request([]Grant{grant(KindWrite, at("/p"))}, []Deny{deny(at("/p/a/.env"))})
	reader, err := Narrow(first, Narrowing{Write: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	reader.Grants[0].Place, reader.Denies[0].Place = at("/p"), at("/p/a/.env")
	if _, err := Narrow(reader, Narrowing{}); err != nil {
		t.Errorf("all that the reader has: %v", err)
	}
	if _, err := Narrow(reader, Narrowing{Read: []string{"/p/sub"}}); !errors.Is(err, bourn.ErrDenied) || !strings.Contains(err.Error(), "/p/a could be moved there") {
		t.Errorf("a part, into which the first can move what is denied: %v", err)
	}
}

// What lies in something that is closed to a subagent alone keeps its own mask: whoever started
// it can move it out.
func TestNarrowKeepsInnerMasks(t *testing.T) {
	parent := request([]Grant{grant(KindWrite, at("/p"))}, []Deny{deny(at("/p/a/b/.env")), deny(at("/p/a/b"))})
	paths := func(p *Plan) (out []string) {
		for _, m := range p.Masks {
			out = append(out, m.Path)
		}
		return out
	}
	if diff := cmp.Diff([]string{"/p/a/b"}, paths(Compile(parent))); diff != "" {
		t.Error(diff)
	}
	child, err := Narrow(parent, Narrowing{Deny: []Deny{{Pattern: "/p/a"}}})
	if err != nil {
		t.Fatal(err)
	}
	child.Grants[0].Place = at("/p")
	for i := range child.Denies {
		child.Denies[i].Place = at(child.Denies[i].Pattern)
	}
	if diff := cmp.Diff([]string{"/p/a", "/p/a/b", "/p/a/b/.env"}, paths(Compile(child))); diff != "" {
		t.Error(diff)
	}
}

// TestNarrowMovedModel: no directories that a run, or one that it works for, can move bring what
// is denied to it into the sight of the run's child, and all that a run has it can give.
func TestNarrowMovedModel(t *testing.T) {
	given, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		line := []*Request{drawParent(t, m)}
		for range 3 {
			parent := line[len(line)-1]
			if _, err := Narrow(parent, Narrowing{}); err != nil {
				t.Fatalf("all that it has: %v", err)
			}
			child, n := admit(t, parent, drawNarrowing(t, m, parent))
			if n.Read != nil || n.Write != nil || n.SpawnDirs != nil {
				given++
			} else {
				refused++
			}
			m.gather(child)
			for _, r := range line {
				m.sureMoved(t, Compile(r), Compile(child))
			}
			line = append(line, child)
		}
	})
	if given == 0 || refused == 0 {
		t.Errorf("lists were given %d times and refused %d times: nothing is known", given, refused)
	}
}

// A move is a rename(2) of a directory.
type move struct{ from, to string }

// after is the path of a place after a move.
func (v move) after(at string) string {
	if v.from != "" && under(at, v.from) {
		return v.to + strings.TrimPrefix(at, v.from)
	}
	return at
}

// sureMoved fails if two moves by a run show its child what is denied to the run. A mount stands
// on the directory on which it was made, in the mount that showed that, wherever either goes.
func (m *model) sureMoved(t *rapid.T, by, child *Plan) {
	fixed := by.fixed()
	var dirs []string
	for _, at := range m.paths() {
		if m.nodes[at].dir && by.Shows(at) {
			dirs = append(dirs, at)
		}
	}
	possible := func(dir, into string, before move) (move, bool) {
		root, write := by.Root(dir)
		in, _ := by.Root(into)
		v := move{before.after(dir), path.Join(before.after(into), "moved "+path.Base(before.to))}
		return v, write && in == root && !fixed[dir] && !under(before.after(into), v.from)
	}
	first := []move{{}}
	for _, dir := range dirs {
		root, _ := by.Root(dir)
		if v, ok := possible(dir, root, move{}); ok {
			first = append(first, v)
		}
	}
	for _, mask := range by.Masks {
		if _, ok := m.nodes[mask.Path]; !ok {
			continue
		}
		for _, one := range first {
			for dir := path.Dir(mask.Path); dir != "/"; dir = path.Dir(dir) {
				for _, into := range dirs {
					v, ok := possible(dir, into, one)
					if in := exposed(child, mask.Path, one, v); ok && in != "" {
						t.Fatalf("%+v and %+v show the child %s in %s", one, v, mask.Path, in)
					}
				}
			}
		}
	}
}

// exposed returns the mount in which what was at a path is seen after two moves, or "".
func exposed(child *Plan, denied string, one, two move) string {
	after := func(at string) string { return two.after(one.after(at)) }
	for _, b := range child.Binds {
		if b.Source != "" || !under(after(denied), after(b.Path)) {
			continue
		}
		hides := func(at string, in Bind) bool { // a mount in b, on a place between
			return at != b.Path && in.Path == b.Path && under(after(denied), after(at))
		}
		if !slices.ContainsFunc(child.Masks, func(m Mask) bool { v, _ := child.view(m.Path); return m.Path == b.Path || hides(m.Path, v) }) &&
			!slices.ContainsFunc(child.Binds, func(o Bind) bool { v, _ := child.view(path.Dir(o.Path)); return o.Path != "/" && hides(o.Path, v) }) {
			return b.Path
		}
	}
	return ""
}
