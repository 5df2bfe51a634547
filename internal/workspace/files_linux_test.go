package workspace

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "0123456789")
	put(t, dir+"/empty", "")
	link(t, "a", dir+"/l")
	o := newOwner(t, dir)
	for name, c := range map[string]struct {
		r    Request
		want ReadResult
	}{
		"whole":         {Request{Path: "a"}, ReadResult{Path: dir + "/a", Content: []byte("0123456789"), Size: 10, Digest: digest([]byte("0123456789"))}},
		"by a link":     {Request{Path: "l"}, ReadResult{Path: dir + "/a", Content: []byte("0123456789"), Size: 10, Digest: digest([]byte("0123456789"))}},
		"home":          {Request{Path: dir + "/../" + filepath.Base(dir) + "/a", Limit: 10}, ReadResult{Path: dir + "/a", Content: []byte("0123456789"), Size: 10, Digest: digest([]byte("0123456789"))}},
		"a part":        {Request{Path: "a", Offset: 2, Limit: 3}, ReadResult{Path: dir + "/a", Content: []byte("234"), Size: 10, Offset: 2, Truncated: true}},
		"the end":       {Request{Path: "a", Offset: 8}, ReadResult{Path: dir + "/a", Content: []byte("89"), Size: 10, Offset: 8}},
		"behind it":     {Request{Path: "a", Offset: 20}, ReadResult{Path: dir + "/a", Size: 10, Offset: 20}},
		"the beginning": {Request{Path: "a", Limit: 1}, ReadResult{Path: dir + "/a", Content: []byte("0"), Size: 10, Truncated: true}},
		"empty":         {Request{Path: "empty"}, ReadResult{Path: dir + "/empty", Digest: digest(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			var got ReadResult
			c.r.Verb = Read
			o.must(c.r, &got)
			if d := cmp.Diff(c.want, got, cmp.Transformer("text", func(b []byte) string { return string(b) })); d != "" {
				t.Error(d)
			}
		})
	}
}

// Sizes in /proc are 0, and what is there is read all the same.
func TestReadOfTheKernel(t *testing.T) {
	o := newOwner(t, tempDir(t))
	var r ReadResult
	o.must(Request{Verb: Read, Path: "/proc/meminfo"}, &r)
	if !bytes.Contains(r.Content, []byte("MemTotal")) || r.Size != int64(len(r.Content)) {
		t.Errorf("%+v", r)
	}
}

func TestRefusedPaths(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	if err := unix.Bind(s, &unix.SockaddrUnix{Name: dir + "/socket"}); err != nil {
		t.Fatal(err)
	}
	link(t, "nowhere", dir+"/dangling")
	link(t, "loop2", dir+"/loop1")
	link(t, "loop1", dir+"/loop2")
	link(t, "/proc/self/environ", dir+"/environ")
	o := newOwner(t, dir)
	for _, verb := range []Verb{Read, Write, Edit} {
		for path, reason := range map[string]string{
			dir: "invalid_path", "pipe": "invalid_path", "socket": "invalid_path",
			"a/": "invalid_path", "a/.": "invalid_path", "loop1": "invalid_path", "a/b": "not_found", "x\x00y": "owner",
			strings.Repeat("x", 300): "invalid_path", "/proc/self/mem": "invalid_path", "/proc/self/environ": "invalid_path",
			"/proc/thread-self/mem": "invalid_path", "environ": "invalid_path", "/proc/self/fd/3": "invalid_path", "/proc/self/root" + dir + "/a": "invalid_path",
		} {
			o.refused(Request{Verb: verb, Path: path, Old: "x"}, reason)
		}
	}
	// Nothing here names a file of the host for writing: a guard that fails is to cost nothing.
	o.refused(Request{Verb: Read, Path: "/dev/null"}, "invalid_path")
	o.refused(Request{Verb: Write, Path: "dangling"}, "invalid_path")
	o.refused(Request{Verb: Read, Path: "dangling"}, "not_found")
	o.refused(Request{Verb: Read, Path: "a", Offset: -1}, "invalid_range")
	o.refused(Request{Verb: Read, Path: "\xff"}, "invalid_text")
	o.refused(Request{Verb: Delete, Path: "/"}, "invalid_path")
	o.refused(Request{Verb: Delete, Path: "a/"}, "invalid_path")
	o.refused(Request{Verb: Move, Path: "/", To: "b"}, "invalid_path")
	o.refused(Request{Verb: "launch"}, "invalid: no verb \"launch\"")
}

func TestHintNamesWhatIsThere(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/d/f", "")
	o := newOwner(t, dir)
	err := o.ask(Request{Verb: Read, Path: "d/e/f/g"}, nil)
	var p *Problem
	if reasonOf(err) != "not_found" || !asProblem(err, &p) || !strings.Contains(p.Hint, dir+"/d;") {
		t.Errorf("%v: %+v", err, p)
	}
}

