package launch

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"bourn/internal/policy"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestIDMaps(t *testing.T) {
	own, err := idMaps(1000, 1001, nil)
	want := []mapFile{{"setgroups", "deny"}, {"gid_map", "1001 1001 1\n"}, {"uid_map", "1000 1000 1\n"}}
	if diff := cmp.Diff(want, own, cmp.AllowUnexported(mapFile{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	other, err := idMaps(0, 0, &policy.User{UID: 1000, GID: 1000, Groups: []int{27, 1001, 1000, 27}})
	want = []mapFile{{"gid_map", "0 0 1\n27 27 1\n1000 1000 2\n"}, {"uid_map", "0 0 1\n1000 1000 1\n"}}
	if diff := cmp.Diff(want, other, cmp.AllowUnexported(mapFile{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	many := &policy.User{UID: 1000, GID: 1000}
	for g := range 600 {
		many.Groups = append(many.Groups, 100000+2*g)
	}
	if _, err := idMaps(0, 0, many); !errors.Is(err, unix.E2BIG) {
		t.Errorf("too many groups: %v", err)
	}
}

// As acts with the user's rights, on a thread that nothing else runs on.
func TestAs(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "bourn-test-") // everybody may pass it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.WriteFile(closed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	u := &policy.User{Name: "somebody", UID: 12345, GID: 12346, Groups: []int{12346, 12347}}
	if os.Getuid() != 0 {
		if err := As(u, func() { t.Error("it was called") }); !errors.Is(err, unix.EPERM) {
			t.Errorf("an ordinary user: %v", err)
		}
		return
	}
	made := filepath.Join(dir, "made")
	var opened, wrote error
	if err := As(u, func() {
		_, opened = os.ReadFile(closed)
		wrote = os.WriteFile(made, nil, 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(opened, unix.EACCES) || wrote != nil {
		t.Errorf("reading root's file: %v, making one: %v", opened, wrote)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(made, &st); err != nil || st.Uid != 12345 || st.Gid != 12346 {
		t.Errorf("%d:%d, %v", st.Uid, st.Gid, err)
	}
	if _, err := os.ReadFile(closed); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
