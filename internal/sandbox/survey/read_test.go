package survey

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadPlain(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(rel string) string { return filepath.Join(root, rel) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"good/d", "big/d", "link/d", "fifo/d", "dir/d/f", "empty", "file"} {
		must(os.MkdirAll(at(dir), 0o755))
	}
	must(os.WriteFile(at("good/d/f"), []byte("text"), 0o644))
	must(os.WriteFile(at("big/d/f"), []byte(strings.Repeat("x", 9)), 0o644))
	must(os.WriteFile(at("file/d"), nil, 0o644))
	must(os.Symlink(at("good/d/f"), at("link/d/f")))
	must(os.Symlink("good", at("linked")))
	must(os.Mkdir(at("above"), 0o755))
	must(os.Symlink(at("good/d"), at("above/d")))
	must(syscall.Mkfifo(at("fifo/d/f"), 0o644)) // would be waited for

	text, top, err := ReadPlain(at("good"), 8, "d", "f")
	if string(text) != "text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if o, err := Stat(at("good")); err != nil || o.ID() != top.ID() {
		t.Errorf("the top is %+v, want %+v (%v)", top, o, err)
	}
	for root, want := range map[string]error{"empty": fs.ErrNotExist, "nothing": fs.ErrNotExist, "file": fs.ErrNotExist,
		"big": ErrNotPlain, "link": ErrNotPlain, "above": ErrNotPlain, "fifo": ErrNotPlain, "dir": ErrNotPlain} {
		if text, _, err := ReadPlain(at(root), 8, "d", "f"); !errors.Is(err, want) || text != nil && root != "big" {
			t.Errorf("%s: %q, %v, want %v", root, text, err, want)
		}
	}
	if text, _, err := ReadPlain(at("linked"), 8, "d", "f"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a root that is a symlink: %q, %v", text, err)
	}
}

func TestText(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"ends": "gitdir: x\r\n", "inner": "a\nb\n\n", "long": "123456789abcdef01", "empty": ""} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(at("ends"), at("link")), syscall.Mkfifo(at("fifo"), 0o644), os.Mkdir(at("dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ends": "gitdir: x", "inner": "a\nb", "long": "", "empty": "", "link": "", "fifo": "", "dir": "", "nothing": ""} {
		if got := Text(at(name), 16); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
