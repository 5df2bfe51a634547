package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/posix"
	"bourn/internal/run"
)

// files are what stands in a process file system; what is not there cannot be read.
type files map[string]string

func (f files) read(at string) ([]byte, error) {
	if text, ok := f[at]; ok {
		return []byte(text), nil
	}
	return nil, os.ErrNotExist
}

// holds sees that a check has a state and says something, and how it is mended where it is not well.
func holds(t *testing.T, c run.Check, state run.Health, says string) {
	t.Helper()
	if c.State != state || !strings.Contains(c.Detail+"\n"+c.Mend, says) || state == run.Unhealthy && c.Mend == "" {
		t.Errorf("must be %q and say %q: %+v", state, says, c)
	}
}

func TestProtectedFiles(t *testing.T) {
	all := files{}
	for _, s := range protections {
		all["/proc/sys/fs/"+s.name] = "1\n"
	}
	holds(t, protectedFiles(all.read), run.Healthy, "protected_fifos = 1")
	all["/proc/sys/fs/protected_hardlinks"] = "0\n"
	holds(t, protectedFiles(all.read), run.Unhealthy, "sysctl -w fs.protected_hardlinks=1")
	all["/proc/sys/fs/protected_hardlinks"], all["/proc/sys/fs/protected_regular"] = "1\n", "2\n"
	holds(t, protectedFiles(all.read), run.Healthy, "protected_regular = 2")
	delete(all, "/proc/sys/fs/protected_regular")
	holds(t, protectedFiles(all.read), run.Untold, "cannot be read")
}

func TestProcCheck(t *testing.T) {
	const mount = "22 27 0:21 / /proc rw,nosuid shared:5 - proc proc rw"
	for _, tt := range []struct {
		text  string
		who   service
		state run.Health
		says  string
	}{
		{mount + "\n", service{105, 108, true}, run.Healthy, "gid=108 /proc hides them"},
		{mount + "\n", service{}, run.Healthy, "sees its own"},
		{mount + ",hidepid=2\n", service{105, 108, true}, run.Unhealthy, "remount,hidepid=2,gid=108"},
		{mount + ",hidepid=invisible,gid=108\n", service{105, 108, true}, run.Healthy, "but for the service's group"},
		{mount + ",gid=4,hidepid=invisible\n", service{105, 108, true}, run.Unhealthy, "gid=108"},
		{mount + ",hidepid=1\n", service{}, run.Untold, "not known"},
		{mount + ",hidepid=off\n", service{}, run.Healthy, ""},
		{mount + ",hidepid=2\n" + mount + "\n", service{105, 108, true}, run.Healthy, ""}, // mounted over
		{mount + "\n23 27 0:4 / /srv/proc rw - proc proc rw,hidepid=2\n", service{105, 108, true}, run.Healthy, ""},
	} {
		holds(t, procCheck(files{"/proc/self/mountinfo": tt.text}.read, tt.who), tt.state, tt.says)
	}
	holds(t, procCheck(files{}.read, service{}), run.Untold, "not exist")
}

func TestRunningService(t *testing.T) {
	status := func(name, uid, privileges string) string {
		return "Name:\t" + name + "\nUid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\nNoNewPrivs:\t" + privileges + "\n"
	}
	s := service{105, 108, true}
	bournd := files{"/proc/7/status": status("bournd", "105", "1"), "/proc/7/cmdline": "bournd\x00serve\x00"}
	pids := []string{"7", "8", "9"}
	holds(t, runningService(files{}.read, pids, s), run.Untold, "systemctl start bourn.service")
	holds(t, runningService(bournd.read, pids, s), run.Untold, "process 7, has no process that starts the helper")
	bournd["/proc/8/cmdline"] = "/proc/self/exe\x00helper-runner\x00"
	bournd["/proc/8/status"] = status("exe", "105", "0")
	holds(t, runningService(bournd.read, pids, s), run.Healthy, "process 8")
	bournd["/proc/8/status"] = status("exe", "105", "1")
	holds(t, runningService(bournd.read, pids, s), run.Unhealthy, "no_new_privs")
	bournd["/proc/8/status"] = status("exe", "1000", "0") // somebody else's
	holds(t, runningService(bournd.read, pids, s), run.Untold, "process 7")
}

func TestUnitCheck(t *testing.T) {
	well := ""
	for name, value := range breaking {
		well += name + "=" + value + "\n"
	}
	holds(t, unitCheck([]byte(well)), run.Healthy, "lets the helper work")
	holds(t, unitCheck([]byte(strings.Replace(well, "SystemCallFilter=", "SystemCallFilter=~", 1))), run.Healthy, "lets the helper work")
	holds(t, unitCheck([]byte(strings.Replace(well, "SystemCallFilter=", "SystemCallFilter=~mount", 1))), run.Unhealthy, "SystemCallFilter=mount")
	holds(t, unitCheck([]byte(strings.Replace(well, "ProtectClock=no", "ProtectClock=yes", 1))), run.Unhealthy, "ProtectClock=yes")
	holds(t, unitCheck([]byte(strings.Replace(well, "SystemCallFilter=", "SystemCallFilter=read", 1))), run.Unhealthy, "SystemCallFilter=read")
}

func TestStickyCheck(t *testing.T) {
	holds(t, stickyCheck("/no/such"), run.Untold, "/no/such")
	at := t.TempDir()
	if err := os.Chmod(at, 0o777); err != nil { //nolint:gosec // that is what is looked for
		t.Fatal(err)
	}
	holds(t, stickyCheck(at), run.Unhealthy, "chmod 1777 "+at)
}

// A range that is not free is answered by one that is, as long as nobody has a number.
func TestRangeHint(t *testing.T) {
	const otherwise = "take another range before the first person is added, or change /etc/subuid"
	host := posix.Host{Workspace: posix.DefaultWorkspace}
	sub := func(first uint32) posix.SubID { return posix.SubID{Owner: "joe", Start: first, Count: 1000} }
	for _, tt := range []struct {
		given bool
		subs  []posix.SubID
		want  string
	}{
		{false, []posix.SubID{sub(66500)}, "bourn people init --range 1880000000-1880099999, or change /etc/subuid"},
		{false, []posix.SubID{sub(66500), sub(1880000000)}, "bourn people init --range 60578-61183, or change /etc/subuid"},
		{false, []posix.SubID{sub(66500), sub(1880000000), sub(60500)}, otherwise},
		{true, []posix.SubID{sub(66500)}, "change /etc/subuid"},
	} {
		host.SubUIDs = tt.subs
		if got := (&people{given: tt.given}).rangeHint(host, otherwise); got != tt.want {
			t.Errorf("%v: %s", tt.subs, got)
		}
	}
}

func TestReadRange(t *testing.T) {
	if r, err := readRange("5-7"); err != nil || r != (posix.Range{First: 5, Last: 7}) {
		t.Error(r, err)
	}
	for _, text := range []string{"", "5", "5-", "-7", "5-7-9", "a-b", " 5-7", "5-4294967296", "0x5-7", "+5-7"} {
		if _, err := readRange(text); !errors.Is(err, bourn.ErrInvalid) || bourn.HintOf(err) == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
