package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"
	"bourn/internal/run/runtest"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptsDir names the directory of the scripts for a test process that runs as another
// user and may not see this one.
const scriptsDir = "BOURN_TEST_SCRIPTS"

// TestScripts runs the production binary in every script of testdata.
func TestScripts(t *testing.T) {
	dir := os.Getenv(scriptsDir)
	if dir == "" {
		dir = "testdata"
	}
	bin := filepath.Dir(runtest.Binary(t))
	// Not below /tmp, which a run has of its own.
	root, err := os.MkdirTemp("/var/tmp", "bourn-scripts-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, root) })
	seals := canSeal(t)
	t.Run("seals", func(t *testing.T) { runtest.Need(t, "userns", seals) })
	testscript.Run(t, testscript.Params{
		Dir:         dir,
		WorkdirRoot: root,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("BOURN_HOME", filepath.Join(home, ".bourn"))
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("USER", "tester")
			return os.MkdirAll(home, 0o755)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "seals":
				return seals, nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"record":   record,
			"mode":     mode,
			"status":   status,
			"jsonkeys": jsonKeys,
		},
	})
}

// canSeal reports whether a run can be sealed on this host.
func canSeal(t *testing.T) bool {
	u := runtest.NewUser(t, os.Getuid())
	return u.Sh("true").Status == 0
}

// TestScriptsAsOrdinaryUser runs the same scripts as a user who is not root, where the
// test process is root: it starts itself again.
func TestScriptsAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestScripts runs as an ordinary user already")
	}
	u := runtest.NewUser(t, runtest.OrdinaryUID)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Copies that the user can read, wherever the originals are.
	bin, scripts := u.Mkdir(filepath.Join(u.Dir, "bin")), u.Mkdir(filepath.Join(u.Dir, "scripts"))
	copyFile(t, runtest.Binary(t), filepath.Join(bin, "bourn"))
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		copyFile(t, name, filepath.Join(scripts, filepath.Base(name)))
	}
	cmd := u.Command(ctx, "/proc/self/exe", "-test.run=^TestScripts$", "-test.parallel=2")
	cmd.Env = append(cmd.Env, "TMPDIR="+u.Dir, "BOURN_TEST_BINARY="+filepath.Join(bin, "bourn"), scriptsDir+"="+scripts,
		"BOURN_TEST_NEED="+os.Getenv("BOURN_TEST_NEED"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as uid %d: %v\n%s", u.UID, err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
}

// removeAll removes a tree that may have directories without permissions.
func removeAll(t *testing.T, root string) {
	_ = filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(at, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(root); err != nil {
		t.Error(err)
	}
}

// record AGENT STATE [live|dead] writes the record of a run whose process is the test's.
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: record AGENT STATE live|dead")
	}
	stat, err := os.ReadFile("/proc/self/stat")
	ts.Check(err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var start uint64
	ts.Check(json.Unmarshal([]byte(fields[19]), &start))
	if args[2] == "dead" {
		start--
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ts.Check(err)
	profile := ts.Getenv("BOURN_HOME") + "/agents/" + args[0]
	r := run.Record{Version: 1, Run: "20260102T030405.678-00000001", Agent: bourn.AgentName(args[0]), Pid: os.Getpid(), StartTime: start,
		BootID: strings.TrimSpace(string(boot)), Sandbox: policy.Sandbox{State: policy.State(args[1])},
		Items: []policy.Item{
			{Kind: policy.KindWrite, Target: ts.Getenv("WORK") + "/p", From: "profile", Fate: policy.Dropped, Reason: "running without a kernel sandbox"},
			{Kind: policy.KindEnv, Target: "CI", From: "profile", Fate: policy.Enforced, By: []string{"launcher"}},
		}}
	data, err := json.Marshal(r)
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(profile, "runs", r.Run+".json"), data, 0o600))
}

// mode PATH OCTAL checks the permissions of a file.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode PATH OCTAL")
	}
	info, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	var s syscall.Stat_t
	ts.Check(syscall.Lstat(ts.MkAbs(args[0]), &s))
	if got := info.Mode().Perm().String(); got != args[1] {
		ts.Fatalf("%s has mode %s, not %s", args[0], got, args[1])
	}
	if int(s.Uid) != os.Getuid() {
		ts.Fatalf("%s belongs to %d, not to %d", args[0], s.Uid, os.Getuid())
	}
}

// status N COMMAND... runs a command and checks its exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		data, err := json.Marshal(exit.ExitCode())
		ts.Check(err)
		got = string(data)
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("%v exited with %s, not %s", args[1:], got, args[0])
	}
}

// jsonkeys KEY... checks the keys of the JSON object on standard output: exactly these,
// a last "..." for any others as well.
func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	var object map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
	more := len(args) > 0 && args[len(args)-1] == "..."
	if more {
		args = args[:len(args)-1]
	}
	for _, key := range args {
		if _, ok := object[key]; !ok {
			ts.Fatalf("no key %q in %s", key, ts.ReadFile("stdout"))
		}
	}
	if !more && len(object) != len(args) {
		ts.Fatalf("keys besides %v in %s", args, ts.ReadFile("stdout"))
	}
}
