package survey

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParsePattern(t *testing.T) {
	for text, ok := range map[string]bool{
		"/w/**/.env": true, "/": true, "/**": true, "/w/[!a]b": true, `/w/\*`: true, "/w/{a/b,c}": true,
		"": false, "w": false, "**/.env": false, "/w/": false, "/w//x": false, "/w/../x": false, "/w/.": false, "/w/[": false,
		"/w/{a": false, `/w/\`: false, "/w/\x00": false, "/w/a}": false,
	} {
		p, err := ParsePattern(text)
		if (err == nil) != ok {
			t.Errorf("ParsePattern(%q) = %v", text, err)
		}
		if ok && p.String() != text {
			t.Errorf("ParsePattern(%q) prints %q", text, p)
		}
	}
}

func TestRebase(t *testing.T) {
	for _, c := range []struct{ pattern, base, dir, want string }{
		{"/w/**/.env", "/w", "/v", "/v/**/.env"},
		{"/w/x/.env", "/w/x", "/", "/.env"},
		{"/**", "/", "/a{b", `/a\{b/**`},
		{`/w\*/a/*`, "/w*/a", "/w,[x]", `/w\,\[x\]/*`},
	} {
		p := mustPatterns(t, c.pattern)[0]
		if p.Base() != c.base {
			t.Errorf("Base(%s) = %q, want %q", p, p.Base(), c.base)
		}
		got, err := p.Rebase(c.dir)
		if err != nil || got.String() != c.want {
			t.Errorf("Rebase(%s) = %q, %v, want %q", p, got, err, c.want)
		}
	}
}

func TestExpand(t *testing.T) {
	tree := []string{".env", "a/.env", "a/b/.env", "a/b/key.pem", "c/secret/.env", "c/x.PEM", "d/", "l -> a", "c/l -> ../a", "dangling.pem -> nowhere",
		"pipe.pem |", "n\nl/\xff.pem", strings.Repeat("n", 255) + "/.env"}
	long := strings.Repeat("n", 255)
	for _, c := range []struct {
		pattern               string
		objects, links, visit []string // visit nil: not compared
	}{
		{pattern: "/**/.env", objects: []string{".env", "a/.env", "a/b/.env", "c/secret/.env", long + "/.env"}},
		{pattern: "/a/**/.env", objects: []string{"a/.env", "a/b/.env"}, visit: []string{"", "a", "a/b"}},
		{pattern: "/.env", objects: []string{".env"}, visit: []string{""}},
		{pattern: "/**/*.pem", objects: []string{"a/b/key.pem", "dangling.pem", "n\nl/\xff.pem", "pipe.pem"}},
		{pattern: "/*/.env", objects: []string{"a/.env", long + "/.env"}, links: []string{"dangling.pem", "l"}},
		{pattern: "/l/.env", links: []string{"l"}, visit: []string{""}},
		{pattern: "/**/secret", objects: []string{"c/secret"}, visit: []string{"", "a", "a/b", "c", "d", "n\nl", long}},
		{pattern: "/**/l/.env", links: []string{"c/l", "l"}},
		{pattern: "/missing/deep/**/.env", visit: []string{""}},
		{pattern: "/a/b/c/*.x", visit: []string{"", "a", "a/b"}},
		{pattern: "/a/**", objects: []string{"a"}, visit: []string{""}},
		{pattern: "", objects: []string{""}},
		{pattern: "/[!z]/.env", objects: []string{"a/.env"}, links: []string{"c/l", "l", "dangling.pem"}},
	} {
		root := realTemp(t)
		grow(t, root, tree...)
		g, err := Expand(mustPatterns(t, root+c.pattern), []string{root})
		if err != nil {
			t.Fatal(err)
		}
		relative := func(ps []string) []string {
			var out []string
			for _, p := range ps {
				out = append(out, strings.TrimPrefix(strings.TrimPrefix(p, root), "/"))
			}
			return out
		}
		if diff := cmp.Diff(sorted(c.objects), relative(paths(g[0].Objects))); diff != "" {
			t.Errorf("%q objects: %s", c.pattern, diff)
		}
		if diff := cmp.Diff(sorted(c.links), relative(paths(g[0].Links))); diff != "" {
			t.Errorf("%q links: %s", c.pattern, diff)
		}
		if got := relative(g[0].Visited); c.visit != nil && !cmp.Equal(sorted(c.visit), got) {
			t.Errorf("%q visited %q, want %q", c.pattern, got, c.visit)
		}
		if g[0].Unreadable != nil || g[0].TooDeep != nil {
			t.Errorf("%q: %v", c.pattern, g[0])
		}
	}
}

func TestExpandRoots(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "a/b/.env", "a/.env", "c/.env", "l -> a", "f")
	p := mustPatterns(t, root+"/**/.env", root+"/a", root+"/**/f")
	for _, c := range []struct {
		roots      []string
		want       [3]string
		unreadable int
	}{
		{[]string{"/a", "/a/b", "/a"}, [3]string{"/a/.env /a/b/.env", "/a", ""}, 0},
		{[]string{"/a/b", "/c"}, [3]string{"/a/b/.env /c/.env", "/a", ""}, 0},
		{[]string{"/c/.env", "/f"}, [3]string{"/c/.env", "", "/f"}, 0},
		{[]string{"/missing", "/f/x"}, [3]string{"", "", "/f"}, 0},
		{[]string{"/l/b"}, [3]string{"", "", ""}, 1},
		{[]string{"/l"}, [3]string{"", "", ""}, 1},
		{nil, [3]string{}, 0},
	} {
		var roots []string
		for _, r := range c.roots {
			roots = append(roots, root+r)
		}
		for _, mode := range modes {
			mode.set()
			g, err := Expand(p, roots)
			mode.unset()
			if err != nil {
				t.Fatal(err)
			}
			for i := range g {
				got := strings.ReplaceAll(strings.Join(paths(g[i].Objects), " "), root, "")
				if got != c.want[i] {
					t.Errorf("%s: %v: %s: %q, want %q", mode.name, c.roots, p[i], got, c.want[i])
				}
			}
			if len(g[0].Unreadable) != c.unreadable {
				t.Errorf("%s: %v: unreadable %v", mode.name, c.roots, g[0].Unreadable)
			}
		}
	}
	for _, bad := range []string{"", "a", "/a/", "/a/../b", "/a//b"} {
		if _, err := Expand(p, []string{bad}); err == nil {
			t.Errorf("root %q accepted", bad)
		}
	}
}

