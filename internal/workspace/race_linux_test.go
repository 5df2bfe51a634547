package workspace

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// swapping exchanges two names for as long as a test goes on.
func swapping(t *testing.T, a, b string) (stop func() int) {
	var ends atomic.Bool
	var n atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for !ends.Load() {
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err == nil {
				n.Add(1)
			}
		}
	})
	return func() int {
		ends.Store(true)
		all.Wait()
		return int(n.Load())
	}
}

// What a link leads to is swapped while the actor works: it never touches, nor shows, what
// is outside. The file outside is blocked, and so is every way that it is judged by.
func TestSwappedLink(t *testing.T) {
	for _, what := range []string{"file", "directory"} {
		t.Run(what, func(t *testing.T) {
			dir := tempDir(t)
			outside := dir + "/outside"
			put(t, outside+"/f", "secret")
			put(t, dir+"/in/d/f", "inside")
			path := "in/d/f"
			a, b := dir+"/in/d/f", dir+"/in/other"
			link(t, outside+"/f", b)
			if what == "directory" {
				if err := os.Remove(b); err != nil {
					t.Fatal(err)
				}
				a, b = dir+"/in/d", dir+"/in/e"
				link(t, outside, b)
			}
			o := newOwner(t, dir, rule("out", "prefix", outside, "read", "write", "delete", "execute"))
			stop := swapping(t, a, b)
			results := map[string]int{}
			for i := range rounds(600) {
				var r ReadResult
				err := o.ask(Request{Verb: Read, Path: path}, &r)
				results["read "+reasonOf(err)]++
				if strings.Contains(string(r.Content), "secret") {
					t.Fatal("it was read")
				}
				var s SearchResult
				err = o.ask(Request{Verb: Search, Path: "in", Query: "secret"}, &s)
				results["search "+reasonOf(err)]++
				if len(s.Hits) > 0 {
					t.Fatalf("it was searched: %+v", s)
				}
				for _, r := range []Request{
					{Verb: Write, Path: path, Content: fmt.Appendf(nil, "inside %d", i)},
					{Verb: Edit, Path: path, Old: "inside", New: "inside"},
					{Verb: Write, Path: "in/d/new", Content: []byte("inside")},
					{Verb: Patch, Path: "in/d", Content: []byte("--- /dev/null\n+++ b/p\n@@ -0,0 +1 @@\n+inside\n")},
					{Verb: Delete, Path: "in/d/p"},
					{Verb: Move, Path: "in/d/new", To: "in/d/moved"},
					{Verb: Delete, Path: "in/d/moved"},
				} {
					results[string(r.Verb)+" "+reasonOf(o.ask(r, nil))]++
				}
			}
			n := stop()
			got := tree(t, outside)
			if len(got) != 2 || got["f"] != "secret" {
				t.Errorf("outside there is %v", got)
			}
			if n < 100 {
				t.Errorf("swapped only %d times", n)
			}
			for at := range tree(t, dir) {
				if strings.Contains(at, asidePrefix) {
					t.Errorf("%s was left", at)
				}
			}
			t.Logf("%d swaps: %v", n, results)
		})
	}
}

// A file that is replaced by another program between reading and writing is not overwritten.
func TestChangedMeanwhile(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "one")
	put(t, dir+"/b", "two")
	w := &work{actor: &Actor{Cwd: dir}, rules: mustCompile(t, dir), request: Request{Verb: Write}}
	target := func() *target {
		got, err := w.target("a", "write")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(got.close)
		return got
	}
	for name, change := range map[string]func() error{
		"replaced": func() error {
			return unix.Renameat2(unix.AT_FDCWD, dir+"/a", unix.AT_FDCWD, dir+"/b", unix.RENAME_EXCHANGE)
		},
		"grown": func() error { return os.WriteFile(dir+"/a", []byte("longer"), 0o600) },
		"gone":  func() error { return os.Rename(dir+"/a", dir+"/c") },
	} {
		put(t, dir+"/a", "one")
		first := target()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		_, err := w.replace(first, []byte("new"))
		if reasonOf(err) != "changed_meanwhile" {
			t.Errorf("%s: %v", name, err)
		}
		if after := tree(t, dir); fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: %v became %v", name, before, after)
		}
	}
	// The directory is moved to where it would have been refused.
	put(t, dir+"/d/a", "one")
	got, err := w.target("d/a", "write")
	if err != nil {
		t.Fatal(err)
	}
	defer got.close()
	if err := os.Rename(dir+"/d", dir+"/elsewhere"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.replace(got, []byte("new")); reasonOf(err) != "changed_meanwhile" || content(t, dir+"/elsewhere/a") != "one" {
		t.Errorf("%v", err)
	}
}

// Files that grow and shrink while they are read give a part of what was there.
func TestFileThatChangesSize(t *testing.T) {
	dir := tempDir(t)
	at := put(t, dir+"/a", "x")
	o := newOwner(t, dir)
	var ends atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		big := []byte(strings.Repeat("x", 100_000))
		for !ends.Load() {
			_ = os.WriteFile(at, big, 0o600)
			_ = os.Truncate(at, 10)
		}
	})
	for range 500 {
		var r ReadResult
		o.must(Request{Verb: Read, Path: "a"}, &r)
		if len(r.Content) > 100_000 || strings.Trim(string(r.Content), "x\x00") != "" {
			t.Fatalf("%d bytes", len(r.Content)) // the kernel itself shows zeros while it cuts
		}
		var s SearchResult
		o.must(Request{Verb: Search, Query: "y"}, &s)
	}
	ends.Store(true)
	all.Wait()
}
