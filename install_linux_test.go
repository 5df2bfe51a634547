package bourn_test

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// TestInstallHelper installs the setuid helper into a /usr/local and with groups of the test's
// own: it is executable by its group alone, and setuid only where nobody else could exchange it.
func TestInstallHelper(t *testing.T) {
	runtest.Need(t, "root", os.Getuid() == 0)
	runtest.Daemon(t)
	helperProgram(t)
	u := runtest.NewUser(t, 0)
	install, bin := script(t, u, "install.sh"), filepath.Dir(runtest.Binary(t))
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		t.Fatal(err)
	}
	others := regexp.MustCompile(`(?m)^bourn:.*\n`).ReplaceAllString(string(groups), "")
	without, with := u.Write("without", others), u.Write("with", others+"bourn:x:64321:\n")

	const helper = "/usr/local/libexec/bourn/bourn-posix-helper"
	cmd := u.Command(t.Context(), "/bin/sh", "-c", `set -eu
[ "$(readlink /proc/self/ns/mnt)" != "$1" ]
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs /usr/local
look() { echo "= $1"; sh "$install" "$bin/bourn" /usr/local | grep posix-helper; stat -c '%a %u %g' `+helper+`; }
install=$2 bin=$3
mount --bind "$4" /etc/group
look 'no group'
umount /etc/group
mount --bind "$5" /etc/group
look 'the group'
look 'again'
chmod 0755 `+helper+`
look 'a mode that was changed'
chmod 0777 /usr/local/libexec
look 'others can write above it'
sh "$install" --remove bourn /usr/local >/dev/null
echo "= removed"
find /usr/local/libexec
`, "sh", host, install, bin, without, with)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	r := u.Wait(cmd)
	want := `= no group
note: ` + helper + ` is root's alone, as there is no group bourn: ` + "`bourn people sync`" + ` makes that group; install again then, and it is opened to it
installed ` + helper + `
700 0 0
= the group
installed ` + helper + `
4750 0 64321
= again
` + helper + ` is up to date
4750 0 64321
= a mode that was changed
installed ` + helper + `
4750 0 64321
= others can write above it
note: ` + helper + ` is root's alone: others than root can write above it, so it does not become setuid; people's users need a PREFIX that is root's, such as /usr/local
installed ` + helper + `
700 0 0
= removed
/usr/local/libexec
`
	if diff := cmp.Diff(want, r.Out); r.Status != 0 || diff != "" {
		t.Errorf("status %d\n%s\n%s", r.Status, r.Err, diff)
	}
}
