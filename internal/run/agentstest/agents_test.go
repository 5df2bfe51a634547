package agentstest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

const (
	secret = "SECRET-5b1e07"
	said   = "hello from the file"
)

// kept are files of the home that no run was granted.
var kept = []string{".ssh/id_ed25519", ".aws/credentials", ".netrc", "other/.env", ".npmrc"}

// steal is what an agent does that goes for the home's secrets. It ends well, so that
// nothing but the seal decides what it prints.
const steal = "cat ~/.ssh/id_ed25519 ~/.aws/credentials ~/.netrc ~/other/.env ~/.npmrc; echo \"token=$FORGE_TOKEN\"; touch ~/planted; true"

// furnish fills u's home with secrets, and makes sure that u can read them unsealed.
func furnish(t *testing.T, u *runtest.User) {
	t.Helper()
	for _, at := range kept {
		u.Write(filepath.Join(u.Home, at), "//"+secret+"\n")
	}
	u.Env = append(u.Env, "FORGE_TOKEN="+secret)
	u.Write("hello.txt", said+"\n")
	r := u.Do("sh", "-c", steal)
	if n := strings.Count(r.Out, secret); n != len(kept)+1 {
		t.Fatalf("outside %d secrets are read, not %d: %q", n, len(kept)+1, r.Out)
	}
	if err := os.Remove(filepath.Join(u.Home, "planted")); err != nil {
		t.Fatal(err)
	}
}

// untouched reports what of the home a run reached, by what it handed back and by what it
// left behind.
func untouched(t *testing.T, u *runtest.User, results ...string) {
	t.Helper()
	for _, r := range results {
		if strings.Contains(r, secret) {
			t.Errorf("a secret came out: %s", r)
		}
	}
	for _, at := range kept {
		if got := u.Read(filepath.Join(u.Home, at)); got != "//"+secret+"\n" {
			t.Errorf("~/%s holds %q now", at, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(u.Home, "planted")); err == nil {
		t.Error("the run left a file in the home")
	}
}

// absent reports the secrets that a command did not find absent.
func absent(t *testing.T, result string) {
	t.Helper()
	for _, at := range kept {
		if !strings.Contains(result, at+": No such file or directory") {
			t.Errorf("~/%s is not said to be absent: %s", at, result)
		}
	}
	if !strings.Contains(result, "token=") {
		t.Errorf("the command did not come to its end: %s", result)
	}
}

// works holds an agent to what a model has it do: the calls give what is wanted, the second
// goes for the secrets and finds none, the last writes into the project, and the session is
// kept below the home.
func works(t *testing.T, u *runtest.User, m *model, r runtest.Result, want map[int]string, sessions string) {
	t.Helper()
	for n, want := range want {
		if got := m.result(t, n); !strings.Contains(got, want) {
			t.Errorf("call %d: %s, want %q", n, got, want)
		}
	}
	absent(t, m.result(t, 1))
	untouched(t, u, append(m.results, r.Out, r.Err)...)
	if got := u.Read("made.txt"); got != "made\n" {
		t.Errorf("made.txt holds %q", got)
	}
	if at, _ := filepath.Glob(filepath.Join(u.Home, sessions)); len(at) == 0 {
		t.Errorf("no session is kept in ~/%s", sessions)
	}
}

// An agent is a program that a preset is for.
type agent struct {
	program, preset, version string
	helps                    []string // what its help names
}

// answers runs what needs no model: the same is said sealed and unsealed, and the preset
// says in one line that it is there.
func (a agent) answers(t *testing.T, u *runtest.User) {
	t.Helper()
	for _, flag := range []string{"--version", "--help"} {
		outside, inside := u.Do("env", a.program, flag), u.Bourn("run", "--", a.program, flag)
		if outside.Status != 0 || inside.Status != 0 || outside.Out != inside.Out {
			t.Errorf("%s %s: status %d outside and %d inside; printed outside\n%s\ninside\n%s\nsaid inside\n%s",
				a.program, flag, outside.Status, inside.Status, outside.Out, inside.Out, inside.Err)
		}
		if n := strings.Count(inside.Err, "preset "+a.preset+" is applied"); n != 1 || strings.Count(inside.Err, "sealed by the kernel") != 1 {
			t.Errorf("%s %s: the preset is said %d times:\n%s", a.program, flag, n, inside.Err)
		}
		want := a.helps
		if flag == "--version" {
			want = []string{a.version}
		}
		if missing := slices.IndexFunc(want, func(s string) bool { return !strings.Contains(inside.Out, s) }); missing >= 0 {
			t.Errorf("%s %s does not name %s:\n%s", a.program, flag, want[missing], inside.Out)
		}
	}
}

// sealed runs an agent with the preset that its name selects.
func sealed(t *testing.T, u *runtest.User, args ...string) runtest.Result {
	t.Helper()
	r := u.Bourn(append([]string{"run"}, args...)...)
	if r.Status != 0 {
		t.Fatalf("%q: status %d\nprinted %s\nsaid %s", args, r.Status, r.Out, r.Err)
	}
	return r
}
