package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSearch(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a.go", "one\nfind me\nfind me too\n")
	put(t, dir+"/d/b.txt", "find me\r\n")
	put(t, dir+"/d/secret/x", "find me\n")
	put(t, dir+"/d/.env", "find me\n")
	put(t, dir+"/.git/objects/x", "find me\n")
	put(t, dir+"/binary", "find me\x00")
	put(t, dir+"/long", strings.Repeat("x", 3<<20)+"find me"+strings.Repeat("ü", 5000))
	put(t, dir+"/large", strings.Repeat("find me\n", maxSearch/8+1))
	put(t, dir+"/nothing", "")
	put(t, dir+"/latin", "find me \xe9\n")
	link(t, "..", dir+"/d/loop")
	link(t, "../../secret", dir+"/d/out")
	o := newOwner(t, dir, rule("s", "prefix", dir+"/d/secret", "read"), rule("e", "glob", "**/.env", "read"))
	hits := func(r Request) (string, SearchResult) {
		t.Helper()
		r.Verb = Search
		var s SearchResult
		o.must(r, &s)
		var all []string
		for _, h := range s.Hits {
			all = append(all, fmt.Sprintf("%s:%d:%.10s", h.Path, h.Line, h.Text))
		}
		return strings.Join(all, " "), s
	}
	got, s := hits(Request{Query: "find me"})
	if want := "a.go:2:find me a.go:3:find me to d/b.txt:1:find me latin:1:find me \ufffd long:1:xxxxxxxxxx"; got != want || s.LeftOut != 2 || s.Skipped != 2 || s.Files != 5 || s.Truncated {
		t.Errorf("%s\n%+v", got, s)
	}
	for query, c := range map[string]struct {
		r    Request
		want string
	}{
		"a regex":      {Request{Query: "^find.*o$", Regex: true}, "a.go:3:find me to"},
		"no regex":     {Request{Query: "^find.*o$"}, ""},
		"a glob":       {Request{Query: "find", Glob: "**/*.txt"}, "d/b.txt:1:find me"},
		"a depth":      {Request{Query: "find", Depth: 1, Glob: "*.*"}, "a.go:2:find me a.go:3:find me to"},
		"a limit":      {Request{Query: "find", Limit: 1}, "a.go:2:find me"},
		"inside git's": {Request{Query: "find", Path: ".git"}, "objects/x:1:find me"},
		"a line end":   {Request{Query: "me$", Regex: true, Path: "d"}, "b.txt:1:find me"},
	} {
		if got, s := hits(c.r); got != c.want || s.Truncated != (c.r.Limit == 1) {
			t.Errorf("%s: %q %+v", query, got, s)
		}
	}
	o.refused(Request{Verb: Search, Query: ""}, "invalid_query")
	o.refused(Request{Verb: Search, Query: "(", Regex: true}, "invalid_query")
	o.refused(Request{Verb: Search, Query: "x", Glob: "["}, "invalid_glob")
	o.refused(Request{Verb: Search, Query: "x", Path: "a.go"}, "not_found")
}

// What the kernel denies is left out and counted.
func TestWalkDenied(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := tempDir(t)
	put(t, dir+"/a", "x\n")
	put(t, dir+"/file", "x\n")
	put(t, dir+"/dir/f", "x\n")
	for _, at := range []string{"file", "dir"} {
		if err := os.Chmod(filepath.Join(dir, at), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir+"/dir", 0o700)
	o := newOwner(t, dir)
	var s SearchResult
	o.must(Request{Verb: Search, Query: "x"}, &s)
	if len(s.Hits) != 1 || s.LeftOut != 2 {
		t.Errorf("%+v", s)
	}
	var l ListResult
	o.must(Request{Verb: Find, Glob: "**"}, &l)
	if len(l.Entries) != 3 || l.LeftOut != 1 {
		t.Errorf("%+v", l)
	}
	o.refused(Request{Verb: List, Path: "dir"}, "permission_denied")
}

// manyFiles makes a tree of n files of about 2 KiB.
func manyFiles(t testing.TB, dir string, n int) {
	t.Helper()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, again and again\n", 33)
	for i := range n {
		at := filepath.Join(dir, fmt.Sprintf("d%d/e%d/file%d.go", i%40, i%400, i))
		if i < 400 {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		content := text
		if i%1000 == 7 {
			content += "needle 12\n"
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that changes while it is walked: what stays is found, nothing ends badly, and
// a search can be cancelled.
func TestSearchWhileChanging(t *testing.T) {
	dir := tempDir(t)
	manyFiles(t, dir, 4000)
	put(t, dir+"/zzz", "needle 12\n")
	o := newOwner(t, dir)
	var ends atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; !ends.Load(); i++ {
			d := fmt.Sprintf("%s/d%d", dir, i%39)
			_ = os.Rename(d, d+"x")
			_ = os.Rename(d+"x", d)
			_ = os.RemoveAll(dir + "/new")
			_ = os.MkdirAll(dir+"/new/a/b/c", 0o755)
			_ = os.Symlink("/", dir+"/new/a/root")
		}
	})
	for range rounds(10) {
		var s SearchResult
		o.must(Request{Verb: Search, Query: "needle"}, &s)
		if len(s.Hits) == 0 || s.Hits[len(s.Hits)-1].Path != "zzz" || s.Truncated {
			t.Errorf("%+v", s)
		}
		o.must(Request{Verb: Find, Glob: "**/*7.go"}, nil)
	}
	ends.Store(true)
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := o.askFor(ctx, Request{Verb: Search, Query: "q.*z.*[xyz]+q", Regex: true}, nil, nil); reasonOf(err) != "cancelled" || time.Since(began) > 200*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
