package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"bourn"
)

// $BOURN_HOME is refused where somebody else could put another in its place.
func TestHomeInOthersHands(t *testing.T) {
	for _, row := range []struct {
		name  string
		mode  os.FileMode
		owner int // of the directory above, -1 for this user
		link  bool
		want  bool
	}{
		{"own", 0o700, -1, false, true},
		{"own, its group may write", 0o775, -1, false, true},
		{"everybody may write", 0o777, -1, false, false},
		{"sticky", 0o777 | os.ModeSticky, -1, false, true},
		{"another user's", 0o755, 12345, false, false},
		{"another user's, sticky", 0o777 | os.ModeSticky, 12345, false, false},
		{"a link in another user's", 0o755, 12345, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.owner >= 0 && os.Geteuid() != 0 {
				t.Skip("only root has directories of others")
			}
			top, err := os.MkdirTemp("/var/tmp", "bourn-home-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(top) })
			above := filepath.Join(top, "above")
			h := &Home{Dir: filepath.Join(above, "parent", ".bourn")}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			if row.link {
				must(os.MkdirAll(filepath.Join(top, "real"), 0o700))
				must(os.Mkdir(above, 0o700))
				must(os.Symlink(filepath.Join(top, "real"), filepath.Join(above, "parent")))
			} else {
				must(os.MkdirAll(filepath.Dir(h.Dir), 0o700))
			}
			must(os.Chmod(above, row.mode))
			if row.owner >= 0 {
				must(os.Chown(above, row.owner, row.owner))
			}
			if err := h.Make(); (err == nil) != row.want || !row.want && !errors.Is(err, bourn.ErrUnavailable) {
				t.Errorf("%v", err)
			}
		})
	}
}
