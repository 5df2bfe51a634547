package cli

import (
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/run"
)

// A helper that has another name stays setuid there, whatever takes its place.
func TestHelperNames(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the helper is root's")
	}
	at := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	who := service{105, 108, true}
	if err := os.Chown(at, 0, int(who.gid)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, 0o750|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	c := helperCheck(at, who)
	if c.Mend == "mount -o remount,suid the file system of "+filepath.Dir(at) {
		t.Skip("the directory for tests is mounted nosuid")
	}
	holds(t, c, run.Healthy, "")
	if err := os.Link(at, at+".old"); err != nil {
		t.Fatal(err)
	}
	holds(t, helperCheck(at, who), run.Unhealthy, "-samefile "+at)
}
