package workspace

import (
	"os"
	"testing"

	"bourn"
)

// Where jobs are to work is judged by what was opened, and told by what it is.
func TestDelegate(t *testing.T) {
	dir := tempDir(t)
	for _, name := range []string{"/in/deep", "/shut/deep", "/dark"} {
		if err := os.MkdirAll(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir+"/file", "x")
	link(t, "../shut/deep", dir+"/in/link")
	link(t, "deep", dir+"/in/fine")
	o := newOwner(t, dir, rule("x", "prefix", dir+"/shut", "delegate"))
	ask := func(roots ...string) Request {
		r := Request{Verb: Delegate, Parallel: 1}
		for _, root := range roots {
			r.Jobs = append(r.Jobs, Job{Task: "x", Root: root})
		}
		return r
	}
	o.refused(ask("shut"), "owner")
	o.refused(ask("in/link"), blocked+"x")
	o.refused(ask("in", "in/link"), blocked+"x")
	o.refused(ask("none"), "not_found")
	o.refused(ask("file"), "not_found")
	o.refused(ask("/proc/self/fd"), "invalid_path")
	if os.Getuid() != 0 {
		if err := os.Chmod(dir+"/dark", 0o111); err != nil {
			t.Fatal(err)
		}
		o.refused(ask("dark"), "permission_denied")
	}
	var r DelegateResult
	o.must(ask("in/fine", ".", "in/../in/deep"), &r)
	if len(r.Roots) != 3 || r.Roots[0].Path != dir+"/in/deep" || r.Roots[1].Path != dir || r.Roots[2] != r.Roots[0] || r.Roots[1].Ino == r.Roots[0].Ino {
		t.Fatalf("%+v", r)
	}
	f, err := r.Roots[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	f.Close()

	// What stands there by then may be another directory, or a link to one.
	if err := os.Rename(dir+"/in/deep", dir+"/in/was"); err != nil {
		t.Fatal(err)
	}
	opened := func(what string) {
		t.Helper()
		if f, err := r.Roots[0].Open(); err == nil || bourn.CodeOf(err) != bourn.CodeDenied || reasonOf(err) != "root_changed" {
			f.Close()
			t.Errorf("%s is opened: %v", what, err)
		}
	}
	opened("nothing")
	link(t, "../shut/deep", dir+"/in/deep")
	opened("a link")
	if err := os.Remove(dir + "/in/deep"); err != nil {
		t.Fatal(err)
	}
	link(t, "was", dir+"/in/deep")
	opened("a link to the same")
	if err := os.Remove(dir + "/in/deep"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/in/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	opened("another one")
	if err := os.Rename(dir+"/in", dir+"/out"); err != nil {
		t.Fatal(err)
	}
	link(t, "out", dir+"/in")
	r.Roots[0].Path = dir + "/in/was"
	opened("one behind a link")
	r.Roots[0].Path = dir + "/out/../out/was"
	if _, err := r.Roots[0].Open(); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
}

// Two requests that differ in anything have two digests: a list that is empty is not one that
// is left out.
func TestDelegateDigest(t *testing.T) {
	seen := map[string]int{}
	for i, j := range []Job{{}, {Read: []string{}}, {Write: []string{}}, {Hosts: []string{}}, {Tools: []string{}}, {Env: []string{}}, {Deny: []string{}}, {Task: "x"}, {Root: "x"}, {Agent: "x"}, {Timeout: 1}, {Read: []string{"a", "b"}}, {Read: []string{"a b"}}} {
		a, err := Request{Tool: "t", Verb: Delegate, Jobs: []Job{j}}.Action()
		if err != nil {
			t.Fatal(err)
		}
		if of, twice := seen[a.Digest()]; twice {
			t.Errorf("%d is as %d", i, of)
		}
		seen[a.Digest()] = i
	}
	if _, err := (Request{Tool: "t", Verb: Delegate, Jobs: []Job{{Task: "\xff"}}}).Action(); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
}
