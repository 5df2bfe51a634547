package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn"
)

// A home that another user could exchange for one of theirs is not served.
func TestHomeBelowAnothers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: gives a directory away")
	}
	above := filepath.Join(t.TempDir(), "above")
	home := filepath.Join(above, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(above, link); err != nil {
		t.Fatal(err)
	}
	homes := []string{home, filepath.Join(link, "home")}
	for _, home := range homes {
		if err := ownHome(home); err != nil {
			t.Errorf("%s: %v", home, err)
		}
	}
	if err := os.Chown(above, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	for _, home := range homes {
		if err := ownHome(home); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
			t.Errorf("%s: %v", home, err)
		}
	}
}

// A database stays where it was made when the modes above it change: in another place a
// control plane would begin with an empty one.
func TestClusterStays(t *testing.T) {
	home, shared := t.TempDir(), filepath.Join(t.TempDir(), "shared")
	own := filepath.Join(home, "postgres")
	is := func(when, want string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(home, mode); err != nil {
			t.Fatal(err)
		}
		if got := clusterDir(own, shared); got != want {
			t.Errorf("%s, %o: %s", when, mode, got)
		}
	}
	makeCluster := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is("none", shared, 0o700)
	if enterable(filepath.Dir(home)) {
		is("none", own, 0o711)
	}
	makeCluster(shared)
	is("in the shared place", shared, 0o700)
	is("in the shared place", shared, 0o711)
	if err := os.Rename(shared, own); err != nil {
		t.Fatal(err)
	}
	is("in the home", own, 0o700)
	is("in the home", own, 0o711)
}

// Who finds the home taken is told by whom, on one line.
func TestLockSaysWho(t *testing.T) {
	at := filepath.Join(t.TempDir(), "bournd.lock")
	unlock, err := lockHome(at)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := lockHome(at); bourn.CodeOf(err) != bourn.CodeConflict || strings.Contains(err.Error(), `\x0a`) {
		t.Errorf("got %v", err)
	}
}
