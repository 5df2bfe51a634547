package survey

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// ordinary skips what root is exempt from; TestAsOrdinaryUser runs it.
func ordinary(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("root may read everything; run by TestAsOrdinaryUser")
	}
}

// realTemp returns a temporary directory without a link in its path.
func realTemp(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// grow makes a tree: "a/" is a directory, "a -> b" a link, "a |" a fifo, "a = b" a hard link, else a file.
func grow(t testing.TB, root string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		var err error
		if name, target, ok := strings.Cut(line, " -> "); ok {
			err = os.Symlink(target, filepath.Join(root, name))
		} else if name, target, ok := strings.Cut(line, " = "); ok {
			err = os.Link(filepath.Join(root, target), filepath.Join(root, name))
		} else if name, ok := strings.CutSuffix(line, " |"); ok {
			err = syscall.Mkfifo(filepath.Join(root, name), 0o600)
		} else if strings.HasSuffix(line, "/") {
			err = os.MkdirAll(filepath.Join(root, line), 0o755)
		} else {
			os.MkdirAll(filepath.Dir(filepath.Join(root, line)), 0o755)
			err = os.WriteFile(filepath.Join(root, line), nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var treeNames = []string{"a", "b", "ab", ".env", "x.pem", "é", "\xff\xfe", "n\nl", "a*", "-"}

// drawTree makes a random tree of up to 40 objects below root and returns its directories.
func drawTree(t *rapid.T, root string) []string {
	dirs := []string{root}
	var all []string
	for range rapid.IntRange(0, 40).Draw(t, "objects") {
		dir := rapid.SampledFrom(dirs).Draw(t, "dir")
		p := filepath.Join(dir, rapid.SampledFrom(treeNames).Draw(t, "name"))
		var err error
		switch rapid.SampledFrom([]string{"dir", "dir", "dir", "file", "file", "link", "fifo", "hard"}).Draw(t, "kind") {
		case "dir":
			if err = os.Mkdir(p, 0o755); err == nil {
				dirs = append(dirs, p)
			}
		case "file":
			var f *os.File
			if f, err = os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
				f.Close()
			}
		case "link":
			err = os.Symlink(drawTarget(t, root, dirs), p)
		case "fifo":
			err = syscall.Mkfifo(p, 0o600)
		case "hard":
			if len(all) > 0 {
				os.Link(rapid.SampledFrom(all).Draw(t, "old"), p)
			}
		}
		if err == nil {
			all = append(all, p)
		}
	}
	return dirs
}

// drawTarget draws the target of a link, mostly within the tree.
func drawTarget(t *rapid.T, root string, dirs []string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom(append([]string{"..", ".", "", "missing"}, treeNames...)), 1, 4).Draw(t, "target")
	target := strings.Join(parts, "/")
	if rapid.Bool().Draw(t, "absolute") {
		return rapid.SampledFrom(dirs).Draw(t, "from") + "/" + target
	}
	if target = strings.TrimLeft(target, "/"); target == "" {
		return "."
	}
	return target
}

func paths(objects []Object) []string {
	var ps []string
	for _, o := range objects {
		ps = append(ps, o.Path)
	}
	return ps
}

func sorted(ps []string) []string {
	slices.SortFunc(ps, comparePaths)
	return ps
}

func (g Glob) String() string {
	return fmt.Sprintf("%s: %q visited %q unreadable %v", g.Pattern, paths(g.Objects), g.Visited, g.Unreadable)
}
