package survey

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// kernelPath is where the kernel itself ends up.
func kernelPath(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func TestResolve(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "a/b/f", "l -> a/b", "up -> ../"+filepath.Base(root)+"/a", "abs -> "+root+"/l/", "loop -> loop", "gone -> /nowhere/x/./y",
		"a/rel -> ../l/f", "slash -> a/b/f/")
	for _, c := range []struct {
		path, real, existing string // relative to root, unless they start with //
		links                []Link
		err                  error
	}{
		{path: "/a/b/f", real: "/a/b/f", existing: "/a/b/f"},
		{path: "/l/f", real: "/a/b/f", existing: "/a/b/f", links: []Link{{"/l", "a/b"}}},
		{path: "/l/../rel", real: "/a/b/f", existing: "/a/b/f", links: []Link{{"/l", "a/b"}, {"/a/rel", "../l/f"}, {"/l", "a/b"}}},
		{path: "/abs/f", real: "/a/b/f", existing: "/a/b/f", links: []Link{{"/abs", root + "/l/"}, {"/l", "a/b"}}},
		{path: "/up/./b//", real: "/a/b", existing: "/a/b", links: []Link{{"/up", "../" + filepath.Base(root) + "/a"}}},
		{path: "/a/x", real: "/a/x", existing: "/a"},
		{path: "/a/x/y/z", real: "/a/x/y/z", existing: "/a"},
		{path: "/l/x/y", real: "/a/b/x/y", existing: "/a/b", links: []Link{{"/l", "a/b"}}},
		{path: "/gone", real: "//nowhere/x/y", existing: "//", links: []Link{{"/gone", "/nowhere/x/./y"}}},
		{path: "/gone/z", real: "//nowhere/x/y/z", existing: "//", links: []Link{{"/gone", "/nowhere/x/./y"}}},
		{path: "/a/b/f/x", real: "/a/b/f/x", existing: "/a/b/f"},
		{path: "/loop", err: syscall.ELOOP},
		{path: "/loop/x", err: syscall.ELOOP},
		{path: "/x/../a", err: errParentOfMissing},
		{path: "/a/b/f/", err: syscall.ENOTDIR},
		{path: "/a/b/f/..", err: syscall.ENOTDIR},
		{path: "/slash", err: syscall.ENOTDIR},
		{path: "/" + strings.Repeat("n", 256), err: syscall.ENAMETOOLONG},
		{path: "//proc/self/fd/0", err: syscall.ELOOP},
		{path: "//proc/self/root/etc", err: syscall.ELOOP},
		{path: "//../..", real: "//", existing: "//"},
	} {
		at := func(p string) string {
			if rest, ok := strings.CutPrefix(p, "//"); ok {
				return "/" + rest
			}
			return root + p
		}
		got, err := Resolve(at(c.path))
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("Resolve(%q) = %+v, %v, want %v", c.path, got, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("Resolve(%q): %v", c.path, err)
			continue
		}
		for i := range c.links {
			c.links[i].At = at(c.links[i].At)
		}
		want := Resolution{Real: at(c.real), Existing: at(c.existing), Exists: c.real == c.existing, Links: c.links, Object: got.Object}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Resolve(%q): %s", c.path, diff)
		}
		if got.Object.Path != got.Real || (got.Object.Type == Missing) == got.Exists {
			t.Errorf("Resolve(%q): object %+v", c.path, got.Object)
		}
	}
	for _, bad := range []string{"", "a", "~/x", "/a\x00b"} {
		if _, err := Resolve(bad); err == nil {
			t.Errorf("Resolve(%q) succeeded", bad)
		}
	}
	if r, err := Resolve("/proc/self/status"); err != nil || r.Real != fmt.Sprintf("/proc/%d/status", os.Getpid()) {
		t.Errorf("/proc/self is an honest link: %+v, %v", r, err)
	}
}

