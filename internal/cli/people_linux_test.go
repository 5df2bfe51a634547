package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/internal/audit"
	"bourn/internal/run"
	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// A host has accounts, a workspace, mounts and processes of its own: scripts run as root in
// namespaces that are made for them, with directories of the test at /etc and /var/lib.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T) host {
	t.Helper()
	runtest.Need(t, "root", os.Geteuid() == 0)
	h := host{t, t.TempDir()}
	for at, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\njoe:x:1000:1000::/:/bin/sh\n", "etc/shadow": "root:*:1:0:99999:7:::\njoe:*:1:0:99999:7:::\n",
		"etc/group": "root:x:0:\njoe:x:1000:\n", "etc/gshadow": "root:*::\njoe:!::\n", "lib/keep": "",
	} {
		h.write(at, text)
	}
	at := filepath.Join(h.dir, "usr/bin/bourn")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, runtest.Binary(t), at)
	return h
}

func (h host) write(at, text string) {
	h.t.Helper()
	at = filepath.Join(h.dir, at)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// ofItsOwn makes the host before a script is executed there.
const ofItsOwn = `
[ $$ = 1 ] || { echo 'this would change the machine'; exit 99; }
mount --make-rprivate / &&
mount --bind "$D/etc" /etc && mount --bind "$D/lib" /var/lib && mount -t proc proc /proc || exit 98
exec sh -c "$SCRIPT"`

// do executes a script, with bourn in PATH, and returns what it prints on standard output.
func (h host) do(script string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", ofItsOwn)
	cmd.Env = []string{"PATH=" + h.dir + "/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + h.dir, "D=" + h.dir, "SCRIPT=" + script}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		stderr := []byte(nil)
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			stderr = exit.Stderr
		}
		h.t.Fatalf("%v\n%s\n%s", err, out, stderr)
	}
	return string(out)
}

