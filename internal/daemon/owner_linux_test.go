package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What root does as the owner of a directory is that user's, and comes no further.
func TestAsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: takes another user's access")
	}
	dir := testHome(t)
	own, secret := filepath.Join(dir, "own"), filepath.Join(dir, "secret")
	link := filepath.Join(own, "link")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(own, 0o700), os.Chown(own, askerUID, askerUID),
		os.WriteFile(secret, []byte("x"), 0o600), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	err := AsOwner(own, func() error {
		if _, err := os.ReadFile(link); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a link leads it to what is root's: %v", err)
		}
		return os.WriteFile(filepath.Join(own, "made"), nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(own, "made"), &st); err != nil || st.Uid != askerUID || st.Gid != askerUID {
		t.Errorf("it is %d:%d's, %v", st.Uid, st.Gid, err)
	}
	if _, err := os.ReadFile(link); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	want := errors.New("its own")
	if err := AsOwner(own, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("its error is %v", err)
	}
}