func TestExpandUnreadable(t *testing.T) {
	ordinary(t)
	root := realTemp(t)
	grow(t, root, "closed/.env", "listed/.env", "listed/sub/", "through/.env", "through/sub/.env")
	for name, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o444, "through": 0o111} {
		os.Chmod(root+"/"+name, mode)
		defer os.Chmod(root+"/"+name, 0o755)
	}
	g, err := Expand(mustPatterns(t, root+"/**/.env", root+"/through/sub/.env", root+"/closed/.env"), []string{root})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range g[0].Unreadable {
		if !errors.Is(u.Err, syscall.EACCES) {
			t.Errorf("%q: %v", u.Path, u.Err)
		}
		got = append(got, strings.TrimPrefix(u.Path, root))
	}
	if diff := cmp.Diff([]string{"/closed", "/listed/sub", "/through"}, got); diff != "" {
		t.Error(diff)
	}
	if o := g[0].Objects; len(o) != 1 || o[0].Path != root+"/listed/.env" || o[0].Type != File || o[0].Ino != 0 {
		t.Errorf("what may not be examined: %+v", o)
	}
	if o := g[1].Objects; len(o) != 1 || o[0].Type != File || o[0].Ino == 0 {
		t.Errorf("by name: %+v", o)
	}
	if len(g[2].Objects) != 1 || len(g[2].Unreadable) != 1 {
		t.Errorf("in closed: %v", g[2])
	}
}

// TestExpandOracle compares with a walk and doublestar.Match on every path.
func TestExpandOracle(t *testing.T) {
	segments := []string{"**", "**", "*", "a", "b", "ab", ".env", "*.pem", "a*", "*b", "?", "[ab]", "[!a]", "{a,b}", "{*,a}*", "{**}", "{,*}*",
		"**a", "***", "{a/b,b}", "{**,a}", "{/**,a}", `\a`, `a\*`, "\xff*", "\xff\xfe", "é*", "n\nl", "[a-b]*", "[+-9]", "a{,/b}", "*{,a}", "a[/]b"}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		root := filepath.Join(t.TempDir(), "w")
		if err := os.Mkdir(root, 0o755); err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		dirs := drawTree(rt, root)
		var ps []Pattern
		for range rapid.IntRange(1, 5).Draw(rt, "patterns") {
			text := Escape(root)
			if rapid.IntRange(0, 9).Draw(rt, "above") == 0 {
				text = Escape(filepath.Dir(filepath.Dir(root))) + "/**"
			}
			for _, s := range rapid.SliceOfN(rapid.SampledFrom(segments), 0, 4).Draw(rt, "segments") {
				text += "/" + s
			}
			p, err := ParsePattern(text)
			if err != nil {
				continue
			}
			ps = append(ps, p)
		}
		roots := rapid.SliceOfN(rapid.SampledFrom(dirs), 1, 3).Draw(rt, "roots")
		for _, mode := range modes {
			mode.set()
			globs, err := Expand(ps, roots)
			mode.unset()
			if err != nil {
				rt.Fatal(err)
			}
			for i, p := range ps {
				want := oracle(p, roots)
				if diff := cmp.Diff(want, paths(globs[i].Objects)); diff != "" {
					rt.Fatalf("%s: %q in %q: %s", mode.name, p, roots, diff)
				}
				n += len(want)
				checkVisited(rt, globs[i], roots, dirs)
			}
		}
	})
	if n == 0 && !testing.Short() {
		t.Error("nothing ever matched")
	}
}

// oracle returns the matches at or below the roots, or above them, but none in a matching directory.
func oracle(p Pattern, roots []string) []string {
	found := map[string]bool{}
	match := func(path string) bool {
		ok, err := doublestar.Match(p.String(), path)
		if err != nil {
			panic(err)
		}
		found[path] = found[path] || ok
		return ok
	}
roots:
	for _, root := range roots {
		for i := range root {
			if root[i] == '/' && match(root[:max(i, 1)]) {
				continue roots
			}
		}
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if match(path) && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
	}
	var out []string
	for path, ok := range found {
		if ok {
			out = append(out, path)
		}
	}
	return sorted(out)
}

// checkVisited holds that wherever a new match could appear is watched.
func checkVisited(rt *rapid.T, g Glob, roots, dirs []string) {
	for _, d := range dirs {
		if !slices.ContainsFunc(roots, func(r string) bool { return under(r, d) }) ||
			slices.ContainsFunc(g.Objects, func(o Object) bool { return under(o.Path, d) }) {
			continue
		}
		for _, name := range treeNames {
			if g.Pattern.Match(d+"/"+name) && !slices.Contains(g.Visited, d) {
				rt.Fatalf("%s could match in %q, which is not visited: %v", g.Pattern, d, g)
			}
		}
	}
}
