package placeholder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/policy"
)

const temp = Prefix + "test"

// opened opens a directory of the test's own.
func opened(t *testing.T) (*Dir, string) {
	t.Helper()
	at, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, at
}

// placed makes an object and gives it its name.
func placed(t *testing.T, d *Dir, dir bool) State {
	t.Helper()
	made, err := d.Make(temp, dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Place(temp, "name")
	if err != nil {
		t.Fatal(err)
	}
	if s.Object != made.Object || s.Dir != dir || s.Empty == dir || s.Object.Ino == 0 {
		t.Fatalf("made %+v, placed %+v", made, s)
	}
	return s
}

func TestMakeAndRemove(t *testing.T) {
	for _, dir := range []bool{false, true} {
		d, at := opened(t)
		s := placed(t, d, dir)
		if err := d.Sync(); err != nil {
			t.Error(err)
		}
		if err := d.Remove("name", temp, s, true); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(at); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if err := d.Remove("name", temp, s, true); !errors.Is(err, fs.ErrNotExist) || !Gone(err) {
			t.Errorf("removed again: %v", err)
		}
	}
}

// Nothing is replaced, neither by what is made nor by what is placed.
func TestPlaceReplacesNothing(t *testing.T) {
	for _, dir := range []bool{false, true} {
		for name, make := range map[string]func(string) error{
			"file":      func(at string) error { return os.WriteFile(at, nil, 0) },
			"directory": func(at string) error { return os.Mkdir(at, 0o700) },
			"symlink":   func(at string) error { return os.Symlink("nowhere", at) },
		} {
			d, at := opened(t)
			if _, err := d.Make(temp, dir); err != nil {
				t.Fatal(err)
			}
			if err := make(filepath.Join(at, "name")); err != nil {
				t.Fatal(err)
			}
			before, err := d.Stat("name")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Place(temp, "name"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("placed over a %s: %v", name, err)
			}
			if after, err := d.Stat("name"); err != nil || after != before {
				t.Errorf("%s: was %+v, is %+v, %v", name, before, after, err)
			}
			if _, err := d.Make("name", dir); !errors.Is(err, fs.ErrExist) {
				t.Errorf("made over a %s: %v", name, err)
			}
		}
	}
}

// What is not the object any more that was made stays.
func TestRemoveLeavesWhatIsOther(t *testing.T) {
	for name, change := range map[string]func(at string) error{
		"written":  func(at string) error { return errors.Join(os.Chmod(at, 0o600), os.WriteFile(at, []byte("x"), 0o600)) },
		"mode":     func(at string) error { return os.Chmod(at, 0o600) },
		"changed":  func(at string) error { return os.Chmod(at, 0) },
		"replaced": func(at string) error { return errors.Join(os.Rename(at, at+"2"), os.WriteFile(at, nil, 0)) },
		"symlink":  func(at string) error { return errors.Join(os.Rename(at, at+"2"), os.Symlink(at+"2", at)) },
		"dir":      func(at string) error { return errors.Join(os.Rename(at, at+"2"), os.Mkdir(at, 0o700)) },
	} {
		d, at := opened(t)
		s := placed(t, d, false)
		if err := change(filepath.Join(at, "name")); err != nil {
			t.Fatal(err)
		}
		before, err := d.Stat("name")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Remove("name", temp, s, true); !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := d.Stat("name"); err != nil || after != before {
			t.Errorf("%s: was %+v, is %+v, %v", name, before, after, err)
		}
	}
	d, at := opened(t)
	s := placed(t, d, true)
	if err := os.WriteFile(filepath.Join(at, "name/mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove("name", temp, s, true); !errors.Is(err, ErrFilled) {
		t.Errorf("a filled directory: %v", err)
	}
}

// A removal finds out as well after the look: the second look is at the name by which it removes.
func TestRemoveTakesNoOther(t *testing.T) {
	d, at := opened(t)
	s := placed(t, d, false)
	other, err := d.Make("other", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, temp), []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove("name", temp, s, true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("removed by a name that is taken: %v", err)
	}
	for _, name := range []string{"name", "other", temp} {
		if _, err := d.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if s.Is(other, true) || other.Is(s, true) {
		t.Errorf("two objects are one: %+v %+v", s, other)
	}
}

func TestIs(t *testing.T) {
	file := State{Object: policy.Object{Dev: 1, Ino: 2, Born: 3}, Changed: 4, Empty: true}
	dir := State{Object: policy.Object{Dev: 1, Ino: 2, Born: 3}, Changed: 4, Dir: true}
	for _, c := range []struct {
		name     string
		is, want State
		boot     bool
		same     bool
	}{
		{"itself", file, file, true, true},
		{"a device with another number", State{policy.Object{Dev: 9, Ino: 2, Born: 3}, 4, false, true}, file, true, false},
		{"the same after another boot", State{policy.Object{Dev: 9, Ino: 2, Born: 3}, 4, false, true}, file, false, true},
		{"after another boot, no birth known", State{policy.Object{Dev: 9, Ino: 2}, 4, false, true}, file, false, false},
		{"another inode", State{policy.Object{Dev: 1, Ino: 7, Born: 3}, 4, false, true}, file, false, false},
		{"an inode that was used again", State{policy.Object{Dev: 1, Ino: 2, Born: 8}, 4, false, true}, file, true, false},
		{"not empty", State{file.Object, 4, false, false}, file, true, false},
		{"changed", State{file.Object, 5, false, true}, file, true, false},
		{"no change known", file, State{Object: file.Object}, true, true},
		{"a directory for a file", dir, file, true, false},
		{"a directory, changed", State{dir.Object, 5, true, false}, dir, true, true},
	} {
		if got := c.is.Is(c.want, c.boot); got != c.same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The directory is opened through no symlink, and what it is stays when its name moves.
func TestOpen(t *testing.T) {
	d, at := opened(t)
	if err := os.Mkdir(filepath.Join(at, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(at, "link")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"link", "link/x", "real/none", "none"} {
		if _, err := Open(filepath.Join(at, p)); !Gone(err) {
			t.Errorf("%s: %v", p, err)
		}
	}
	sub, err := Open(filepath.Join(at, "real"))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := os.Rename(filepath.Join(at, "real"), filepath.Join(at, "moved")); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Make("x", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(at, "moved/x")); err != nil {
		t.Error(err)
	}
	is, err := sub.Object()
	if by, _ := d.Stat("moved"); err != nil || by.Object != is {
		t.Errorf("by name %+v, by descriptor %+v, %v", by.Object, is, err)
	}
}
