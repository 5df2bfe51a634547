package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bourn/internal/policy"
	"bourn/internal/sandbox"
)

// TestNarrowIsGathered narrows what was found on a real file system, and asks again. The
// grants of the child are p/sub to write and nothing else of p.
func TestNarrowIsGathered(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"home", "p/keys", "p/sub/deep", "p/.git/hooks"} {
		if err := os.MkdirAll(in(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"p/a.pem", "p/sub/b.pem", "p/.mcp.json", "p/sub/f", "p/.git/HEAD", "p/.git/config"} {
		if err := os.WriteFile(in(f), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, of := range map[string]string{"p/sub/hard": "p/a.pem", "p/sub/deep/mcp": "p/.mcp.json"} {
		if err := os.Link(in(of), in(name)); err != nil {
			t.Fatal(err)
		}
	}
	parent := &policy.Request{Cwd: in("p"), Home: in("home"), BournDir: in("home/.bourn"), Program: "/usr/bin/bourn",
		Grants: []policy.Grant{{Kind: policy.KindWrite, From: "profile", Place: policy.Place{Path: in("p")}}},
		Denies: []policy.Deny{{Pattern: in("p") + "/**/*.pem", From: "profile", Glob: true}}}
	if err := sandbox.Gather(parent, sandbox.Options{}); err != nil {
		t.Fatal(err)
	}
	n := policy.Narrowing{Root: in("p/sub"), Read: []string{}, Deny: []policy.Deny{{Pattern: in("p/sub/f")}}}
	child, err := policy.Narrow(parent, n)
	if err != nil {
		t.Fatal(err)
	}
	// The host replaces a guarded file between the two.
	if err := os.WriteFile(in("p/.new"), []byte("y"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(in("p/.new"), in("p/.git/config")); err != nil {
		t.Fatal(err)
	}
	if err := sandbox.Gather(child, sandbox.Options{}); err != nil {
		t.Fatal(err)
	}
	plan := policy.Compile(child)
	for _, probe := range []struct {
		op   policy.Operation
		at   string
		want string
	}{
		{policy.OpWrite, "p/sub/new", "allowed"}, {policy.OpRead, "p/sub/deep/mcp", "allowed"},
		{policy.OpWrite, "p/sub/deep/mcp", "denied"}, // a hard link of what is guarded outside
		{policy.OpRead, "p/sub/hard", "denied"},      // one of what is denied outside
		{policy.OpRead, "p/sub/b.pem", "denied"}, {policy.OpRead, "p/sub/f", "denied"},
	} {
		if a := plan.Explain(probe.op, in(probe.at)); a.Allowed != probe.want {
			t.Errorf("%s %s is %s by %+v", probe.op, probe.at, a.Allowed, a.Item)
		}
	}
	for _, at := range []string{"p/keys", "p/.git/HEAD", "p"} {
		if plan.Shows(in(at)) {
			t.Errorf("%s of the host is shown", at)
		}
	}
	twice := func(list []policy.Place) bool {
		seen := map[string]bool{}
		return slices.ContainsFunc(list, func(p policy.Place) bool { again := seen[p.Path]; seen[p.Path] = true; return again })
	}
	var guarded []policy.Place
	for _, g := range child.Guarded {
		guarded = append(guarded, g.Place)
		if g.Path == in("p/.git/config") && g.Object != (policy.Object{}) {
			t.Errorf("%s must be what the parent's start found, and the host has replaced it", g.Path)
		}
	}
	if twice(child.System) || twice(child.Etc) || twice(guarded) {
		t.Error("a fact is there twice")
	}
}
