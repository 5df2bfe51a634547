package bourn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/internal/run/runtest"
)

// A machine is a Debian of the test's own: a copy of this one's files that is thrown away,
// in namespaces of its own, with systemd as its first process.
type machine struct {
	t    *testing.T
	pid  string
	host string // the host's mount namespace
}

// boot is the first process until it executes systemd. Nothing is mounted before it has seen
// that the mount namespace is another than the host's ($1). $2 is a directory for what is
// written, $3 the files that the machine gets. /proc/sys and /sys cannot be written: what
// is set there would be the host's.
const boot = `set -eu
[ "$(readlink /proc/self/ns/mnt)" != "$1" ]
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
mkdir -p "$2/upper/etc" "$2/upper/var/lib" "$2/work" "$2/root"
# Whiteouts: what this host's own Bourn has, and changes meanwhile, is not there.
mknod "$2/upper/etc/bourn" c 0 0
mknod "$2/upper/var/lib/bourn" c 0 0
# Of a host where packages may start nothing.
mkdir -p "$2/upper/usr/sbin"
mknod "$2/upper/usr/sbin/policy-rc.d" c 0 0
root=$2/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$2/upper,workdir=$2/work" "$root"
mkdir "$root/given"
cp "$3"/* "$root/given/"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,ro,bind "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/before"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm"
mkdir -p "$root/run/systemd/system"
# What looks after hardware and settings of the kernel has no business here.
for unit in systemd-sysctl systemd-modules-load systemd-udevd systemd-udev-trigger systemd-binfmt systemd-hwdb-update \
  systemd-random-seed systemd-networkd systemd-timesyncd systemd-journal-flush kmod-static-nodes systemd-remount-fs; do
  ln -s /dev/null "$root/run/systemd/system/$unit.service"
done
printf '[Unit]\nRequires=sysinit.target\nAfter=sysinit.target\n' >"$root/run/systemd/system/given.target"
: >"$root/etc/fstab"
cd "$root"
pivot_root . before
umount -l /before
exec setpriv --bounding-set -sys_module,-sys_time,-sys_boot,-sys_rawio,-syslog,-mac_admin,-mac_override,-block_suspend,-wake_alarm \
  env -i container=bourn-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=given.target --log-target=console
`

// start boots a machine with some files in /given. It ends with the test.
func start(t *testing.T, given ...string) machine {
	t.Helper()
	cgroups := ownCgroup(t)
	for _, program := range []string{"/lib/systemd/systemd", "/usr/bin/dpkg", "/usr/bin/nsenter"} {
		_, err := os.Stat(program)
		runtest.Need(t, "systemd", err == nil)
	}
	dir, files := t.TempDir(), t.TempDir()
	for i, from := range given {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(files, fmt.Sprintf("%d.deb", i)), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", boot, "sh", host, dir, files)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWCGROUP,
		UseCgroupFD: true, CgroupFD: int(cgroups.Fd()),
		Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := machine{t, fmt.Sprint(cmd.Process.Pid), host}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the first process: with it all of them end
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the machine said:\n%s", said.String())
		}
	})
	// It is up when its systemd answers. The target needs little; what else fails is no matter.
	for end := time.Now().Add(30 * time.Second); ; {
		state, err := m.command(t.Context(), "systemctl", "is-system-running", "--wait").Output()
		if s := strings.TrimSpace(string(state)); s == "running" || s == "degraded" {
			return m
		}
		if cmd.Process.Signal(syscall.Signal(0)) != nil || time.Now().After(end) {
			t.Fatalf("it does not start: %q, %v\n%s", state, err, said.String())
		}
	}
}

// ownCgroup makes a cgroup that is removed with all that was made below it.
func ownCgroup(t *testing.T) *os.File {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	at := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			at = f[1]
		}
	}
	runtest.Need(t, "cgroup2", at != "")
	dir, err := os.MkdirTemp(at, "bourn-test-")
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		runtest.Need(t, "cgroup2", false)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if err := removeCgroups(dir); err != nil {
			t.Errorf("a cgroup is left: %v", err)
		}
	})
	return f
}

// removeCgroups removes a cgroup and those below it, deepest first. Processes that were killed leave
// theirs a moment later.
func removeCgroups(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, at)
		}
		return err
	})
	for i := len(all) - 1; i >= 0 && err == nil; i-- {
		for end := time.Now().Add(10 * time.Second); ; {
			if err = os.Remove(all[i]); !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
				break
			}
		}
	}
	return err
}

