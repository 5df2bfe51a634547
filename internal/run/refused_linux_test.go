package run_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// The report is written again when the run has ended. By then the command may have put a
// symlink in the place of its directory.
func TestReportIsNotLedAway(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		secret := u.Write(filepath.Join(u.Dir, "secret/report.json"), "mine\n")
		u.Mkdir("out")
		r := u.Bourn("run", "--watch", "--report", "out/report.json", "--", "sh", "-c", "mv out o2 && ln -s ../secret out; cat /etc/shadow; true")
		if !strings.Contains(r.Err, "refused: read /etc/shadow") {
			t.Fatalf("nothing was refused:\n%s", r.Err)
		}
		if got := u.Read(secret); got != "mine\n" {
			t.Errorf("the report went where the command led it: %q", got)
		}
		if got := u.Read("o2/report.json"); !strings.Contains(got, `"refusals"`) {
			t.Errorf("the report where it belongs has no refusals:\n%s", got)
		}
	})
}

// A program that whoever made the project put there has no preset's grants.
func TestPresetIsNotTheProjects(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Write(filepath.Join(u.Home, ".claude/.credentials.json"), "secret\n")
	program := u.Write("bin/claude", "#!/bin/sh\ncat ~/.claude/.credentials.json; echo ran\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	u.Mkdir(".git")
	sub := u.Mkdir("sub")
	u.Env = append(u.Env, "PATH="+u.Path("bin")+":"+os.Getenv("PATH"))
	for _, args := range [][]string{
		{"--read", ".", "--", "./bin/claude"}, {"--read", ".", "--", program}, {"--read", ".", "--", "claude"},
		{"--read", u.Work, "--write", u.Mkdir("../x"), "--", program},
	} {
		if r := u.Bourn(append([]string{"run"}, args...)...); r.Out != "ran\n" || strings.Contains(r.Err, "is applied") {
			t.Errorf("run %q printed %q and said\n%s", args, r.Out, r.Err)
		}
	}
	u.Work = sub // elsewhere in the same repository
	if r := u.Bourn("run", "--read", program, "--", program); r.Out != "ran\n" || strings.Contains(r.Err, "is applied") {
		t.Errorf("from a directory below it printed %q and said\n%s", r.Out, r.Err)
	}

	// What a run could write stays under suspicion, however many runs come after it.
	tools := u.Mkdir(filepath.Join(u.Dir, "tools"))
	u.Bourn("run", "-q", "--write", tools, "--", "sh", "-c", "printf '#!/bin/sh\necho planted\n' > "+tools+"/claude; chmod +x "+tools+"/claude")
	for range 25 {
		u.Bourn("run", "-q", "--", "true")
	}
	if r := u.Bourn("run", "--read", u.Home+"/.claude/none", "--", tools+"/claude"); strings.Contains(r.Err, "is applied") {
		t.Errorf("a program that a run could write selects a preset:\n%s", r.Err)
	}
}

// A watch looks at nothing that a link of the command's leads to, and no hint follows it.
func TestWatchFollowsNoLink(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		key := u.Write(filepath.Join(u.Home, ".ssh/id_rsa"), "key\n")
		r := u.Bourn("run", "--watch", "--", "sh", "-c", "ln -s "+key+" build.cfg; cat build.cfg; cat "+key+"; true")
		if strings.Contains(r.Err, "build.cfg: ") && strings.Contains(r.Err, "refused: read "+u.Path("build.cfg")) {
			t.Errorf("a link of the command's is judged by where it leads:\n%s", r.Err)
		}
		if !strings.Contains(r.Err, "refused: read "+key+": not granted") {
			t.Errorf("the refusal of the file itself is missing:\n%s", r.Err)
		}
	})
}

// What explain says inside is what happens, also where a granted name leads to the host.
func TestExplainInsideResolves(t *testing.T) {
	addrs, err := net.LookupHost("localhost.localdomain")
	if err != nil || len(addrs) == 0 || !net.ParseIP(addrs[0]).IsLoopback() {
		t.Skip("localhost.localdomain does not lead to this host here")
	}
	u := runtest.NewUser(t, os.Getuid())
	r := u.Bourn("run", "--host", "localhost.localdomain", "--", "bourn", "explain", "connect", "localhost.localdomain")
	if r.Status != 3 || !strings.Contains(r.Out, "denied: ") || !strings.Contains(r.Out, "loopback") {
		t.Errorf("status %d, printed\n%s", r.Status, r.Out)
	}
}
