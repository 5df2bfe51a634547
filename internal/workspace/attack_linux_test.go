package workspace

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Requests that are short and would take hours, or more memory than there is.
func TestHeavy(t *testing.T) {
	if testing.Short() && slower > 1 {
		t.Skip("it computes for long under the race detector")
	}
	dir := tempDir(t)
	put(t, dir+"/newlines", strings.Repeat("\n", 7<<20))
	put(t, dir+"/a", strings.Repeat("a", 8<<20))
	put(t, dir+"/d/a", strings.Repeat("a", 4<<20))
	put(t, dir+"/e/"+strings.Repeat("a", 200), "")
	context := func(n int) []byte {
		return []byte(fmt.Sprintf("--- a/newlines\n+++ b/newlines\n@@ -1,%d +1,%d @@\n", n, n+1) + strings.Repeat(" \n", n-1) + " x\n+y\n")
	}
	o := newOwner(t, dir)
	for _, c := range []struct {
		name, want string
		r          Request
	}{
		{"lines", "patch_invalid", Request{Verb: Patch, Content: context(3 << 20)}},
		{"near", "patch_conflict", Request{Verb: Patch, Content: context(400_000)}},
		{"overlapping", "edit_ambiguous", Request{Verb: Edit, Path: "a", Old: strings.Repeat("a", 4<<20), New: "b"}},
		{"text", "invalid_query", Request{Verb: Search, Path: "d", Query: strings.Repeat("a", 2<<20)}},
		{"steps", "invalid_query", Request{Verb: Search, Path: "d", Query: strings.Repeat("(x*y*a?){100}", 300) + "Z", Regex: true}},
		{"alternatives", "invalid_glob", Request{Verb: Find, Path: "e", Glob: strings.Repeat("{a,a}", 30) + "b"}},
		{"alternatives in classes", "invalid_glob", Request{Verb: Find, Path: "e", Glob: strings.Repeat("{[}],a}", 30) + "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := withTimeout(t, slower*10*time.Second)
			defer cancel()
			if err := o.askFor(ctx, c.r, nil, nil); reasonOf(err) != c.want {
				t.Errorf("%v (%s); want %s", err, reasonOf(err), c.want)
			}
		})
	}
}

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// A pattern that takes long in one file is given up with its call, and the actor goes on.
func TestSearchIsCancelled(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/long", strings.Repeat("ab", 2<<20-1))
	put(t, dir+"/lines", strings.Repeat(strings.Repeat("ab", 500)+"\n", 4000))
	o := newOwner(t, dir)
	for _, glob := range []string{"long", "lines"} {
		ctx, cancel := withTimeout(t, 100*time.Millisecond)
		defer cancel()
		err := o.askFor(ctx, Request{Verb: Search, Glob: glob, Query: "(x*y*a?b?){60}(x*y*a?b?){60}[YZ]", Regex: true}, nil, nil)
		if reasonOf(err) != "cancelled" {
			t.Errorf("%s: %v", glob, err)
		}
	}
	o.must(Request{Verb: Inspect, Path: "long"}, nil)
}

// A call that cannot be interrupted does not keep the process.
func TestSettle(t *testing.T) {
	s := &serving{}
	s.all.Add(1)
	s.settle(time.Millisecond)
	s.all.Done()
	s.settle(time.Hour)
}

// In pieces, or as one: what is found is the same.
func TestLinesInPieces(t *testing.T) {
	long := strings.Repeat("x", 2*piece)
	text := strings.Repeat("one\n", piece/3) + "two " + long + " three\n" + strings.Repeat("\n", piece) + long + "\nfour\n"
	for _, query := range []string{"^two", "three$", "fou?r", "^$", "x{100}$", "[f]our", "(x|o)ne"} {
		got, want := matchedLines(t, []byte(text), query, true), plainLines([]byte(text), query, true)
		if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) == 0 {
			t.Errorf("%q: %d lines; want %d", query, len(got), len(want))
		}
	}
	if got := matchedLines(t, []byte("a\n"), "^$", true); len(got) > 0 {
		t.Errorf("behind the last line: %q", got)
	}
}

func TestOccurrences(t *testing.T) {
	for _, c := range []struct {
		text, old string
		n, first  int
	}{
		{"abab", "ab", 2, 0}, {"aaaa", "aa", 3, 0}, {"xaabaabaaac", "aabaaa", 1, 4}, {"abc", "c", 1, 2}, {"abc", "d", 0, 0},
		{"ab", "abc", 0, 0}, {"ababac", "abac", 1, 2}, {"", "a", 0, 0}, {"a", "", 0, 0},
	} {
		if n, first := occurrences([]byte(c.text), []byte(c.old)); n != c.n || n > 0 && first != c.first {
			t.Errorf("%q in %q: %d at %d; want %d at %d", c.old, c.text, n, first, c.n, c.first)
		}
	}
}

