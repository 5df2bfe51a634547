package workspace

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

func gitIn(t testing.TB, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return out
}

// modes is a tree with who may execute what.
func modes(t testing.TB, dir string) map[string]string {
	all := tree(t, dir)
	for at := range all {
		if at == ".git" || strings.HasPrefix(at, ".git/") {
			delete(all, at)
			continue
		}
		if info, err := os.Lstat(filepath.Join(dir, at)); err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0 {
			all[at] += " (executable)"
		}
	}
	return all
}

// patchRounds is how many random patches are compared with what git makes of them.
const patchRounds = 20

// What git diff writes is applied to what git itself would make of it. Every path that is
// different afterwards is a target that says so.
func TestPatchAgainstGit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "d/a", "d/e/f", "with space", "ta\tb", "qu\"ote", "ümlaut", "\xff\xfe", "back\\slash", "e/b/y", "-dash"}
	random := func(n int) []byte {
		if rng.IntN(5) == 0 {
			b := make([]byte, rng.IntN(3000))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			return b
		}
		var b bytes.Buffer
		for range rng.IntN(n) + 1 {
			fmt.Fprintf(&b, "line %d%s", rng.IntN(50), []string{"\n", "\r\n"}[rng.IntN(20)/19])
		}
		if rng.IntN(3) == 0 {
			b.WriteString("no end")
		}
		return b.Bytes()
	}
	change := func(b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		for range rng.IntN(3) + 1 {
			i := rng.IntN(len(lines))
			lines = slices.Insert(lines, i, fmt.Appendf(nil, "new %d\n", rng.IntN(100)))
		}
		return bytes.Join(lines, nil)
	}
	for round := range rounds(patchRounds) {
		before, after := tempDir(t), tempDir(t)
		gitIn(t, after, "init", "-q")
		for _, name := range names {
			if rng.IntN(3) > 0 {
				b := random(30)
				for _, dir := range []string{before, after} {
					put(t, filepath.Join(dir, name), string(b))
				}
			}
		}
		gitIn(t, after, "add", "-A")
		gitIn(t, after, "commit", "-q", "--allow-empty", "-m", "x")
		for _, name := range names {
			at := filepath.Join(after, name)
			b, err := os.ReadFile(at)
			switch {
			case err != nil && rng.IntN(3) == 0:
				put(t, at, string(random(30)))
			case err != nil:
			case rng.IntN(4) == 0:
				put(t, at, string(change(b)))
			case rng.IntN(5) == 0:
				_ = os.Chmod(at, 0o755)
			case rng.IntN(6) == 0:
				_ = os.Remove(at)
			case rng.IntN(6) == 0:
				_ = os.Remove(at)
				put(t, filepath.Join(after, "renamed", name), string(change(b)))
			case rng.IntN(6) == 0:
				put(t, filepath.Join(after, "copied", name), string(b))
			}
		}
		gitIn(t, after, "add", "-A")
		patch := gitIn(t, after, "diff", "--cached", "--binary", "-M", "-C", "--find-copies-harder")
		if len(patch) == 0 {
			continue
		}
		was := modes(t, before)
		o := newOwner(t, before)
		r := Request{Verb: Patch, Content: patch}
		if err := o.ask(r, nil); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, patch)
		}
		is := modes(t, before)
		want := modes(t, after)
		dropDirectories(want)
		got := maps.Clone(is)
		dropDirectories(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("round %d: %s\n%s", round, d, patch)
		}
		action, err := r.Action()
		if err != nil {
			t.Fatal(err)
		}
		for at := range differing(was, is) {
			if !slices.ContainsFunc(action.Targets, func(x bourn.Target) bool {
				return (x.Operation == bourn.Write || x.Operation == bourn.Delete) && (x.Path == at || strings.HasPrefix(x.Path, at+"/"))
			}) {
				t.Fatalf("round %d: %q was changed and is no target: %v", round, at, action.Targets)
			}
		}
	}
}