// command is a command in the machine. It looks first whether that is where it stands.
func (m machine) command(ctx context.Context, args ...string) *exec.Cmd {
	const there = `[ "$(readlink /proc/self/ns/mnt)" != "$0" ] && [ -d /given ] || { echo "not in the machine" >&2; exit 97; }; exec "$@"`
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", m.pid, "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--root",
		"--", "env", "--chdir=/", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
		"sh", "-c", there, m.host}, args...)...)
}

// do runs a command that must succeed and returns what it prints.
func (m machine) do(args ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	out, err := m.command(ctx, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (m machine) sh(script string) string {
	m.t.Helper()
	return m.do("sh", "-ec", script)
}

// dpkg runs dpkg. Other packages' triggers, such as the index of manual pages, take long.
func (m machine) dpkg(args ...string) string {
	m.t.Helper()
	return m.do(append([]string{"dpkg", "--no-triggers", "--force-unsafe-io"}, args...)...)
}

// is compares what a script prints with what it must.
func (m machine) is(what, script, want string) {
	m.t.Helper()
	if got := m.sh(script); got != want {
		m.t.Errorf("%s: %s\nnot: %s", what, got, want)
	}
}

const (
	statHelper = "stat -c '%A %U:%G' /usr/libexec/bourn/bourn-posix-helper"
	opened     = "-rwsr-x--- root:bourn"
	theUnits   = "bourn-workspace.service bourn-db.service bourn.service"
)

// untouched returns what a test in a machine may not change on the host.
func untouched(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"/etc/passwd", "/etc/group", "/var/lib/dpkg/status", "/proc/sys/fs/protected_symlinks", "/proc/sys/fs/protected_regular", "/proc/sys/fs/file-max"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// TestMachine looks at what two versions of the package do in machines of their own, and that
// the host is as it was.
func TestMachine(t *testing.T) {
	runtest.Need(t, "root", os.Getuid() == 0)
	before := untouched(t)
	versions := []string{deb(t, "v1.0.0"), deb(t, "v1.0.1")}
	t.Run("install", func(t *testing.T) { testInstalled(t, versions...) })
	t.Run("units", func(t *testing.T) { testUnits(t, versions...) })
	t.Run("host", func(t *testing.T) { testHost(t, versions...) })
	if untouched(t) != before {
		t.Error("the host was changed")
	}
}

// testInstalled installs the package, again, upgrades, removes and purges it, and looks each
// time at what is there.
func testInstalled(t *testing.T, debs ...string) {
	m := start(t, debs...)
	accounts := "getent passwd bourn bourn-db bc_cache | cut -d: -f1,6,7; getent group bc_shared | cut -d: -f1"
	want := "bourn:/var/lib/bourn/workspace/.bourn:/usr/sbin/nologin\nbourn-db:/var/lib/bourn/postgres:/usr/sbin/nologin\n" +
		"bc_cache:/var/lib/bourn/workspace/shared/cache/dependencies:/usr/sbin/nologin\nbc_shared"
	installed := func(what, version string) {
		t.Helper()
		m.is(what+": the version", "dpkg-query -W -f '${Status} ${Version}' bourn", "install ok installed "+version)
		m.is(what+": the helper", statHelper, opened)
		m.is(what+": the accounts", accounts, want)
		m.is(what+": no password", "getent shadow bourn bourn-db bc_cache | cut -d: -f2 | cut -c1 | sort -u", "!")
		m.is(what+": the directories", "stat -c '%A %U:%G %n' /etc/bourn /var/lib/bourn /run/bourn-db",
			"drwxr-xr-x root:root /etc/bourn\ndrwx--x--x root:root /var/lib/bourn\ndrwx--x--- bourn-db:bc_shared /run/bourn-db")
		m.is(what+": nothing runs", "systemctl is-active "+theUnits+" || true", "inactive\ninactive\ninactive")
		m.is(what+": nothing is started at the next boot", "systemctl is-enabled "+theUnits+" || true", "disabled\ndisabled\ndisabled")
	}
	m.dpkg("--install", "/given/0.deb")
	installed("install", "1.0.0")
	m.is("who may execute it", `for u in root bourn bourn-db bc_cache nobody; do setpriv --reuid $u --init-groups test -x /usr/libexec/bourn/bourn-posix-helper && echo $u; done; true`, "root\nbourn")
	m.sh("mkdir -p /var/lib/bourn/workspace; echo kept >/var/lib/bourn/workspace/file; echo mine >>/etc/default/bourn")
	m.dpkg("--install", "/given/0.deb")
	installed("again", "1.0.0")

	// Between unpacking and configuring it is nobody's but root's.
	m.dpkg("--unpack", "/given/1.deb")
	m.is("unpacked", statHelper, "-rwxr-x--- root:root")
	m.dpkg("--configure", "bourn")
	installed("upgrade", "1.0.1")
	m.dpkg("--install", "/given/1.deb")
	installed("upgraded again", "1.0.1")

	m.sh("dpkg-statoverride --add root root 0700 /usr/libexec/bourn/bourn-posix-helper")
	m.dpkg("--install", "/given/1.deb")
	m.is("the administrator's own mode", statHelper, "-rwx------ root:root")
	m.sh("dpkg-statoverride --remove /usr/libexec/bourn/bourn-posix-helper")
	m.dpkg("--install", "/given/1.deb")
	installed("without the override", "1.0.1")

	m.sh("systemctl enable --quiet bourn.service")
	m.dpkg("--remove", "bourn")
	m.is("removed: the programs", "ls /usr/bin/bourn /usr/bin/bournd /usr/libexec/bourn 2>/dev/null || true", "")
	m.is("removed: what is kept", "tail -n1 /etc/default/bourn; cat /var/lib/bourn/workspace/file; getent passwd bourn | cut -d: -f1", "mine\nkept\nbourn")
	m.is("removed: no unit", "ls /etc/systemd/system/*/bourn* 2>/dev/null || true", "")
	if said := m.dpkg("--purge", "bourn"); !strings.Contains(said, "stay in /var/lib/bourn") {
		t.Errorf("purge says\n%s", said)
	}
	m.is("purged", "ls /etc/default/bourn 2>/dev/null || cat /var/lib/bourn/workspace/file", "kept")
	if said := m.dpkg("--purge", "bourn"); strings.Contains(said, "rror") {
		t.Errorf("purge again says\n%s", said)
	}
	m.surroundings()
}

// surroundings looks at what the scripts make of other packages' and people's things. The
// package is not installed before, nor after.
func (m machine) surroundings() {
	m.t.Helper()
	// Without a server the one that comes next makes no cluster; with one, or a file, nothing is changed.
	const conf = "/etc/postgresql-common/createcluster.d/bourn.conf"
	m.sh("rm -rf /usr/lib/postgresql " + conf + "; mkdir -p /etc/apparmor.d/abi; touch /etc/apparmor.d/abi/4.0")
	m.dpkg("--install", "/given/1.deb")
	m.is("no main cluster", "tail -n1 "+conf, "create_main_cluster = false")
	m.is("the profile", "grep -c '^  userns,$' /etc/apparmor.d/bourn; head -n1 /etc/apparmor.d/bourn | cut -d, -f1", "1\n# Installed by the package bourn")
	m.sh("sed -i 's/userns,/userns, # x/' /etc/apparmor.d/bourn")
	m.dpkg("--install", "/given/1.deb")
	m.is("a profile that was changed", "grep -c 'userns, # x' /etc/apparmor.d/bourn", "1")
	m.dpkg("--purge", "bourn")
	m.is("purged: the settings", "ls "+conf+" /etc/apparmor.d/bourn 2>/dev/null || true", "/etc/apparmor.d/bourn")
	m.sh("rm /etc/apparmor.d/bourn")
	m.dpkg("--install", "/given/1.deb")
	m.dpkg("--purge", "bourn")
	m.is("purged: the profile", "ls /etc/apparmor.d/bourn 2>/dev/null || true", "")

	// A person who is called like the service is not made the service.
	m.sh("usermod --uid 1500 bourn")
	out, err := m.command(m.t.Context(), "dpkg", "--no-triggers", "--force-unsafe-io", "--install", "/given/1.deb").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is a person's account") {
		m.t.Errorf("a person becomes the service: %v\n%s", err, out)
	}
	m.is("refused", "ls /usr/bin/bourn 2>/dev/null || true", "")
}