func TestWrite(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "old")
	if err := os.Chmod(dir+"/a", 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/d/real", "real")
	link(t, "d/real", dir+"/l")
	if err := os.Link(dir+"/a", dir+"/other-name"); err != nil {
		t.Fatal(err)
	}
	o := newOwner(t, dir)
	var r WriteResult
	o.must(Request{Verb: Write, Path: "a", Content: []byte("new")}, &r)
	if want := (WriteResult{Path: dir + "/a", Before: digest([]byte("old")), After: digest([]byte("new")), Bytes: 3}); r != want {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(dir + "/a"); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	o.must(Request{Verb: Write, Path: "l", Content: []byte("through")}, &r)
	r = WriteResult{}
	o.must(Request{Verb: Write, Path: "new", Content: nil}, &r)
	if want := (WriteResult{Path: dir + "/new", Created: true, After: digest(nil)}); r != want {
		t.Errorf("%+v", r)
	}
	o.must(Request{Verb: Write, Path: "x/y/z", Content: []byte("deep")}, nil)
	o.must(Request{Verb: Write, Path: "x/y/z", Content: []byte("deep")}, nil)
	o.must(Request{Verb: Edit, Path: "x/y/z", Old: "ee", New: "i"}, nil)
	big := strings.Repeat("0123456789abcdef", 8<<20/16)
	o.must(Request{Verb: Write, Path: "big", Content: []byte(big)}, nil)
	var back ReadResult
	o.must(Request{Verb: Read, Path: "big"}, &back)
	if string(back.Content) != big || back.Truncated {
		t.Errorf("%d bytes came back", len(back.Content))
	}
	o.must(Request{Verb: Delete, Path: "big"}, nil)
	want := map[string]string{".": "(directory)", "a": "new", "other-name": "old", "d": "(directory)", "d/real": "through", "l": "d/real", "new": "", "x": "(directory)", "x/y": "(directory)", "x/y/z": "dip"}
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestEdit(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "one two two aaa")
	o := newOwner(t, dir)
	o.refused(Request{Verb: Edit, Path: "a", Old: "three", New: "x"}, "edit_not_found")
	o.refused(Request{Verb: Edit, Path: "a", Old: "two", New: "x"}, "edit_ambiguous")
	o.refused(Request{Verb: Edit, Path: "a", Old: "aa", New: "x"}, "edit_ambiguous") // overlapping
	o.refused(Request{Verb: Edit, Path: "a", Old: "", New: "x"}, "edit_empty")
	o.refused(Request{Verb: Edit, Path: "b", Old: "x", New: "x"}, "not_found")
	o.must(Request{Verb: Edit, Path: "a", Old: "one ", New: "$1 "}, nil)
	if got := content(t, dir+"/a"); got != "$1 two two aaa" {
		t.Errorf("%q", got)
	}
}

// A file that its directory does not let replace is written where it is.
func TestWriteInPlace(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root replaces everything")
	}
	dir := tempDir(t)
	put(t, dir+"/d/a", "old, and longer")
	o := newOwner(t, dir)
	if err := os.Chmod(dir+"/d", 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir+"/d", 0o755)
	o.must(Request{Verb: Write, Path: "d/a", Content: []byte("new")}, nil)
	if got := content(t, dir+"/d/a"); got != "new" {
		t.Errorf("%q", got)
	}
	o.refused(Request{Verb: Write, Path: "d/b", Content: []byte("new")}, "permission_denied")
	o.refused(Request{Verb: Write, Path: "d/e/b", Content: []byte("new")}, "permission_denied")
	o.refused(Request{Verb: Delete, Path: "d/a"}, "permission_denied")
	if err := os.Chmod(dir+"/d/a", 0o444); err != nil {
		t.Fatal(err)
	}
	o.refused(Request{Verb: Write, Path: "d/a", Content: []byte("new")}, "permission_denied")
	o.refused(Request{Verb: Write, Path: "d/a", Content: []byte("newer")}, "permission_denied")
}