func dropDirectories(all map[string]string) {
	maps.DeleteFunc(all, func(_, what string) bool { return what == "(directory)" })
}

func differing(a, b map[string]string) map[string]bool {
	all := map[string]bool{}
	for at, what := range a {
		if b[at] != what {
			all[at] = true
		}
	}
	for at, what := range b {
		if a[at] != what {
			all[at] = true
		}
	}
	return all
}

func edits(names ...string) []byte {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-old\n+new\n", n, n)
	}
	return []byte(b.String())
}

// A patch that does not fit as a whole changes nothing.
func TestPatchIsWhole(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "old\n")
	put(t, dir+"/b", "other\n")
	put(t, dir+"/there", "x\n")
	put(t, dir+"/d/c", "old\n")
	link(t, "a", dir+"/same")
	before := tree(t, dir)
	o := newOwner(t, dir)
	gone := "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
	for _, c := range []struct {
		patch  []byte
		reason string
	}{
		{edits("a", "b"), "patch_conflict"},
		{edits("a", "none"), "not_found"},
		{edits("a", "d"), "invalid_path"},
		{edits("a", "same"), "changed_meanwhile"}, // two names of one file
		{append([]byte(gone), edits("b")...), "patch_conflict"},
		{append(edits("a"), "diff --git a/there b/there\nnew file mode 100644\n"...), "already_exists"},
		{append(edits("a"), "diff --git a/d/c b/there\nrename from d/c\nrename to there\n"...), "already_exists"},
		{append(edits("a"), "diff --git a/new/x b/new/x\nnew file mode 100644\n--- /dev/null\n+++ b/new/x\n@@ -0,0 +1 @@\n+x\n"+string(edits("b"))...), "patch_conflict"},
		{[]byte("diff --git a/b b/b\ndeleted file mode 100644\n"), "patch_conflict"},
		{append([]byte("diff --git a/new/x b/new/x\nnew file mode 100644\n"), "diff --git a/b/x b/b/x\nnew file mode 100644\n"...), "not_found"},
	} {
		o.refused(Request{Verb: Patch, Content: c.patch}, c.reason)
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("%s\n%s", c.patch, d)
		}
	}
}

