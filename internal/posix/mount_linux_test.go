package posix

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"bourn/internal/run/runtest"
)

const childEnv = "BOURN_POSIX_TEST"

// TestMounts runs TestInNamespace in user and mount namespaces of its own.
func TestMounts(t *testing.T) {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	cmd := exec.Command("/proc/self/exe", "-test.count=1", "-test.run=^TestInNamespace$", "-test.v")
	cmd.Env = []string{childEnv + "=" + mine, "TMPDIR=" + t.TempDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	started := new(exec.ExitError)
	runtest.Need(t, "userns", err == nil || errors.As(err, &started))
	if err != nil || !strings.Contains(string(out), "--- PASS: TestInNamespace") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Workspace roots become mounts of their own, once, so that no hard link leaves one; and are undone.
func TestInNamespace(t *testing.T) {
	parents := os.Getenv(childEnv)
	if parents == "" {
		t.Skip("run by TestMounts")
	}
	if mine, err := os.Readlink("/proc/self/ns/mnt"); err != nil || mine == parents {
		t.Fatalf("not in a mount namespace of its own: %q, %v", mine, err)
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")) // as systemd has it; nobody else is in these groups
	root := t.TempDir()
	circle, private := "/w/circles/sales", "/w/private/people/ann"
	for _, dir := range []string{circle + "/sub", private} {
		must(t, os.MkdirAll(root+dir, 0o755))
	}
	must(t, os.WriteFile(root+circle+"/f", []byte("team"), 0o644))
	link := func(name string) error { return os.Link(root+circle+"/f", root+private+"/"+name) }
	if err := link("before"); err != nil {
		t.Fatalf("the test's own place does not link: %v", err)
	}
	opts := Options{Root: root}
	changes := []Change{{Do: Mount, Path: circle}, {Do: Mount, Path: private}}
	for range 3 {
		if _, err := Perform(changes, opts); err != nil {
			t.Fatal(err)
		}
	}
	if err := link("during"); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("a hard link left its circle: %v", err)
	}
	if err := os.Link(root+circle+"/f", root+circle+"/sub/g"); err != nil {
		t.Errorf("no link within the circle: %v", err)
	}
	lines := mountLines(t, root)
	if len(lines) != 2 || !strings.Contains(lines[0], "nosuid") || !strings.Contains(lines[0], "nodev") {
		t.Errorf("%v", lines)
	}
	alone(t, lines)
	points := map[string]bool{}
	must(t, readFile("/proc/self/mountinfo", func(b []byte) (err error) { points, err = parseMounts(b); return err }))
	if points = below(points, root); len(points) != 2 || !points[circle] || !points[private] {
		t.Errorf("%v", points)
	}
	crossed(t, root, circle)
	must(t, Unmount(opts, []string{private, circle}))
	must(t, Unmount(opts, []string{private, circle}))
	if err := link("after"); err != nil || len(mountLines(t, root)) > 0 {
		t.Errorf("not undone: %v, %v", err, mountLines(t, root))
	}
	must(t, os.Symlink("sales", root+"/w/circles/link"))
	if _, err := Perform([]Change{{Do: Mount, Path: "/w/circles/link"}}, opts); err == nil || len(mountLines(t, root)) > 0 {
		t.Errorf("mounted through a link: %v", err)
	}
}

// alone sees that each mount is shared, so that services that have begun see what is mounted there, and
// that nothing else is in its group.
func alone(t *testing.T, lines []string) {
	t.Helper()
	all := strings.Fields(read(t, "/proc/self/mountinfo"))
	for _, line := range lines {
		group := strings.Fields(line)[6] // the first of the optional fields, proc_pid_mountinfo(5)
		n := 0
		for _, field := range all {
			if field == group {
				n++
			}
		}
		if !strings.HasPrefix(group, "shared:") || n != 1 {
			t.Errorf("%d mounts in the group of %s", n, line)
		}
	}
}

// crossed has re-owning meet another mount of the same file system.
func crossed(t *testing.T, root, circle string) {
	t.Helper()
	outside := filepath.Join(root, "outside")
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.WriteFile(outside+"/f", nil, 0o666))
	must(t, os.Chmod(outside+"/f", 0o666))
	must(t, os.Mkdir(root+circle+"/bound", 0o755))
	must(t, unix.Mount(outside, root+circle+"/bound", "", unix.MS_BIND, ""))
	result, err := Perform([]Change{{Do: Reown, UID: 0, GID: 0, Path: circle}}, Options{Root: root})
	must(t, err)
	must(t, unix.Unmount(root+circle+"/bound", 0))
	if !slices.Equal(result.Left, []Left{{circle + "/bound", "is another mount"}}) {
		t.Errorf("left: %v", result.Left)
	}
	if got := modes(t, outside, "f")["f"]; got != "0:0 0666" {
		t.Errorf("on the other mount: %s", got)
	}
	if got := modes(t, root+circle, "f")["f"]; got != "0:0 0640" && got != "0:0 0660" {
		t.Errorf("on this mount: %s", got)
	}
}

// mountLines returns the lines of mountinfo below root.
func mountLines(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, " "+root+"/") {
			lines = append(lines, line)
		}
	}
	return lines
}
