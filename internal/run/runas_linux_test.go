package run_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"
)

// Groups of the account besides its own.
const (
	groupA = 23451
	groupB = 23455
)

// account returns a user whom root's runs become.
func account(t *testing.T) *runtest.User {
	t.Helper()
	runtest.Need(t, "root", os.Getuid() == 0)
	return runtest.NewAccount(t, groupA, groupB)
}

// rootFile makes a file of root's in the user's work directory.
func rootFile(t *testing.T, u *runtest.User, rel string, gid int, mode os.FileMode) string {
	t.Helper()
	at := u.Path(rel)
	for _, err := range []error{os.WriteFile(at, []byte(secret), 0o600), os.Lchown(at, 0, gid), os.Chmod(at, mode)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func owner(t *testing.T, at string) (uid, gid int) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(at, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid), int(st.Gid)
}

// What the run makes is the user's, and it reads what the user may read: by owner, by each of
// the groups, and nothing more.
func TestRunAsRights(t *testing.T) {
	u := account(t)
	rootFile(t, u, "mine", 0, 0o600)
	rootFile(t, u, "shared", groupB, 0o640)
	rootFile(t, u, "kept-from-the-group", groupA, 0o604)
	if err := os.Mkdir(u.Path("closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	rootFile(t, u, "closed/open", 0, 0o644)
	got := try(t, u, nil, "read mine", "read shared", "read kept-from-the-group", "read closed/open", "list closed", "create made", "mkdir dir", "write mine x",
		"chmod mine", "chown mine", "ids", "read /proc/self/status", "read /proc/self/uid_map", "openw /proc/self/uid_map", "openw /proc/self/gid_map", "openw /proc/self/setgroups")
	got.are(t, "ok*", "read shared", "create made", "mkdir dir")
	got.refused(t, "read mine", "read kept-from-the-group", "read closed/open", "list closed", "write mine x", "chmod mine", "chown mine",
		"openw /proc/self/uid_map", "openw /proc/self/gid_map", "openw /proc/self/setgroups")
	got.are(t, fmt.Sprintf("ok %d %d %d %d", u.UID, u.UID, u.UID, u.UID), "ids")
	for _, name := range []string{"made", "dir"} {
		if uid, gid := owner(t, u.Path(name)); uid != u.UID || gid != u.UID {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
	status := ended(t, u.Sh("cat /proc/self/status"))
	for _, want := range []string{fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", u.UID), fmt.Sprintf("Gid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", u.UID),
		fmt.Sprintf("Groups:\t%d %d %d \n", u.UID, groupA, groupB), "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(status, want) {
			t.Errorf("%q is not in the status inside: %s", want, status)
		}
	}
}

// Nothing leads back to root, which is mapped inside: no call, no program, no capability of a
// file, no namespace.
func TestRunAsNoWayBack(t *testing.T) {
	u := account(t)
	data, err := os.ReadFile(probe(t))
	if err != nil {
		t.Fatal(err)
	}
	setuid, capable := u.Path("setuid"), u.Path("capable")
	for _, at := range []string{setuid, capable} {
		if err := os.WriteFile(at, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Version 2 of the attribute (linux/capability.h): CAP_SETUID, effective.
	attribute := append([]byte{1, 0, 0, 2, 1 << 7}, make([]byte, 15)...)
	if err := syscall.Setxattr(capable, "security.capability", attribute, 0); err != nil {
		runtest.Need(t, "file capabilities", false)
	}
	if err := os.Chmod(setuid, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	asSetuid, asCapable := "run "+setuid+" try ids", "run "+capable+" try setuid"
	if out := outside(t, u, asSetuid, asCapable); !strings.Contains(out[asSetuid], fmt.Sprint(u.UID, 0)) || !strings.Contains(out[asCapable], `"setuid":"ok`) {
		t.Fatalf("the programs give nothing outside either: %q", out)
	}
	got := try(t, u, nil, "setuid", "setgid", "groups", "run /bin/su -c id", asSetuid, asCapable, "run "+setuid+" try setuid", "unshare user", "ptrace 1", "kill 1", "list /proc/1/root")
	got.refused(t, "setuid", "setgid", "groups", "unshare user", "ptrace 1", "kill 1", "list /proc/1/root")
	if want := fmt.Sprintf("ok %d %d %d %d", u.UID, u.UID, u.UID, u.UID); !strings.Contains(got[asSetuid], want) {
		t.Errorf("a set-user-ID copy runs as %s", got[asSetuid])
	}
	for _, op := range []string{asCapable, "run " + setuid + " try setuid"} {
		if strings.Contains(got[op], `"setuid":"ok`) {
			t.Errorf("%s: %s", op, got[op])
		}
	}
	if strings.Contains(got["run /bin/su -c id"], "uid=0") {
		t.Errorf("su: %s", got["run /bin/su -c id"])
	}
}

// A nested namespace has the user's own id to map, not root's.
func TestRunAsNested(t *testing.T) {
	u := account(t)
	if out := u.Do("unshare", "-Ur", "true"); out.Status != 0 {
		runtest.Need(t, "userns", false)
	}
	rootFile(t, u, "mine", 0, 0o600)
	runAgent(t, u, "nested", "sandbox: {nested: true}\nfilesystem: {write: ["+u.Work+"]}\n")
	r := u.Bourn("run", "-q", "--agent", "nested", "--", "sh", "-c",
		`unshare -Ur sh -c 'cat /proc/self/uid_map; cat mine'; unshare -U sh -c 'echo 0 0 1 > /proc/self/uid_map && echo MAPPED'; true`)
	noSecret(t, "a nested namespace", r.Out)
	if f := strings.Fields(r.Out); len(f) < 3 || f[1] != strconv.Itoa(u.UID) || strings.Contains(r.Out, "MAPPED") {
		t.Errorf("out %q, err %q", r.Out, r.Err)
	}
}

// runAgent makes an agent in root's $BOURN_HOME, with a home that nobody has used.
func runAgent(t *testing.T, u *runtest.User, name, rest string) string {
	t.Helper()
	dir := filepath.Join(u.BournHome(), "agents", name)
	for _, at := range []string{filepath.Join(u.BournHome(), "agents"), dir, filepath.Join(dir, "home")} {
		if err := os.Mkdir(at, 0o700); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "profile.yaml"), []byte("version: 1\nagent: "+name+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "identity.key"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The home is the user's, with and without an agent, and so are mount points on the way to
// grants in it. ~ of a profile is that home; $BOURN_HOME is nobody's inside.
func TestRunAsHome(t *testing.T) {
	u := account(t)
	src := u.Mkdir(filepath.Join(u.Home, "src/app"))
	const script = `set -e; test "$HOME" = "$1"; test "$USER/$LOGNAME/$SHELL" = bourn-test/bourn-test/bin/sh || test "$USER:$LOGNAME:$SHELL" = bourn-test:bourn-test:/bin/sh
cd; touch own; mkdir d; touch "$TMPDIR/t"; touch src/beside; touch src/app/made; pwd; cat "$2" 2>/dev/null || true`
	key := filepath.Join(u.BournHome(), "agents/homely/identity.key")
	dir := runAgent(t, u, "homely", "run_as: "+u.RunAs+"\nfilesystem: {write: [~/src/app]}\n")
	for _, flags := range [][]string{{"--run-as", u.RunAs, "--write", src}, {"--agent", "homely"}, {"--agent", "homely"}} {
		args := append(append([]string{"run", "-q"}, flags...), "--", "sh", "-c", script, "sh", u.Home, key)
		cmd := u.AsRoot(t.Context(), args...)
		out := ended(t, u.Wait(cmd))
		noSecret(t, "a run with a home", out)
		if strings.TrimSpace(out) != u.Home {
			t.Errorf("%v: HOME is %q", flags, out)
		}
		if uid, gid := owner(t, filepath.Join(src, "made")); uid != u.UID || gid != u.UID {
			t.Errorf("%v: what it made belongs to %d:%d", flags, uid, gid)
		}
		if err := os.RemoveAll(filepath.Join(dir, "home/d")); err != nil {
			t.Fatal(err)
		}
	}
	if uid, _ := owner(t, filepath.Join(dir, "home/own")); uid != u.UID {
		t.Errorf("in the agent's home stands a file of %d", uid)
	}
	if _, err := os.Lstat(filepath.Join(u.Home, "own")); err == nil {
		t.Error("the user's own home was written")
	}
	// The home is the user's now: as root the agent does not start, nor as another.
	u.Accounts("nobody-else:x:23500:23500::" + u.Home + ":/bin/sh\n")
	for _, flags := range [][]string{nil, {"--run-as", "nobody-else"}} {
		runAgent(t, u, "homely", "")
		r := u.Wait(u.AsRoot(t.Context(), append(append([]string{"run", "--agent", "homely"}, flags...), "--", "true")...))
		if r.Status != 125 || !strings.Contains(r.Err, "belongs to another user") || !strings.Contains(r.Err, "chown -Rh") {
			t.Errorf("%v: status %d, err %q", flags, r.Status, r.Err)
		}
	}
}

// Who may become whom.
func TestRunAsRefused(t *testing.T) {
	u := account(t)
	u.Accounts("twin-a:x:23501:23501::/srv/a:/bin/sh\ntwin-b:x:23501:23501::/srv/b:/bin/sh\ntoor:x:0:0::/srv/toor:/bin/sh\n" +
		"twice:x:23502:23502::/srv/c:/bin/sh\ntwice:x:23503:23503::/srv/c:/bin/sh\n23504:x:23505:23505::/srv/e:/bin/sh\nother:x:23504:23504::/srv/f:/bin/sh\nnohome:x:23506:23506:::/bin/sh\n")
	for _, c := range []struct {
		name, said string
		status     int // of bourn plan
	}{
		{"no-such-user", "this host has no such user", 1}, {"64999", "this host has no such user", 1}, {"root", "it is root", 2}, {"0", "it is root", 2},
		{"toor", "it is root", 2}, {"23501", "several accounts have that uid: twin-a, twin-b", 2}, {"twice", "has the name more than once", 2},
		{"23504", "the name of an account with uid 23505", 2}, {"-u", "cannot name a user", 2}, {"a b", "cannot name a user", 2}, {"nohome", "no home directory of its own", 2},
	} {
		for verb, status := range map[string]int{"plan": c.status, "run": 125} {
			r := u.Wait(u.AsRoot(t.Context(), verb, "--run-as="+c.name, "--", "true"))
			if r.Status != status || !strings.Contains(r.Err, c.said) || !strings.Contains(r.Err, "hint: ") || r.Out != "" {
				t.Errorf("%s --run-as %s: status %d, out %q, err %q, want status %d, %q", verb, c.name, r.Status, r.Out, r.Err, status, c.said)
			}
		}
	}
	for _, name := range []string{"twin-a", strconv.Itoa(u.UID)} {
		if r := u.Wait(u.AsRoot(t.Context(), "plan", "--run-as", name)); r.Status != 0 || !strings.Contains(r.Out, "✓ run_as: ") {
			t.Errorf("%s: status %d, out %q, err %q", name, r.Status, r.Out, r.Err)
		}
	}
	runAgent(t, u, "both", "run_as: "+u.RunAs+"\n")
	if r := u.Wait(u.AsRoot(t.Context(), "plan", "--agent", "both", "--run-as", "twin-a")); r.Status != 2 || !strings.Contains(r.Err, "contradict each other") {
		t.Errorf("status %d, err %q", r.Status, r.Err)
	}
}

// A root that may not become somebody else is refused, and so is one whose namespace does not
// have that user; nothing runs as root instead, with an advisory profile neither.
func TestRunAsWeakRoot(t *testing.T) {
	u := account(t)
	has(t, u, "setpriv unshare")
	runAgent(t, u, "weak", "run_as: "+u.RunAs+"\nsandbox: {fail_closed_on_sandbox_error: false}\nfilesystem: {write: ["+u.Work+"]}\n")
	for what, before := range map[string][]string{
		"without CAP_SETUID":    {"setpriv", "--bounding-set", "-setuid,-setgid"},
		"in another namespace":  {"unshare", "--user", "--map-root-user"},
		"without CAP_SETUID, 2": {"setpriv", "--bounding-set", "-setuid"},
		"without CAP_SETGID":    {"setpriv", "--bounding-set", "-setgid"},
	} {
		for verb, status := range map[string]int{"plan": 5, "run": 125} {
			cmd := u.AsRoot(t.Context(), verb, "--agent", "weak", "--", "touch", u.Path("ran"))
			i := slices.Index(cmd.Args, runtest.Binary(t))
			cmd.Args = slices.Insert(cmd.Args, i, before...)
			r := u.Wait(cmd)
			if r.Status != status || !strings.Contains(r.Err, "cannot run as bourn-test") || !strings.Contains(r.Err, "CAP_SETUID") {
				t.Errorf("%s, %s: status %d, out %q, err %q", what, verb, r.Status, r.Out, r.Err)
			}
		}
	}
	if _, err := os.Lstat(u.Path("ran")); err == nil {
		t.Error("the command ran")
	}
}

// Where the seal fails after that, an advisory profile does not let root run the command.
func TestRunAsIsNeverAdvisory(t *testing.T) {
	u := account(t)
	runAgent(t, u, "weak", "run_as: "+u.RunAs+"\nsandbox: {fail_closed_on_sandbox_error: false}\nfilesystem: {write: ["+u.Work+"]}\n")
	cmd := u.AsRoot(t.Context(), "run", "--agent", "weak", "--", "touch", u.Path("ran"))
	cmd.Args = slices.Insert(cmd.Args, slices.Index(cmd.Args, runtest.Binary(t)), nolandlock(t))
	if r := u.Wait(cmd); r.Status != 125 || !strings.Contains(r.Err, "cannot install Landlock") || strings.Contains(r.Err, "ADVISORY") {
		t.Errorf("status %d, err %q", r.Status, r.Err)
	}
	if _, err := os.Lstat(u.Path("ran")); err == nil {
		t.Error("the command ran")
	}
}

// Whatever the starter's umask, what Bourn puts inside can be read, the gate answers, and the
// command has that umask.
func TestRunAsUmask(t *testing.T) {
	u := account(t)
	for _, mask := range []string{"0077", "0022", "0002"} {
		cmd := u.AsRoot(t.Context(), "run", "-q", "--run-as", u.RunAs, "--", "sh", "-c",
			"umask; set -e; mkdir ~/d /tmp/d; cat /etc/passwd /etc/group /run/bourn/report.json >/dev/null; bourn whoami --json | grep run_as; ls / /etc /run/bourn /dev >/dev/null")
		cmd.Args[2] = "umask " + mask + " && " + cmd.Args[2]
		out := ended(t, u.Wait(cmd))
		if !strings.HasPrefix(out, mask+"\n") || !strings.Contains(out, "run_as: bourn-test") {
			t.Errorf("umask %s: %q", mask, out)
		}
	}
}

// The home of an account is where root put it: a symlink of the user's own leads nowhere.
func TestRunAsHomeThroughSymlink(t *testing.T) {
	u := account(t)
	own, roots := filepath.Join(u.Dir, "own"), filepath.Join(u.Dir, "roots")
	if err := os.Symlink(u.Home, roots); err != nil {
		t.Fatal(err)
	}
	u.Symlink(u.Starter(), own)
	u.Accounts("linked:x:23510:23510::" + own + ":/bin/sh\nmoved:x:23511:23511::" + roots + ":/bin/sh\n")
	if r := u.Wait(u.AsRoot(t.Context(), "plan", "--run-as", "linked")); r.Status != 2 || !strings.Contains(r.Err, "through a symlink that is not root's") {
		t.Errorf("status %d, err %q", r.Status, r.Err)
	}
	r := u.Wait(u.AsRoot(t.Context(), "run", "-q", "--run-as", "moved", "--read", u.Work, "--", "sh", "-c", "echo $HOME"))
	if out := ended(t, r); out != u.Home+"\n" {
		t.Errorf("HOME is %q", out)
	}
}

// Agents are made with a user, and a run is saved with it.
func TestRunAsIsKept(t *testing.T) {
	u := account(t)
	for name, args := range map[string][]string{
		"created": {"agent", "create", "created", "--run-as", u.RunAs, "--write", u.Work},
		"saved":   {"run", "-q", "--save", "saved", "--run-as", u.RunAs, "--", "true"},
	} {
		ended(t, u.Wait(u.AsRoot(t.Context(), args...)))
		out := ended(t, u.Wait(u.AsRoot(t.Context(), "run", "-q", "--agent", name, "--", "id", "-u")))
		if out != strconv.Itoa(u.UID)+"\n" {
			t.Errorf("%s: it runs as %s", name, out)
		}
	}
	if r := u.Wait(u.AsRoot(t.Context(), "agent", "create", "no", "--run-as", "no-such-user")); r.Status != 1 {
		t.Errorf("status %d, err %q", r.Status, r.Err)
	}
}

// An ordinary user may name themself alone.
func TestRunAsOfOrdinaryUser(t *testing.T) {
	u := account(t)
	u.Accounts("somebody:x:23507:23507::/srv/a:/bin/sh\n")
	as := func(args ...string) runtest.Result {
		cmd := u.AsRoot(t.Context(), args...)
		i := slices.Index(cmd.Args, runtest.Binary(t))
		cmd.Args = slices.Insert(cmd.Args, i, "setpriv", "--reuid", strconv.Itoa(u.UID), "--regid", strconv.Itoa(u.UID), "--clear-groups")
		cmd.Env = append(cmd.Env, "HOME="+u.Home, "BOURN_HOME="+filepath.Join(u.Home, ".bourn"))
		return u.Wait(cmd)
	}
	has(t, u, "setpriv")
	for _, name := range []string{"somebody", "23507"} {
		for verb, status := range map[string]int{"plan": 3, "run": 125} {
			if r := as(verb, "--run-as", name, "--", "true"); r.Status != status || !strings.Contains(r.Err, "only root may run an agent as another user") {
				t.Errorf("%s %s: status %d, err %q", verb, name, r.Status, r.Err)
			}
		}
	}
	r := as("run", "--run-as", u.RunAs, "--", "sh", "-c", "id -u; bourn whoami")
	if out := ended(t, r); !strings.HasPrefix(out, strconv.Itoa(u.UID)+"\n") || !strings.Contains(out, "✓ run_as: bourn-test ("+strconv.Itoa(u.UID)+")") {
		t.Errorf("out %q, err %q", r.Out, r.Err)
	}
}

// What the user put into their own files leads Bourn, which is root, nowhere that they could
// not go themself.
func TestRunAsConfusesNobody(t *testing.T) {
	u := account(t)
	closed := filepath.Join(u.Dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"open/f": secret, "config": "[user]\n\tname = " + secret + "\n", "npmrc": "registry=https://" + strings.ToLower(secret) + ".example.com/\n"} {
		at := filepath.Join(closed, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	u.Symlink(filepath.Join(closed, "open"), filepath.Join(u.Home, ".codex"))
	u.Symlink(filepath.Join(closed, "config"), filepath.Join(u.Home, ".gitconfig"))
	u.Symlink(filepath.Join(closed, "npmrc"), filepath.Join(u.Home, ".npmrc"))
	u.Symlink(filepath.Join(closed, "made"), filepath.Join(u.Home, ".npm"))
	u.Symlink(filepath.Join(closed, "open"), "link")
	before := tree(t, closed)
	for _, flags := range [][]string{{"--preset", "codex", "--preset", "npm", "--write", u.Work}, {"--read", "link"}} {
		r := u.Bourn(append(append([]string{"run"}, flags...), "--", "sh", "-c", "cat ~/.codex/f "+closed+"/open/f link/f; git config --get user.name; cat /etc/gitconfig; true")...)
		noSecret(t, strings.Join(flags, " "), r.Out)
		plan := u.Bourn(append([]string{"plan", "--json"}, flags...)...)
		noSecret(t, "the plan", plan.Out)
		if strings.Contains(plan.Out, strings.ToLower(secret)) {
			t.Errorf("a registry was read through a symlink: %s", plan.Out)
		}
	}
	unchanged(t, "what the user cannot reach", before, tree(t, closed))
	if r := u.Bourn("plan", "--read", "link"); !strings.Contains(r.Out, "the user of run_as cannot get there") {
		t.Errorf("out %q, err %q", r.Out, r.Err)
	}
	// Root may name it, and then it is shown with its modes.
	got := try(t, u, []string{"--read", filepath.Join(closed, "open")}, "read "+closed+"/open/f", "list "+closed)
	got.are(t, "ok*", "read "+closed+"/open/f")
}

// What a preset makes is the user's.
func TestRunAsPresetMakes(t *testing.T) {
	u := account(t)
	ended(t, u.Bourn("run", "-q", "--preset", "codex", "--write", u.Work, "--", "sh", "-c", "touch ~/.codex/state"))
	for _, name := range []string{".codex", ".codex/state"} {
		if uid, gid := owner(t, filepath.Join(u.Home, name)); uid != u.UID || gid != u.UID {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
}

// A file of /etc that the user cannot read is not copied for them.
func TestRunAsEtc(t *testing.T) {
	u := account(t)
	at := filepath.Join(u.Dir, "group")
	if err := os.Chmod(at, 0o600); err != nil {
		t.Fatal(err)
	}
	try(t, u, nil, "read /etc/group").refused(t, "read /etc/group")
	if err := os.Chmod(at, 0o644); err != nil {
		t.Fatal(err)
	}
	try(t, u, nil, "read /etc/group").are(t, "ok*", "read /etc/group")
}

// Denies, guards and their renewal hold, also in directories that are root's alone.
func TestRunAsDenies(t *testing.T) {
	u := account(t)
	u.Write(".env", secret)
	u.Write("late/.keep", "")
	u.Write(".git/config", "[core]\n")
	u.Write(".git/hooks/pre-commit", "#!/bin/sh\n")
	if err := os.Mkdir(u.Path("roots"), 0o700); err != nil {
		t.Fatal(err)
	}
	rootFile(t, u, "roots/.env", 0, 0o644)
	l := serve(t, u, "--deny", ".env", "--deny", "**/.env", "--deny", "late/secret", "--write", ".")
	for _, op := range []string{"read .env", "unlink .env", "rename .env x", "openw .git/config", "openw .git/hooks/pre-commit", "create .git/hooks/post-commit", "read roots/.env"} {
		if said := l.ask(op); !strings.HasPrefix(said, "E") {
			t.Errorf("%s: %s", op, said)
		}
	}
	u.Write("new", secret)
	if err := os.Rename(u.Path("new"), u.Path(".env")); err != nil {
		t.Fatal(err)
	}
	u.Write("late/secret", secret)
	l.becomes("read .env", "EACCES")
	l.becomes("read late/secret", "EACCES")
	l.finish()
}

// Limits bind the user, --watch says what was out of reach, the terminal is the user's.
func TestRunAsLimitsWatchTerminal(t *testing.T) {
	u := account(t)
	runAgent(t, u, "few", "run_as: "+u.RunAs+"\nlimits: {processes: 8, open_files: 64}\nfilesystem: {write: ["+u.Work+"]}\n")
	cmd := u.AsRoot(t.Context(), "run", "--agent", "few", "--", "sh", "-c", "ulimit -n; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do sleep 60 & done; wait")
	if r := u.Wait(cmd); r.Status == 0 || !strings.HasPrefix(r.Out, "64\n") {
		t.Errorf("more processes than are allowed were made: status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
	beside := u.Mkdir(filepath.Join(u.Dir, "beside"))
	u.Write(beside+"/f", "")
	if r := u.Bourn("run", "--watch", "--write", u.Work, "--", "sh", "-c", "cat "+beside+"/f; true"); !strings.Contains(r.Err, "refused: read "+beside+"/f") {
		t.Errorf("err %q", r.Err)
	}
	s := inTerminal(t, u, runtest.Binary(t), "run", "-q", "--", "sh", "-c", `stat -c 'owner %u' "$(tty)"; echo by name > "$(tty)"; echo end`)
	s.expect("owner " + strconv.Itoa(u.UID))
	s.expect("by name")
	s.expect("end")
}

// When Bourn is killed, nothing of the run is left; and the report says as whom it ran.
func TestRunAsEnds(t *testing.T) {
	u := account(t)
	mark := "bourn-mark-" + filepath.Base(u.Dir)
	u.Env = append(u.Env, "MARK="+mark)
	l := startBourn(t, u, sealed(t, []string{"--env", "MARK", "--report", filepath.Join(u.Dir, "report.json")}, "spin")...)
	l.wait("ready")
	data, err := os.ReadFile(filepath.Join(u.Dir, "report.json"))
	if err != nil || !strings.Contains(string(data), fmt.Sprintf("run_as: %s (%d)", u.RunAs, u.UID)) {
		t.Errorf("the report: %s, %v", data, err)
	}
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of the run is left", func() bool { return len(marked(t, mark)) == 0 })
}

// An agent in the background becomes the user of its profile.
func TestRunAsService(t *testing.T) {
	u := account(t)
	runAgent(t, u, "served", "run_as: "+u.RunAs+"\ncommand: [sh, -c, \"id -u > out; exec sleep 600\"]\nfilesystem: {write: ["+u.Work+"]}\n")
	t.Cleanup(func() { u.Wait(u.AsRoot(context.Background(), "agent", "stop", "served", "--all", "--grace", "0s")) })
	r := u.Wait(u.AsRoot(t.Context(), "agent", "start", "served"))
	if r.Status != 0 {
		t.Fatalf("status %d, out %q, err %q", r.Status, r.Out, r.Err)
	}
	eventually(t, "it has written", func() bool {
		data, err := os.ReadFile(u.Path("out"))
		return err == nil && string(data) == strconv.Itoa(u.UID)+"\n"
	})
	if uid, _ := owner(t, u.Path("out")); uid != u.UID {
		t.Errorf("what it made belongs to %d", uid)
	}
}