// meanwhile goes on with f, over and over, until what it returns is called.
func meanwhile(f func()) (stop func()) {
	var ends atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !ends.Load() {
			f()
		}
	})
	return func() {
		ends.Store(true)
		all.Wait()
	}
}

// The configuration of a repository is another one by the time that git reads it: nothing of
// it is executed all the same.
func TestGitExecutesNothingThatComesLater(t *testing.T) {
	dir, canary := tempDir(t), tempDir(t)
	gitIn(t, dir, "init", "-q", "-b", "main")
	put(t, dir+"/a.txt", "one\n")
	put(t, dir+"/.gitattributes", "*.txt filter=evil\n")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "x")
	good := content(t, dir+"/.git/config")
	bad := good + "[filter \"evil\"]\n\tclean = touch " + canary + "/executed; cat\n"
	o := newOwner(t, dir)
	n := 0
	defer meanwhile(func() {
		n++
		put(t, dir+"/a.txt", fmt.Sprintf("%03d\n", n%1000)) // looks changed, and has to be read
		for _, config := range []string{bad, good} {
			_ = o.ask(Request{Verb: Write, Path: ".git/config", Content: []byte(config)}, nil)
		}
	})()
	for i := range rounds(100) {
		var r ExecResult
		_ = o.ask(Request{Verb: Git, Command: "status"}, &r)
		if _, err := os.Stat(canary + "/executed"); err == nil {
			t.Fatalf("executed in round %d", i)
		}
	}
}

// What is started alone has threads, and no process.
func TestStartAlone(t *testing.T) {
	for command, want := range map[string]string{"echo one": "one\n", "/bin/true; echo forked": "", "echo $(echo sub)": ""} {
		f := &family{leaders: map[int]bool{}}
		var out bytes.Buffer
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-ec", command)
		cmd.Stdout = w
		release, err := f.startAlone(cmd)
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.ReadFrom(r)
		r.Close()
		err = cmd.Wait()
		release()
		if out.String() != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", command, &out, err)
		}
	}
}

// A repository whose objects or whose index are where the rules let nothing be read shows
// nothing of them.
func TestGitElsewhere(t *testing.T) {
	for name, plant := range map[string]func(secret, mine string){
		"a file .git":    func(secret, mine string) { put(t, mine+"/.git", "gitdir: "+secret+"/.git\n") },
		"a link .git":    func(secret, mine string) { put(t, mine+"/x", ""); link(t, secret+"/.git", mine+"/.git") },
		"linked objects": func(secret, mine string) { linked(t, secret, mine, "objects", "index") },
		"a linked index": func(secret, mine string) { alternates(t, secret, mine); linked(t, secret, mine, "index") },
		"alternates":     alternatesOf(t),
		"a common dir": func(secret, mine string) {
			put(t, mine+"/.git/HEAD", "ref: refs/heads/main\n")
			put(t, mine+"/.git/commondir", secret+"/.git\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			put(t, dir+"/secret/key.txt", "SECRET\n")
			gitIn(t, dir+"/secret", "init", "-q", "-b", "main")
			gitIn(t, dir+"/secret", "add", "-A")
			gitIn(t, dir+"/secret", "commit", "-q", "-m", "x")
			plant(dir+"/secret", dir+"/mine")
			for _, blocks := range [][]string{nil, {rule("secret", "prefix", dir+"/secret", "read")}} {
				o := newOwner(t, dir, blocks...)
				shown, refused := "", ""
				for _, command := range []string{"diff", "diff --staged"} {
					var r ExecResult
					refused += reasonOf(o.ask(Request{Verb: Git, Path: "mine", Command: command}, &r)) + " "
					shown += string(r.Stdout)
				}
				if got := strings.Contains(shown, "SECRET"); got != (blocks == nil) {
					t.Errorf("%q, with rules %v: %s", refused, blocks != nil, shown)
				}
				if blocks != nil && !strings.Contains(refused, blocked+"secret") {
					t.Error(refused)
				}
			}
		})
	}
}

