package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/audit"
)

// Nobody else can open the lock under which a run notes what it did, also one that was made
// before: who can open it can hold it, and no run would start.
func TestLockIsOnesOwn(t *testing.T) {
	for _, before := range []os.FileMode{0, 0o644, 0o666} {
		path := audit.JournalPath(t.TempDir())
		at := path + ".lock"
		if before != 0 {
			if err := os.WriteFile(at, nil, before); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(at, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := audit.Note(path, audit.Entry{Kind: audit.KindRun, Who: "host", What: "run started"}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("from %o: %o", before, info.Mode().Perm())
		}
	}
	if _, err := audit.Lock(filepath.Join(t.TempDir(), "none", "x")); err == nil {
		t.Error("a lock in no directory")
	}
}