func TestDeleteAndMove(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "a")
	put(t, dir+"/b", "b")
	put(t, dir+"/d/f", "f")
	link(t, "a", dir+"/l")
	o := newOwner(t, dir)
	o.refused(Request{Verb: Delete, Path: "d"}, "not_empty")
	o.refused(Request{Verb: Delete, Path: "none"}, "not_found")
	o.refused(Request{Verb: Move, Path: "a", To: "b"}, "already_exists")
	o.refused(Request{Verb: Move, Path: "a", To: "d"}, "already_exists")
	o.refused(Request{Verb: Move, Path: "a", To: "c/"}, "invalid_path")
	o.refused(Request{Verb: Move, Path: "d", To: "d/e"}, "invalid_path")
	o.refused(Request{Verb: Move, Path: "none", To: "c"}, "not_found")
	o.must(Request{Verb: Move, Path: "l", To: "d/l"}, nil) // the link itself
	o.must(Request{Verb: Move, Path: "d", To: "e/"}, nil)
	o.must(Request{Verb: Delete, Path: "e/f"}, nil)
	o.must(Request{Verb: Delete, Path: "e/l"}, nil)
	o.must(Request{Verb: Delete, Path: "e/"}, nil)
	if d := cmp.Diff(map[string]string{".": "(directory)", "a": "a", "b": "b"}, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// Every verb is judged by what it has opened, also where its text is harmless.
func TestHardBlocks(t *testing.T) {
	dir := tempDir(t)
	fresh := func() {
		for _, d := range []string{"p", "q"} {
			if err := os.RemoveAll(filepath.Join(dir, d)); err != nil {
				t.Fatal(err)
			}
		}
		put(t, dir+"/p/secret/f", "secret")
		put(t, dir+"/p/open/f", "open")
		put(t, dir+"/p/open/sub/.env", "env")
		put(t, dir+"/p/nodelete/f", "keep")
		put(t, dir+"/q/f", "q")
		link(t, "../p/secret", dir+"/q/dir")
		link(t, "../p/secret/f", dir+"/q/file")
		link(t, "../p/secret/new", dir+"/q/dangling")
	}
	all := []string{"read", "write", "delete", "execute"}
	fresh()
	before := tree(t, dir)
	o := newOwner(t, dir,
		rule("secret", "glob", dir+"/p/secret/**", all...),
		rule("env", "glob", "**/.env", "read", "write", "delete"),
		rule("keep", "exact", dir+"/p/nodelete/f", "delete"),
		rule("nolink", "exact", dir+"/q/file", "read"))
	diff := func(path string) []byte {
		return []byte("--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1 @@\n-secret\n\\ No newline at end of file\n+x\n")
	}
	for _, c := range []struct {
		r      Request
		reason string
	}{
		{Request{Verb: Read, Path: "p/secret/f"}, "owner"},
		{Request{Verb: Read, Path: "q/dir/f"}, blocked + "secret"},
		{Request{Verb: Read, Path: "q/file"}, "owner"},
		{Request{Verb: Read, Path: "q/../q/dir/f"}, blocked + "secret"},
		{Request{Verb: Inspect, Path: "q/dir/f"}, blocked + "secret"},
		{Request{Verb: List, Path: "q/dir"}, blocked + "secret"},
		{Request{Verb: Find, Path: "q/dir", Glob: "*"}, blocked + "secret"},
		{Request{Verb: Search, Path: "q/dir", Query: "e"}, blocked + "secret"},
		{Request{Verb: Git, Path: "q/dir", Command: "status"}, blocked + "secret"},
		{Request{Verb: Write, Path: "q/dir/f"}, blocked + "secret"},
		{Request{Verb: Write, Path: "q/file"}, blocked + "secret"},
		{Request{Verb: Write, Path: "q/dir/new"}, blocked + "secret"},
		{Request{Verb: Write, Path: "q/dir/x/y/new"}, blocked + "secret"},
		{Request{Verb: Write, Path: "q/dangling"}, "invalid_path"},
		{Request{Verb: Edit, Path: "q/dir/f", Old: "s", New: "t"}, blocked + "secret"},
		{Request{Verb: Delete, Path: "q/dir/f"}, blocked + "secret"},
		{Request{Verb: Move, Path: "q/dir/f", To: "x"}, blocked + "secret"},
		{Request{Verb: Move, Path: "q/f", To: "q/dir/x"}, blocked + "secret"},
		{Request{Verb: Move, Path: "p", To: "x"}, "owner"}, // what the literal rule is about is below it
		{Request{Verb: Move, Path: "p/open", To: "x"}, blocked + "env"},
		{Request{Verb: Move, Path: "p/secret", To: "x"}, "owner"},
		{Request{Verb: Delete, Path: "p"}, "owner"},
		{Request{Verb: Patch, Content: diff("q/dir/f")}, blocked + "secret"},
		{Request{Verb: Patch, Path: "q", Content: diff("dir/f")}, blocked + "secret"},
		{Request{Verb: Patch, Content: diff("p/secret/f")}, "owner"},
		{Request{Verb: Patch, Content: []byte("diff --git a/q/dir/f b/q/g\nrename from q/dir/f\nrename to q/g\n")}, blocked + "secret"},
		{Request{Verb: Patch, Content: []byte("diff --git a/q/f b/q/dir/g\ncopy from q/f\ncopy to q/dir/g\n")}, blocked + "secret"},
		{Request{Verb: Patch, Content: []byte("diff --git a/q/dir/f b/q/g\ncopy from q/dir/f\ncopy to q/g\n")}, blocked + "secret"},
		{Request{Verb: Exec, Command: "true", Cwd: "q/dir"}, blocked + "secret"},
		{Request{Verb: Exec, Argv: []string{"q/file"}}, "not_found"}, // it cannot be executed
	} {
		o.refused(c.r, c.reason)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Fatal(d)
	}
	// What the rules are not about still goes.
	o.must(Request{Verb: Move, Path: "q/dir", To: "p/open/dir"}, nil)
	o.must(Request{Verb: Delete, Path: "p/open/f"}, nil)
}

// A rule with the glob /p/secret/** and delete is no literal path: moving /p asks what is in it.
func TestMoveOfWhatHoldsABlockedPath(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/p/a/secret/f", "x")
	o := newOwner(t, dir, rule("s", "glob", dir+"/p/a/secret/**", "delete"), rule("w", "glob", dir+"/moved/**/f", "write"))
	o.refused(Request{Verb: Move, Path: "p", To: "x"}, blocked+"s")
	o.setRules((&Actor{Cwd: dir}).base(), rule("w", "glob", dir+"/moved/**/f", "write"))
	o.refused(Request{Verb: Move, Path: "p", To: "moved"}, blocked+"w")
	o.must(Request{Verb: Move, Path: "p", To: "elsewhere"}, nil)
}

func TestFoldCase(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/Secret", "x")
	o := newOwnerOf(t, &Actor{Cwd: dir, FoldCase: true}, rule("s", "exact", dir+"/secret", "read"))
	o.rules = mustCompile(t, dir) // an owner that does not fold
	o.refused(Request{Verb: Read, Path: "Secret"}, "unreviewed")
	o = newOwnerOf(t, &Actor{Cwd: dir, FoldCase: true}, rule("s", "exact", dir+"/secret", "read"))
	o.refused(Request{Verb: Read, Path: "SECRET"}, "owner")
}

func TestListFindInspect(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a.go", "a")
	put(t, dir+"/d/b.go", "bb")
	put(t, dir+"/d/e/c.txt", "c")
	put(t, dir+"/secret/x.go", "x")
	put(t, dir+"/.git/objects/aa.go", "x")
	link(t, "..", dir+"/d/up")
	o := newOwner(t, dir, rule("s", "prefix", dir+"/secret", "read"))
	list := func(r Request) (string, ListResult) {
		var l ListResult
		o.must(r, &l)
		var names []string
		for _, e := range l.Entries {
			names = append(names, e.Path+":"+e.Kind)
		}
		return strings.Join(names, " "), l
	}
	for _, c := range []struct {
		r       Request
		want    string
		leftOut int
		cut     bool
	}{
		{Request{Verb: List}, ".git:directory a.go:file d:directory", 1, false},
		{Request{Verb: List, Path: "d", Depth: 9}, "d/b.go:file", 0, false},
		{Request{Verb: List, Limit: 2}, ".git:directory a.go:file", 0, true},
		{Request{Verb: Find, Glob: "**/*.go"}, "a.go:file d/b.go:file", 1, false},
		{Request{Verb: Find, Path: ".git", Glob: "**/*.go"}, "objects/aa.go:file", 0, false},
		{Request{Verb: Find, Glob: "*.go"}, "a.go:file", 1, false},
		{Request{Verb: Find, Glob: "**/{c,b}.*", Depth: 2}, "d/b.go:file", 1, false},
	} {
		got, l := list(c.r)
		if c.r.Path == "d" {
			c.want = "b.go:file e:directory e/c.txt:file up:link"
		}
		if got != c.want || l.LeftOut != c.leftOut || l.Truncated != c.cut {
			t.Errorf("%+v:\n%s\nleft out %d, truncated %v; want\n%s\n%d, %v", c.r, got, l.LeftOut, l.Truncated, c.want, c.leftOut, c.cut)
		}
	}
	var e Entry
	o.must(Request{Verb: Inspect, Path: "d/up"}, &e)
	if e.Kind != "link" || e.Target != ".." || e.Path != dir+"/d/up" {
		t.Errorf("%+v", e)
	}
	o.must(Request{Verb: Inspect, Path: "/"}, &e)
	if e.Kind != "directory" {
		t.Errorf("%+v", e)
	}
	o.must(Request{Verb: Inspect, Path: "a.go"}, &e)
	if e.Kind != "file" || e.Size != 1 || e.Modified.IsZero() {
		t.Errorf("%+v", e)
	}
	o.refused(Request{Verb: Find, Glob: "[a"}, "invalid_glob")
	if kept := maps.Clone(tree(t, dir)); kept["a.go"] != "a" {
		t.Error(kept)
	}
	// A walk from / does not go into what the kernel shows of itself.
	got, _ := list(Request{Verb: Find, Path: "/proc", Glob: "**/environ"})
	if got != "" {
		t.Errorf("%.200s", got)
	}
}
