package survey

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestRealMounts runs TestInNamespace in a mount namespace of its own.
func TestRealMounts(t *testing.T) {
	if os.Getenv(childEnv) == "namespace" {
		t.Skip("in the child")
	}
	cmd := exec.Command("/proc/self/exe", "-test.count=1", "-test.run=^TestInNamespace$", "-test.v")
	cmd.Env = []string{childEnv + "=namespace", "TMPDIR=/tmp"}
	for _, ns := range []string{"mnt", "user"} {
		own, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, childEnv+"_"+ns+"="+own)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if started := new(exec.ExitError); err != nil && !errors.As(err, &started) && !strings.Contains(os.Getenv("BOURN_TEST_NEED"), "userns") {
		t.Skipf("no user namespaces: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestInNamespace") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestInNamespace(t *testing.T) {
	if os.Getenv(childEnv) != "namespace" {
		t.Skip("run by TestRealMounts")
	}
	// The parent's namespaces can be read from its own, not from a user namespace below.
	for _, ns := range []string{"mnt", "user"} {
		own, err := os.Readlink("/proc/self/ns/" + ns)
		parents, parentErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", os.Getppid(), ns))
		if parentErr != nil && !errors.Is(parentErr, os.ErrPermission) || err != nil || own == parents || own == os.Getenv(childEnv+"_"+ns) {
			t.Fatalf("not in a %s namespace of its own: %q, %q, %v, %v", ns, own, parents, err, parentErr)
		}
	}
	mount := func(source, target, fstype string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(source, target, fstype, flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE)
	dir := t.TempDir()
	mount("tmpfs", dir, "tmpfs", 0)
	defer unix.Unmount(dir, unix.MNT_DETACH)
	grow(t, dir, "w/p/.env", "w/p/sub/f", "w/p/secret/k", "alias/", "covered/", "over/", "w/p/file", "w/p/target", "odd \n\\name/", "part/", "later/x")
	mount(dir+"/w/p", dir+"/alias", "", unix.MS_BIND)
	mount(dir+"/w/p", dir+"/covered", "", unix.MS_BIND)
	mount("tmpfs", dir+"/covered", "tmpfs", 0)
	mount(dir+"/w/p", dir+"/odd \n\\name", "", unix.MS_BIND)
	mount(dir+"/w/p/secret", dir+"/part", "", unix.MS_BIND)
	mount(dir+"/w/p/file", dir+"/w/p/target", "", unix.MS_BIND) // a file over a file
	mount(dir+"/later", dir+"/over", "", unix.MS_BIND)

	table, err := Mounts()
	if err != nil {
		t.Fatal(err)
	}
	odd := dir + "/odd \n\\name"
	for path, want := range map[string][]string{
		dir + "/w/p/.env":     {dir + "/alias/.env", odd + "/.env"},
		dir + "/w/p/secret/k": {dir + "/alias/secret/k", odd + "/secret/k", dir + "/part/k"},
		dir + "/alias":        {odd, dir + "/w/p"},
		dir + "/covered/x":    nil,
		dir + "/w/p/target":   {dir + "/alias/file", odd + "/file", dir + "/w/p/file"},
	} {
		if diff := cmp.Diff(want, table.Aliases(path)); diff != "" {
			t.Errorf("Aliases(%q): %s", path, diff)
		}
	}
	if diff := cmp.Diff([]string{dir + "/part"}, table.Parts(dir+"/w/p")); diff != "" {
		t.Error(diff)
	}
	if m, ok := table.At(dir + "/covered/x"); !ok || m.FSType != "tmpfs" || m.Root != "/" {
		t.Errorf("%+v", m)
	}

	// Find sees the objects under all their names, also where a mount point's entry bears another number.
	for _, path := range []string{"/w/p/file", "/w/p/secret", "/later", "/w/p"} {
		o, err := Stat(dir + path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Find([]ID{o.ID()}, []string{dir})
		if err != nil || !f.Complete() {
			t.Fatalf("%v, %v", f, err)
		}
		want := sorted(append(table.Aliases(dir+path), dir+path))
		if diff := cmp.Diff(want, paths(f.Objects)); diff != "" {
			t.Errorf("Find(%s): %s", path, diff)
		}
	}
	// Expand crosses mount points.
	g, err := Expand(mustPatterns(t, Escape(dir)+"/**/.env"), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{dir + "/alias/.env", odd + "/.env", dir + "/w/p/.env"}, paths(g[0].Objects)); diff != "" {
		t.Error(diff)
	}
}