// What a person runs ends when they lose something, and nothing else does. Each workspace root is a mount.
func TestPeopleOnAHost(t *testing.T) {
	h := newHost(t)
	out := h.do(`set -e
bourn people add ann --circle sales 2>/dev/null && exit 1
bourn people circle add sales >/etc/said
bourn people add ann --circle sales >>/etc/said
echo mounts $(grep -c ' /var/lib/bourn/workspace/[^ ]* ' /proc/self/mountinfo)
setpriv --reuid=66017 --regid=66017 --groups=66001,66016 sleep 600 & A=$!
setpriv --reuid=1000 --regid=1000 --clear-groups sleep 600 & J=$!
until grep -q '^Uid:.66017' /proc/$A/status && grep -q '^Uid:.1000' /proc/$J/status; do :; done
bourn people circle join sales ann >/dev/null; kill -0 $A && echo a join ends nothing
bourn people circle leave sales ann | grep -v registry
wait $A || echo ann $?
kill -0 $J && echo joe lives
bourn people sync`)
	want := `mounts 6
a join ends nothing
person 'ann' is not in circle 'sales'
  done: remove-member bc_person_jgiv4dl5jn from bc_circle_4bhlfeba5k
  done: stop what bc_person_jgiv4dl5jn (66017) runs
  done: re-own what bc_person_jgiv4dl5jn (66017) owns in /var/lib/bourn/workspace/circles/sales
ann 137
joe lives
the host is as it should be
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
}

// The log is the service's, so who is the service can put anything in its place.
func TestPeopleLog(t *testing.T) {
	h := newHost(t)
	h.do(`set -e
bourn people init
bourn people add ann --email ann@example.com
bourn people sync
bourn people circle add sales --dry-run
cp /var/lib/bourn/workspace/.bourn/journal.jsonl /etc/journal
stat -c '%U %a' /var/lib/bourn/workspace/.bourn/journal.jsonl >/etc/owner
rm /var/lib/bourn/workspace/.bourn/journal.jsonl
echo precious >/etc/precious
for planted in journal.jsonl journal.jsonl.lock; do
  ln -sf /etc/precious /var/lib/bourn/workspace/.bourn/$planted
  ! bourn people add bob 2>>/etc/said
  ln -sf /etc/created /var/lib/bourn/workspace/.bourn/$planted
  ! bourn people add bob 2>>/etc/said
  rm /var/lib/bourn/workspace/.bourn/$planted
done
ln -s /etc/created /var/lib/bourn/workspace/.bourn/journal.jsonl
bourn people remove ann --yes 2>/etc/taken`)
	entries := strings.Split(strings.TrimSpace(h.read("etc/journal")), "\n")
	var e audit.Entry
	if err := json.Unmarshal([]byte(entries[0]), &e); err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if e.Kind != audit.KindChange || e.Who != "uid:0" || e.What != "person added" || e.Target != "ann bc_person_jgiv4dl5jn" {
		t.Errorf("%+v", e)
	}
	if owner := h.read("etc/owner"); owner != "bourn 600\n" {
		t.Errorf("the journal is of %s", owner)
	}
	if h.read("etc/precious") != "precious\n" {
		t.Error("what a link led to was written")
	}
	if _, err := os.Lstat(filepath.Join(h.dir, "etc/created")); err == nil {
		t.Error("what a link led to was made")
	}
	if n := strings.Count(h.read("etc/said"), "nothing is given that is not noted"); n != 4 {
		t.Errorf("%d refusals\n%s", n, h.read("etc/said"))
	}
	if strings.Contains(h.read("etc/bourn/identities.json"), "bob") {
		t.Error("bob was added")
	}
	if said := h.read("etc/taken"); !strings.Contains(said, "not noted in the log") || !strings.Contains(h.read("etc/shadow"), "bc_person_jgiv4dl5jn:!*:") {
		t.Errorf("ann is not removed: %s", said)
	}
}

func (h host) read(at string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, at))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// listed is what bourn people list --json says.
type listed struct {
	People []struct {
		ID, User string
		UID      uint32
		Ready    bool
	}
}

func (h host) listed(out string) listed {
	h.t.Helper()
	var l listed
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	uids := map[uint32]bool{}
	for _, q := range l.People {
		if uids[q.UID] || !q.Ready {
			h.t.Errorf("%+v: a number twice, or not ready", q)
		}
		uids[q.UID] = true
	}
	return l
}

// Commands at once wait for each other: everybody has a number of their own.
func TestPeopleAtOnce(t *testing.T) {
	h := newHost(t)
	out := h.do(`
for i in 1 2 3 4 5 6 7 8; do bourn people add p$i >/dev/null & done
bourn people circle add sales >/dev/null &
wait
bourn people sync >&2 && bourn people sync --dry-run >/etc/well && bourn people list --json`)
	if l := h.listed(out); len(l.People) != 8 {
		t.Errorf("%+v", l)
	}
	if h.read("etc/well") != "the host is as it should be\n" {
		t.Error(h.read("etc/well"))
	}
}

// A command that ended anywhere is finished by the next sync.
func TestPeopleInterrupted(t *testing.T) {
	h := newHost(t)
	out := h.do(`
i=0
for after in 0.002 0.004 0.006 0.008 0.01 0.015 0.02 0.03 0.05; do
  for how in INT KILL; do i=$((i+1)); timeout -s $how $after bourn people add p$i; done >/dev/null 2>&1
done
chmod 777 /var/lib
bourn people add last >/etc/half 2>/etc/said && exit 1
chmod 755 /var/lib
bourn people sync >/dev/null && bourn people sync --dry-run >/etc/well && bourn people list --json`)
	l := h.listed(out)
	if n := len(l.People); n == 0 || l.People[n-1].ID != "last" {
		t.Errorf("%+v", l)
	}
	t.Logf("%d of 18 were added", len(l.People)-1)
	if h.read("etc/well") != "the host is as it should be\n" {
		t.Error(h.read("etc/well"))
	}
	if said := h.read("etc/said"); !strings.Contains(said, "; then: bourn people sync") || !strings.Contains(said, "/var/lib") {
		t.Error(said)
	}
	if half := h.read("etc/half"); !strings.Contains(half, "done: create-user") || strings.Contains(half, "write-registry") {
		t.Error(half)
	}
}

// The checkup of a shared host.
func TestPeopleDoctor(t *testing.T) {
	h := newHost(t)
	h.write("usr/libexec/bourn/bourn-posix-helper", "helper\n")
	dec := json.NewDecoder(strings.NewReader(h.do(`
H=$D/usr/libexec/bourn/bourn-posix-helper
bourn doctor --json
bourn people add ann >/dev/null; bourn doctor --json
chown 0:66000 $H; chmod 4750 $H; bourn doctor --json
chmod 4755 $H; bourn doctor --json
chmod 4750 $H; mount -o bind,nosuid $D/usr $D/usr; bourn doctor --json
echo joe:66000:9 >/etc/subuid; rm -r /var/lib/bourn/workspace/skills 2>/dev/null; chmod 700 /var/lib/bourn/workspace; bourn doctor --json
echo '{}' >/etc/bourn/people.json; bourn doctor --json
exit 0`)))
	for i, want := range []map[string]run.Health{
		{"people": "", "helper": "", "/proc": ""}, // nobody shares it
		{"people": run.Healthy, "accounts": run.Healthy, "helper": run.Unhealthy, "service": run.Untold, "/tmp": run.Healthy},
		{"helper": run.Healthy},
		{"helper": run.Unhealthy},
		{"helper": run.Unhealthy, "accounts": run.Healthy},
		{"accounts": run.Unhealthy, "people": run.Healthy},
		{"people": run.Unhealthy, "helper": run.Unhealthy},
	} {
		var c run.Checkup
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		for name, state := range want {
			at := slices.IndexFunc(c.Checks, func(c run.Check) bool { return c.Name == name })
			switch {
			case at < 0 && state == "":
			case at < 0 || c.Checks[at].State != state:
				t.Errorf("%d: %s must be %q: %+v", i, name, state, c.Checks)
			case state == run.Unhealthy && c.Checks[at].Mend == "":
				t.Errorf("%d: %s has no mend", i, name)
			}
		}
	}
}
