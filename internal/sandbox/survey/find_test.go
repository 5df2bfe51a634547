package survey

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStat(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "f", "g = f", "d/", "l -> f", "dangling -> x", "p |")
	os.WriteFile(root+"/f", []byte("12345"), 0o600)
	for name, want := range map[string]Type{"f": File, "d": Dir, "l": Symlink, "dangling": Symlink, "p": Fifo, "x": Missing, "f/x": Missing, "/dev/null": Device} {
		path := name
		if !strings.HasPrefix(name, "/") {
			path = root + "/" + name
		}
		o, err := Stat(path)
		if err != nil || o.Type != want || o.Path != path {
			t.Errorf("Stat(%q) = %+v, %v, want %v", name, o, err, want)
		}
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		s := info.Sys().(*syscall.Stat_t)
		if o.Dev != uint64(s.Dev) || o.Ino != s.Ino || o.Nlink != uint64(s.Nlink) || o.Size != s.Size || o.Mode != uint32(s.Mode) || o.Uid != s.Uid {
			t.Errorf("Stat(%q) = %+v, want %+v", name, o, s)
		}
	}
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		a, b ID
		same bool
	}{
		{ID{1, 2, 3}, ID{1, 2, 3}, true}, {ID{1, 2, 0}, ID{1, 2, 3}, true}, {ID{1, 2, 3}, ID{1, 2, 0}, true},
		{ID{1, 2, 3}, ID{1, 2, 4}, false}, {ID{1, 2, 3}, ID{2, 2, 3}, false}, {ID{1, 2, 3}, ID{1, 3, 3}, false},
	} {
		if c.a.Is(c.b) != c.same {
			t.Errorf("%v is %v: %v", c.a, c.b, !c.same)
		}
	}
}

func TestFind(t *testing.T) {
	root := realTemp(t)
	grow(t, root, "a/.env", "b/c/other", "b/copy = a/.env", "l -> a/.env", "dir/x", "p |")
	env, _ := Stat(root + "/a/.env")
	dir, _ := Stat(root + "/dir")
	if err := os.Rename(root+"/dir", root+"/b/moved"); err != nil {
		t.Fatal(err)
	}
	reused := env.ID()
	reused.Born--
	for _, c := range []struct {
		ids   []ID
		roots []string
		want  []string
	}{
		{[]ID{env.ID(), dir.ID()}, []string{root}, []string{"a/.env", "b/copy", "b/moved"}},
		{[]ID{env.ID(), dir.ID()}, []string{root + "/b", root + "/b/c", root + "/a/.env"}, []string{"a/.env", "b/copy", "b/moved"}},
		{[]ID{dir.ID()}, []string{root + "/b/moved"}, []string{"b/moved"}},
		{[]ID{reused}, []string{root}, nil},
		{[]ID{{env.Dev, env.Ino, 0}}, []string{root + "/b"}, []string{"b/copy"}},
		{nil, []string{root}, nil},
		{[]ID{env.ID()}, []string{root + "/missing"}, nil},
	} {
		if env.Born == 0 && slices.Contains(c.ids, reused) {
			continue
		}
		f, err := Find(c.ids, c.roots)
		if err != nil || !f.Complete() {
			t.Errorf("%v: %v, %v", c, f.Unreadable, err)
		}
		var got []string
		for _, o := range f.Objects {
			got = append(got, strings.TrimPrefix(o.Path, root+"/"))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c, diff)
		}
	}
	if _, err := Find(nil, []string{"x"}); err == nil {
		t.Error("relative root accepted")
	}
	if f, err := Find([]ID{env.ID()}, []string{root + "/l"}); err != nil || f.Complete() {
		t.Errorf("a root that is a link: %+v, %v", f, err)
	}
}

func TestFindUnreadable(t *testing.T) {
	ordinary(t)
	root := realTemp(t)
	grow(t, root, "closed/f", "listed/f", "open/f")
	f, _ := Stat(root + "/open/f")
	for name, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o444} {
		os.Chmod(root+"/"+name, mode)
		defer os.Chmod(root+"/"+name, 0o755)
	}
	for _, mode := range modes {
		mode.set()
		found, err := Find([]ID{f.ID()}, []string{root})
		mode.unset()
		want := 1
		if mode.name == "without types" { // then what is listed must be examined too
			want = 2
		}
		if err != nil || len(found.Unreadable) != want || found.Unreadable[0].Path != root+"/closed" || len(found.Objects) != 1 {
			t.Errorf("%s: %+v, %v", mode.name, found, err)
		}
	}
	linked, err := Linked(root)
	if err != nil || len(linked.Unreadable) != 2 {
		t.Errorf("%+v, %v", linked, err)
	}
}

// TestFindOracle compares Find and Linked with filepath.WalkDir and Lstat.
func TestFindOracle(t *testing.T) {
	several := 0
	rapid.Check(t, func(rt *rapid.T) {
		root := filepath.Join(t.TempDir(), "w")
		if err := os.Mkdir(root, 0o755); err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		drawTree(rt, root)
		var all []Object
		filepath.WalkDir(root, func(path string, _ fs.DirEntry, _ error) error {
			o, err := Stat(path)
			if err != nil {
				rt.Fatal(err)
			}
			all = append(all, o)
			return nil
		})
		var wanted []ID
		for _, o := range rapid.SliceOfN(rapid.SampledFrom(all), 0, 4).Draw(rt, "wanted") {
			wanted = append(wanted, o.ID())
		}
		var same, linked []Object
		for _, o := range all {
			if slices.Contains(wanted, o.ID()) {
				same = append(same, o)
			}
			if o.Type != Dir && o.Nlink > 1 {
				linked = append(linked, o)
			}
		}
		slices.SortFunc(same, compareObjects)
		slices.SortFunc(linked, compareObjects)
		several += len(linked)
		for _, mode := range modes {
			mode.set()
			f, err := Find(wanted, []string{root})
			l, linkErr := Linked(root)
			mode.unset()
			if err != nil || linkErr != nil || !f.Complete() || !l.Complete() {
				rt.Fatal(err, linkErr, f.Unreadable)
			}
			if diff := cmp.Diff(same, f.Objects); diff != "" {
				rt.Fatalf("%s: find: %s", mode.name, diff)
			}
			if diff := cmp.Diff(linked, l.Objects); diff != "" {
				rt.Fatalf("%s: linked: %s", mode.name, diff)
			}
		}
	})
	if several == 0 && !testing.Short() {
		t.Error("never a hard link")
	}
}