func TestResolveRefused(t *testing.T) {
	ordinary(t)
	root := realTemp(t)
	grow(t, root, "closed/f", "l -> closed/f")
	os.Chmod(root+"/closed", 0o600)
	defer os.Chmod(root+"/closed", 0o755)
	for _, p := range []string{"/closed/f", "/closed/missing", "/closed/..", "/closed/.", "/l"} {
		if r, err := Resolve(root + p); !errors.Is(err, syscall.EACCES) {
			t.Errorf("Resolve(%q) = %+v, %v", p, r, err)
		}
		if _, err := Stat(root + p); p != "/l" && !errors.Is(err, syscall.EACCES) {
			t.Errorf("Stat(%q) = %v", p, err)
		}
	}
	if _, err := Resolve(root + "/closed/"); err != nil {
		t.Error(err)
	}
}

// TestResolveLimit follows as many links as the kernel does, and no more.
func TestResolveLimit(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "f", "l0 -> f")
	for i := 1; i <= 45; i++ {
		grow(t, root, fmt.Sprintf("l%d -> l%d", i, i-1))
	}
	for i := 35; i <= 45; i++ {
		path := fmt.Sprintf("%s/l%d", root, i)
		_, kernel := kernelPath(path)
		if _, err := Resolve(path); !errors.Is(err, kernel) {
			t.Errorf("%d links: %v, kernel: %v", i+1, err, kernel)
		}
	}
}

// TestResolveKernel compares with the kernel and filepath.EvalSymlinks; what is missing must come to be where it was foretold.
func TestResolveKernel(t *testing.T) {
	outcomes := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		root := filepath.Join(t.TempDir(), "w")
		if err := os.Mkdir(root, 0o755); err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		dirs := drawTree(rt, root)
		for range 10 {
			path := rapid.SampledFrom(dirs).Draw(rt, "dir") + "/" +
				strings.Join(rapid.SliceOfN(rapid.SampledFrom(append([]string{"..", ".", "", "missing"}, treeNames...)), 0, 5).Draw(rt, "path"), "/")
			r, err := Resolve(path)
			if d, ok := direct(path); ok && absolute(path) {
				outcomes["direct"]++
				if slow, err := resolve(path); err != nil || cmp.Diff(d, slow) != "" {
					rt.Fatalf("direct(%q) = %+v, step by step it is %+v, %v", path, d, slow, err)
				}
			}
			want, kernel := kernelPath(path)
			if kernel == nil {
				outcomes["exists"]++
				if err != nil || !r.Exists || r.Real != want {
					rt.Fatalf("Resolve(%q) = %+v, %v, kernel: %q", path, r, err, want)
				}
				if eval, err := filepath.EvalSymlinks(path); err != nil || eval != r.Real {
					rt.Fatalf("Resolve(%q) = %q, EvalSymlinks: %q, %v", path, r.Real, eval, err)
				}
				if o, err := Stat(r.Real); err != nil || o != r.Object {
					rt.Fatalf("Resolve(%q) object %+v, want %+v, %v", path, r.Object, o, err)
				}
				continue
			}
			outcomes[kernel.Error()]++
			if err == nil && (r.Exists || !absent(kernel)) {
				rt.Fatalf("Resolve(%q) = %+v, kernel: %v", path, r, kernel)
			}
			if err != nil {
				continue
			}
			if real, err := kernelPath(r.Existing); err != nil || real != r.Existing || !under(r.Existing, r.Real) {
				rt.Fatalf("Resolve(%q) = %+v, existing is %q, %v", path, r, real, err)
			}
			if under(root, r.Real) && os.MkdirAll(r.Real, 0o755) == nil {
				outcomes["made"]++
				if now, err := kernelPath(path); err != nil || now != r.Real {
					rt.Fatalf("Resolve(%q) = %+v, once made it is %q, %v", path, r, now, err)
				}
			}
		}
	})
	for _, o := range []string{"exists", "direct", "made", syscall.ENOENT.Error(), syscall.ENOTDIR.Error()} {
		if outcomes[o] == 0 && !testing.Short() {
			t.Errorf("never seen: %s", o)
		}
	}
}
