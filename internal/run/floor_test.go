package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"
)

func floorHome(t *testing.T, text string) *Home {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &Home{Dir: filepath.Join(dir, ".bourn"), Person: filepath.Join(dir, "home"), Program: "/usr/bin/true",
		Environ: []string{"PATH=/usr/bin"}, Floor: at, floorOwner: os.Getuid()}
}

func TestFloor(t *testing.T) {
	h := floorHome(t, `version: 1
advisory: never
filesystem: {deny: ["/**/*.secret"]}
network: {hosts: ["*.example.org", "api.example.com:443"], deny: [bad.example.org]}
`)
	work := filepath.Join(filepath.Dir(h.Person), "work")
	if err := os.WriteFile(filepath.Join(work, "a.secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := h.Prepare(Options{Command: []string{"true"}, Cwd: work, Hosts: []string{"a.example.org", "api.example.com", "api.example.com:443", "bad.example.org", "example.net"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]policy.Fate{"a.example.org": policy.Enforced, "api.example.com": policy.Dropped, "api.example.com:443": policy.Enforced,
		"bad.example.org": policy.Dropped, "example.net": policy.Dropped, "connect bad.example.org": policy.Enforced, filepath.Join(work, "a.secret"): policy.Enforced}
	for _, it := range p.Plan.Items {
		if fate, ok := want[it.Target]; ok {
			if it.Fate != fate {
				t.Errorf("%s is %s (%s), want %s", it.Target, it.Fate, it.Reason, fate)
			}
			delete(want, it.Target)
		}
	}
	if len(want) > 0 {
		t.Errorf("the plan lacks %v", want)
	}
	if e, err := p.Explain(policy.OpRead, filepath.Join(work, "a.secret")); err != nil || len(e.Remove) > 0 || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], h.Floor) {
		t.Errorf("%v: the deny is explained by %q, to be removed by %q", err, e.Notes, e.Remove)
	}
}

// What cannot be followed stops every start.
func TestFloorFailsClosed(t *testing.T) {
	for _, text := range []string{"", "version: 2\n", "version: 1\nadvisory: sometimes\n", "version: 1\nnetwork: {mode: open}\n", "version: 1\nfilesystem: {write: [/]}\n"} {
		h := floorHome(t, text)
		_, err := h.Prepare(Options{Command: []string{"true"}, Cwd: filepath.Join(filepath.Dir(h.Person), "work")})
		if !errors.Is(err, bourn.ErrDenied) || !strings.Contains(err.Error(), h.Floor) {
			t.Errorf("%q: %v", text, err)
		}
	}
	h := floorHome(t, "version: 1\n")
	if err := os.Chmod(h.Floor, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Prepare(Options{Command: []string{"true"}, Cwd: filepath.Join(filepath.Dir(h.Person), "work")}); !errors.Is(err, bourn.ErrDenied) {
		t.Errorf("a policy that anybody can write: %v", err)
	}
	h.Floor += "-missing"
	if _, err := h.Prepare(Options{Command: []string{"true"}, Cwd: filepath.Join(filepath.Dir(h.Person), "work")}); err != nil {
		t.Errorf("no policy: %v", err)
	}
}
