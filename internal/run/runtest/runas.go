package runtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Account is the name of the account that NewAccount makes.
const Account = "bourn-test"

// AllUsers is Users, and where the test process is root a run that root starts as an
// ordinary user (run_as).
func AllUsers(t *testing.T, f func(t *testing.T, u *User)) {
	t.Helper()
	Users(t, f)
	if os.Getuid() == 0 {
		t.Run("run as", func(t *testing.T) { f(t, NewAccount(t)) })
	}
}

// NewAccount makes the directories of an ordinary user who has an account of this host's,
// for Bourn alone. Root starts Bourn for them, and it runs as that user: run, plan and
// explain are given --run-as. Other commands the user starts.
func NewAccount(t testing.TB, groups ...int) *User {
	t.Helper()
	u := NewUser(t, OrdinaryUID)
	u.RunAs = Account
	line := Account + ":x:" + strconv.Itoa(u.UID) + ":" + strconv.Itoa(u.UID) + "::" + u.Home + ":/bin/sh\n"
	u.Accounts(line, groups...)
	u.must(os.Mkdir(u.Starter(), 0o700))
	u.must(os.Mkdir(u.BournHome(), 0o700))
	return u
}

// Accounts adds lines to the users of the host that Bourn finds, and groups of Account.
func (u *User) Accounts(lines string, groups ...int) {
	u.t.Helper()
	add := func(name, lines string) {
		at := filepath.Join(u.Dir, name)
		data, err := os.ReadFile(at)
		if os.IsNotExist(err) {
			data, err = os.ReadFile(filepath.Join("/etc", name))
		}
		u.must(err)
		u.must(os.WriteFile(at, append(data, lines...), 0o644))
	}
	add("passwd", lines)
	group := Account + ":x:" + strconv.Itoa(u.UID) + ":\n"
	for _, g := range groups {
		group += "bourn-g" + strconv.Itoa(g) + ":x:" + strconv.Itoa(g) + ":" + Account + "\n"
	}
	add("group", group)
}

// Starter is the home of the root who starts Bourn, BournHome the $BOURN_HOME.
func (u *User) Starter() string   { return filepath.Join(u.Dir, "starter") }
func (u *User) BournHome() string { return filepath.Join(u.Dir, "bourn") }

// AsRoot returns a command of Bourn's that root starts where the accounts exist, in a mount
// namespace of its own.
func (u *User) AsRoot(ctx context.Context, args ...string) *exec.Cmd {
	const script = `mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/group" /etc/group && shift && exec "$@"`
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "sh", u.Dir, Binary(u.t)}, args...)...)
	cmd.Dir, cmd.Env = u.Work, append(append([]string{}, u.Env...), "HOME="+u.Starter(), "BOURN_HOME="+u.BournHome())
	apart(cmd)
	return cmd
}

// runAs returns the arguments of Bourn with --run-as where it takes it.
func (u *User) runAs(args []string) []string {
	if len(args) > 0 && (args[0] == "run" || args[0] == "plan" || args[0] == "explain") {
		return append([]string{args[0], "--run-as", u.RunAs}, args[1:]...)
	}
	return args
}
