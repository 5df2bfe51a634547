package run_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// A chore is a piece of ordinary work. It is done outside, and again in a default run
// in the same directory made anew: both must say the same, end the same and leave the
// same behind.
type chore struct {
	name    string
	needs   string // programs it needs, separated by spaces
	before  string // done outside first, in both cases
	script  string // for bash -eu
	outer   bool   // the script itself stays outside and runs what follows $RUN sealed
	status  int    // how it ends outside, and so inside
	want    string // what it prints; "" means whatever it prints outside
	once    bool   // too slow to be done twice: inside only, want says what it prints
	loose   bool   // what it leaves or says on standard error differs from time to time
	only    string // "root", "user", or "self", who runs the test, where it concerns one of them
	env     []string
	instead string // inside it is meant to differ: it fails there and says this
}

// preamble makes git repeat itself.
const preamble = `export GIT_AUTHOR_DATE='2024-01-02T03:04:05Z' GIT_COMMITTER_DATE='2024-01-02T03:04:05Z'
`

const gitconfig = "[user]\n\tname = Test Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n"

// an outcome is what a chore said and left.
type outcome struct {
	Status   int
	Signal   syscall.Signal
	Out, Err string
	Left     map[string]string
}

// chores does each chore as each user.
func chores(t *testing.T, all []chore) {
	t.Helper()
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, c := range all {
			if c.only == "root" && u.UID != 0 || c.only == "user" && u.UID == 0 || c.only == "self" && u.UID != os.Getuid() {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.do(t, runtest.NewUser(t, u.UID))
			})
		}
	})
}

// has skips the test unless u finds the programs outside.
func has(t *testing.T, u *runtest.User, programs string) {
	t.Helper()
	for _, p := range strings.Fields(programs) {
		runtest.Need(t, p, u.Do("sh", "-c", `command -v "$1"`, "sh", p).Status == 0)
	}
}

func (c chore) do(t *testing.T, u *runtest.User) {
	t.Helper()
	has(t, u, c.needs)
	u.Env = append(u.Env, c.env...)
	u.Write(filepath.Join(u.Home, ".gitconfig"), gitconfig)
	script := "set -eu\n" + preamble + c.script
	binary := runtest.Binary(t)

	var out outcome
	if !c.once {
		c.prepare(t, u)
		if c.outer {
			out = c.perform(t, u, "env", "RUN=", "bash", "-c", script)
		} else {
			out = c.perform(t, u, "bash", "-c", script)
		}
		if out.Status != c.status {
			t.Fatalf("it does not work outside: status %d (signal %v), out %q, err %q", out.Status, out.Signal, out.Out, out.Err)
		}
	}
	must(t, os.RemoveAll(u.Work))
	u.Mkdir(u.Work)
	c.prepare(t, u)
	var in outcome
	if c.outer {
		in = c.perform(t, u, "env", "RUN="+binary+" run -q --", "bash", "-c", script)
	} else {
		in = c.perform(t, u, binary, "run", "-q", "--", "bash", "-c", script)
	}
	if c.instead != "" {
		if in.Status == c.status || !strings.Contains(in.Out+in.Err, c.instead) {
			t.Errorf("status %d, out %q, err %q; want it to fail and say %q", in.Status, in.Out, in.Err, c.instead)
		}
		return
	}
	if c.once {
		out = in
		out.Status, out.Signal, out.Out = c.status, 0, c.want
	} else if c.want != "" && out.Out != c.want {
		t.Errorf("outside it prints %q, want %q", out.Out, c.want)
	}
	if c.loose {
		if in.Status == out.Status && in.Out == out.Out {
			in.Err, out.Err = "", ""
		}
	}
	if diff := cmp.Diff(out, in); diff != "" {
		t.Errorf("(-outside +inside):\n%s\nit said %s", diff, in.Err)
	}
}

func (c chore) prepare(t *testing.T, u *runtest.User) {
	t.Helper()
	if c.before == "" {
		return
	}
	if r := u.Do("bash", "-c", "set -eu\n"+preamble+c.before); r.Status != 0 {
		t.Fatalf("cannot prepare: status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
}

func (c chore) perform(t *testing.T, u *runtest.User, name string, args ...string) outcome {
	t.Helper()
	r := u.Do(name, args...)
	o := outcome{Status: r.Status, Signal: r.Signal, Out: r.Out, Err: r.Err}
	if !c.loose {
		o.Left = left(t, u.Work)
	}
	return o
}

// left describes what stands below a directory, but for the insides of repositories.
func left(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
		if d.Type().IsRegular() {
			line += fmt.Sprintf(" nlink %d", st.Nlink)
			if info.Size() < 1<<16 {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %x", sha256.Sum256(data))
			}
		}
		rel, _ := filepath.Rel(dir, path)
		all[rel] = line
		if d.Name() == ".git" && d.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// must stops a test that cannot go on.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in runs bourn, or anything else, from another directory, with $PWD as a shell sets it.
func in(u *runtest.User, dir, name string, args ...string) runtest.Result {
	cmd := u.Command(context.Background(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "PWD="+dir)
	return u.Wait(cmd)
}

// chmodX makes a file executable for everyone.
func chmodX(path string) error { return os.Chmod(path, 0o755) }
