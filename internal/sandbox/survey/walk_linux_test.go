package survey

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The ways in which a host can be unlike this one.
var modes = []struct {
	name       string
	set, unset func()
}{
	{"plain", func() {}, func() {}},
	{"without openat2", func() { withoutOpenat2.Store(true) }, func() { withoutOpenat2.Store(false) }},
	{"without types", func() { withoutTypes.Store(true) }, func() { withoutTypes.Store(false) }},
}

// deepTree makes depth directories in each other, with a file .env in every hundredth and in the last.
func deepTree(t *testing.T, root, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= depth; i++ {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		if fd = next; i%100 == 0 || i == depth {
			f, err := unix.Openat(fd, ".env", unix.O_CREAT|unix.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(f)
		}
	}
	unix.Close(fd)
	t.Cleanup(func() { os.RemoveAll(filepath.Join(root, name)) })
}

func TestDeepTree(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	for _, c := range []struct {
		name  string
		depth int
	}{{"d", 5000}, {strings.Repeat("n", 255), 1000}} {
		root := realTemp(t)
		deepTree(t, root, c.name, c.depth)
		for _, mode := range modes {
			mode.set()
			g, err := Expand(mustPatterns(t, root+"/**/.env"), []string{root})
			if err != nil {
				t.Fatal(err)
			}
			if len(g[0].Objects) != c.depth/100 || len(g[0].Unreadable) != 0 || len(g[0].TooDeep) != 1 {
				t.Errorf("%s: %d objects, unreadable %d, too deep %d", mode.name, len(g[0].Objects), len(g[0].Unreadable), len(g[0].TooDeep))
			}
			deepest := g[0].Objects[len(g[0].Objects)-1]
			if want := root + strings.Repeat("/"+c.name, c.depth) + "/.env"; deepest.Path != want || deepest.Ino == 0 {
				t.Errorf("%s: deepest path has %d bytes, want %d", mode.name, len(deepest.Path), len(want))
			}
			f, err := Find([]ID{deepest.ID()}, []string{root})
			if err != nil || !f.Complete() || len(f.Objects) != 1 || f.Objects[0].Path != deepest.Path {
				t.Errorf("%s: find: %d, %v, %v", mode.name, len(f.Objects), f.Unreadable, err)
			}
			mode.unset()
		}
	}
}

// TestSwappedDirectory turns directories into links during walks: nothing outside may be found.
func TestSwappedDirectory(t *testing.T) {
	base := realTemp(t)
	root, outside := base+"/w", base+"/outside"
	grow(t, base, "outside/deep/.env", "w/a/deep/.env", "w/b/deep/x")
	before := descriptors(t)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		os.Symlink(outside, base+"/link")
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, base+"/link", unix.AT_FDCWD, root+"/a", unix.RENAME_EXCHANGE)
			}
		}
	})
	ids := []ID{}
	if o, err := Stat(outside + "/deep/.env"); err == nil {
		ids = append(ids, o.ID())
	}
	for i := range 600 {
		mode := modes[i%len(modes)]
		mode.set()
		g, err := Expand(mustPatterns(t, root+"/**/.env"), []string{root})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Find(ids, []string{root})
		mode.unset()
		if err != nil || len(f.Objects) > 0 {
			t.Fatalf("left the root: %v, %v", f, err)
		}
		for _, o := range g[0].Objects {
			if o.Ino == ids[0].Ino {
				t.Fatalf("left the root: %+v", o)
			}
		}
	}
	close(stop)
	swapper.Wait()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestVanishing has directories come and go during walks.
func TestVanishing(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "keep/.env")
	stop := make(chan struct{})
	var maker sync.WaitGroup
	maker.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				os.MkdirAll(root+"/x/y/z", 0o755)
				os.RemoveAll(root + "/x")
			}
		}
	})
	for range 500 {
		g, err := Expand(mustPatterns(t, root+"/**/.env"), []string{root})
		if err != nil || len(g[0].Objects) != 1 || len(g[0].Unreadable) != 0 {
			t.Fatalf("%v, %v", g, err)
		}
		if f, err := Linked(root); err != nil || !f.Complete() {
			t.Fatalf("%v, %v", f, err)
		}
	}
	close(stop)
	maker.Wait()
}

// TestNoDescriptors holds that a walk which cannot open says so.
func TestNoDescriptors(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "a/.env")
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	g, err := Expand(mustPatterns(t, root+"/**/.env"), []string{root})
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	if err != nil || len(g[0].Unreadable) != 1 || !errors.Is(g[0].Unreadable[0].Err, unix.EMFILE) {
		t.Errorf("%v, %v", g, err)
	}
}

func descriptors(t *testing.T) int {
	runtime.GC()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(fds, func(e os.DirEntry) bool {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		return strings.HasPrefix(to, "anon_inode:")
	}))
}