// What says where a repository is changes after it was judged.
func TestGitElsewhereLater(t *testing.T) {
	for _, name := range []string{".git", "elsewhere/objects/info/alternates", "elsewhere/config", "elsewhere/commondir"} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			put(t, dir+"/secret/key.txt", "SECRET\n")
			gitIn(t, dir+"/secret", "init", "-q", "-b", "main")
			gitIn(t, dir+"/secret", "add", "-A")
			gitIn(t, dir+"/secret", "commit", "-q", "-m", "x")
			put(t, dir+"/mine/key.txt", "other\n")
			gitIn(t, dir+"/mine", "init", "-q", "-b", "main", "--separate-git-dir", "elsewhere")
			gitIn(t, dir+"/mine", "add", "-A")
			gitIn(t, dir+"/mine", "commit", "-q", "-m", "x")
			at := dir + "/mine/" + name
			good := content(t, at)
			bad := map[string]string{
				".git":                              "gitdir: " + dir + "/secret/.git\n",
				"elsewhere/objects/info/alternates": dir + "/secret/.git/objects\n",
				"elsewhere/config":                  content(t, dir+"/mine/elsewhere/config") + "\n[core]\n\tworktree = " + dir + "/secret\n",
				"elsewhere/commondir":               dir + "/secret/.git\n",
			}[name]
			if strings.HasSuffix(name, "alternates") {
				put(t, dir+"/mine/elsewhere/refs/heads/main", content(t, dir+"/secret/.git/refs/heads/main"))
			}
			o := newOwner(t, dir, rule("secret", "prefix", dir+"/secret", "read"))
			defer meanwhile(func() {
				_ = o.ask(Request{Verb: Write, Path: at, Content: []byte(bad)}, nil)
				if good == "(none)" {
					_ = o.ask(Request{Verb: Delete, Path: at}, nil)
				} else {
					_ = o.ask(Request{Verb: Write, Path: at, Content: []byte(good)}, nil)
				}
			})()
			for i := range rounds(25) {
				for _, command := range []string{"diff", "diff --staged"} {
					var r ExecResult
					_ = o.ask(Request{Verb: Git, Path: "mine", Command: command}, &r)
					if strings.Contains(string(r.Stdout), "SECRET") {
						t.Fatalf("round %d: %s", i, r.Stdout)
					}
				}
			}
		})
	}
}

// linked is a repository of whose parts some are links to another's.
func linked(t *testing.T, secret, mine string, parts ...string) {
	t.Helper()
	if _, err := os.Stat(mine + "/.git"); err != nil {
		put(t, mine+"/x", "")
		gitIn(t, mine, "init", "-q", "-b", "main")
	}
	for _, part := range parts {
		if err := os.RemoveAll(mine + "/.git/" + part); err != nil {
			t.Fatal(err)
		}
		link(t, secret+"/.git/"+part, mine+"/.git/"+part)
	}
}

func alternates(t *testing.T, secret, mine string) {
	t.Helper()
	linked(t, secret, mine)
	put(t, mine+"/.git/objects/info/alternates", "# one\n../../between\n")
	put(t, mine+"/between/info/alternates", secret+"/.git/objects\n")
}

// alternatesOf is a repository that knows a commit of another's, and its store.
func alternatesOf(t *testing.T) func(secret, mine string) {
	return func(secret, mine string) {
		alternates(t, secret, mine)
		put(t, mine+"/.git/refs/heads/main", strings.TrimSpace(content(t, secret+"/.git/refs/heads/main"))+"\n")
	}
}

// What is in a file that is not to be read, but may be written, is beside it for a moment.
func TestAsideIsNotRead(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/w/"+asidePrefix+"000000000000", "SECRET")
	o := newOwner(t, dir, rule("key", "exact", dir+"/w/key", "read"))
	at := "w/" + asidePrefix + "000000000000"
	o.refused(Request{Verb: Read, Path: at}, "beside_another")
	o.refused(Request{Verb: Edit, Path: at, Old: "S", New: "T"}, "beside_another")
	o.refused(Request{Verb: Move, Path: at, To: "w/other"}, "beside_another")
	o.must(Request{Verb: Delete, Path: at}, nil)
	stop := meanwhile(func() {
		var s SearchResult
		if err := o.ask(Request{Verb: Search, Path: "w", Query: "SECRET"}, &s); err == nil && len(s.Hits) > 0 {
			t.Errorf("%+v", s.Hits)
		}
	})
	for range rounds(300) {
		put(t, dir+"/w/key", "SECRET")
		_ = o.ask(Request{Verb: Write, Path: "w/key", Content: []byte("x")}, nil)
	}
	stop()
}

// What comes into a directory between the judging of it and its move does not go along.
func TestMoveTakesWhatWasJudged(t *testing.T) {
	dir := tempDir(t)
	o := newOwner(t, dir, rule("key", "glob", "/**/b/key", "write"))
	for i := range rounds(400) {
		for _, d := range []string{"/a", "/b"} {
			if err := os.RemoveAll(dir + d); err != nil {
				t.Fatal(err)
			}
		}
		for n := range i % 40 { // so that it takes some time
			put(t, fmt.Sprintf("%s/a/%d", dir, n), "")
		}
		put(t, dir+"/a/x", "")
		put(t, dir+"/key", "")
		var all sync.WaitGroup
		all.Go(func() { _ = o.ask(Request{Verb: Move, Path: "a", To: "b"}, nil) })
		if i%2 == 0 {
			all.Go(func() { _ = o.ask(Request{Verb: Write, Path: "a/key", Content: []byte("x")}, nil) })
		} else {
			all.Go(func() { _ = o.ask(Request{Verb: Move, Path: "key", To: "a/key"}, nil) })
		}
		all.Wait()
		if _, err := os.Stat(dir + "/b/key"); err == nil {
			t.Fatalf("it is there in round %d", i)
		}
	}
}
