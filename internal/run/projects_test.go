package run

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"bourn"
	"bourn/internal/policy"
)

// guardedIn is a request in which n projects below a grant are guarded, that exist.
func guardedIn(t *testing.T, root string, from, n int) *policy.Request {
	t.Helper()
	place := func(at string) policy.Place { return policy.Place{Path: at, Real: at, Exists: true, Dir: true} }
	r := &policy.Request{Grants: []policy.Grant{{Kind: policy.KindWrite, Place: place(root)}}}
	for i := range n {
		dir := filepath.Join(root, "d"+strconv.Itoa(from+i), "e")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, entry := range []string{"config", "hooks"} {
			r.Guarded = append(r.Guarded, policy.Guarded{Place: place(filepath.Join(dir, ".git", entry)), Name: policy.Object{Ino: 1}})
		}
	}
	return r
}

// What is kept of projects is bounded, for each tree by itself; the first stay while they
// are there.
func TestProjectsAreBounded(t *testing.T) {
	h := &Home{Dir: t.TempDir()}
	a, b := t.TempDir(), t.TempDir()
	keep := func(r *policy.Request) []string {
		t.Helper()
		known, err := h.projects()
		if err == nil {
			err = h.keepProjects(known, r)
		}
		if err == nil {
			known, err = h.projects()
		}
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	for i := range 3 {
		keep(guardedIn(t, a, i*600, 600))
	}
	got := keep(guardedIn(t, b, 0, 1))
	if len(got) != maxTreeProjects+1 || got[maxTreeProjects] != filepath.Join(b, "d0/e") || got[0] != filepath.Join(a, "d0/e") {
		t.Errorf("%d kept", len(got))
	}
	if err := os.RemoveAll(filepath.Join(a, "d0")); err != nil {
		t.Fatal(err)
	}
	got = keep(guardedIn(t, a, 5000, 1))
	if len(got) != maxTreeProjects+1 || got[maxTreeProjects] != filepath.Join(a, "d5000/e") {
		t.Errorf("the room of one that is gone: %d kept", len(got))
	}
	if err := os.WriteFile(h.projectsPath(), []byte("/nowhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.projects(); bourn.HintOf(err) == "" {
		t.Errorf("what cannot be read: %v", err)
	}
}