// A later file that cannot be put in its place takes the earlier ones back.
func TestPatchRollback(t *testing.T) {
	dir := tempDir(t)
	fresh := func() {
		for _, n := range []string{"a", "d/b", "d/gone", "d/moved", "mode"} {
			put(t, filepath.Join(dir, n), "old\n")
		}
	}
	fresh()
	before := modes(t, dir)
	w := &work{actor: &Actor{Cwd: dir}, rules: mustCompile(t, dir)}
	w.request = Request{Verb: Patch, Content: append(edits("a", "d/b"), `diff --git a/d/gone b/d/gone
deleted file mode 100644
--- a/d/gone
+++ /dev/null
@@ -1 +0,0 @@
-old
diff --git a/d/moved b/to/here
rename from d/moved
rename to to/here
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git a/new/dir/x b/new/dir/x
new file mode 100755
`...)}
	files, err := parsePatch(w.request.Content)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	// Fails behind each step in turn; in the last round nothing does.
	for fail := 0; ; fail++ {
		var steps []*step
		left := maxCompared
		for _, f := range files {
			more, err := w.stepsOf(f, &left)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, more...)
		}
		n = len(steps)
		if fail < n {
			// What the next step would change is another file now.
			s := steps[fail]
			s.t.st.Ino++
			s.t.st.Size++
			if !s.t.exists {
				s.t.dir.at += "/moved"
			}
		}
		err := w.take(steps)
		for _, s := range steps {
			s.t.close()
		}
		if fail == n {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if steps[fail].chmod {
			// A mode is set on what was opened, whatever stands there now.
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{"to", "new"} {
				if err := os.RemoveAll(filepath.Join(dir, s)); err != nil {
					t.Fatal(err)
				}
			}
			fresh()
			if err := os.Chmod(dir+"/mode", 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if reasonOf(err) != "changed_meanwhile" {
			t.Errorf("step %d: %v", fail, err)
		}
		if d := cmp.Diff(before, modes(t, dir)); d != "" {
			t.Fatalf("step %d: %s", fail, d)
		}
	}
	want := map[string]string{".": "(directory)", "a": "new\n", "d": "(directory)", "d/b": "new\n", "mode": "old\n (executable)", "to": "(directory)", "to/here": "old\n", "new": "(directory)", "new/dir": "(directory)", "new/dir/x": " (executable)"}
	if d := cmp.Diff(want, modes(t, dir)); d != "" {
		t.Error(d)
	}
	if n < 6 {
		t.Errorf("%d steps", n)
	}
}

// A directory that may not be written fails before anything is changed.
func TestPatchWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := tempDir(t)
	put(t, dir+"/a", "old\n")
	put(t, dir+"/d/b", "old\n")
	put(t, dir+"/e/c", "old\n")
	if err := os.Chmod(dir+"/e", 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir+"/e", 0o755)
	if err := os.Chmod(dir+"/e/c", 0o444); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	o := newOwner(t, dir)
	o.refused(Request{Verb: Patch, Content: edits("a", "d/b", "e/c")}, "permission_denied")
	o.refused(Request{Verb: Patch, Content: append(edits("a", "d/b"), "diff --git a/e/c b/e/c\ndeleted file mode 100644\n--- a/e/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"...)}, "permission_denied")
	o.refused(Request{Verb: Patch, Content: append(edits("a", "d/b"), "diff --git a/e/x b/e/x\nnew file mode 100644\n"...)}, "permission_denied")
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Error(d)
	}
	// Where only the file may be written, it is, together with the rest.
	if err := os.Chmod(dir+"/e/c", 0o644); err != nil {
		t.Fatal(err)
	}
	o.must(Request{Verb: Patch, Content: edits("a", "e/c")}, nil)
	if content(t, dir+"/e/c") != "new\n" || content(t, dir+"/a") != "new\n" {
		t.Error(tree(t, dir))
	}
}

// A file system that is full: nothing is changed, no matter which file does not fit.
func TestPatchDiskFull(t *testing.T) {
	dir := tempDir(t)
	cmd := exec.Command("unshare", "--mount", "--user", "--map-root-user", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs \"$1\" && shift && exec \"$@\"", "sh", dir, os.Args[0], "-test.run=^TestInFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "BOURN_TEST_DISK="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("TestInFullDisk")) {
		if strings.Contains(os.Getenv("BOURN_TEST_NEED"), "userns") {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skipf("the kernel lacks user namespaces: %s", out)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInFullDisk")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestInFullDisk(t *testing.T) {
	dir := os.Getenv("BOURN_TEST_DISK")
	if dir == "" {
		t.Skip("TestPatchDiskFull runs it where there is a small disk")
	}
	put(t, dir+"/a", "old\n")
	put(t, dir+"/b", "old\n")
	put(t, dir+"/big", strings.Repeat("x", 30_000))
	before := tree(t, dir)
	o := newOwner(t, dir)
	patch := append(edits("a", "b"), "--- /dev/null\n+++ b/d/c\n@@ -0,0 +1 @@\n+"+strings.Repeat("y", 50_000)+"\n"...)
	err := o.ask(Request{Verb: Patch, Content: patch}, nil)
	if reasonOf(err) != "operation_failed" || bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Errorf("%v", err)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Error(d)
	}
	o.refused(Request{Verb: Write, Path: "big", Content: []byte(strings.Repeat("z", 60_000))}, "operation_failed")
	o.refused(Request{Verb: Write, Path: "x/y/z", Content: []byte(strings.Repeat("z", 60_000))}, "operation_failed")
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Error(d)
	}
	o.must(Request{Verb: Patch, Content: edits("a", "b")}, nil)
}
