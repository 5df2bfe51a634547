package run

import (
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/policy"

	"github.com/google/go-cmp/cmp"
)

// What an Include names is copied and named by its copy: in a directory of the run's own
// the original would be another one, or nobody's.
func TestSSHFiles(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"ssh_config":              "Include ssh_config.d/*.conf\nHost *\n  include " + other + "/more \"" + dir + "/none\"\nInclude nowhere/*\n  SendEnv LANG\n",
		"ssh_config.d/10-a.conf":  "Include " + other + "/more\n",
		"ssh_config.d/20-b.conf":  "Port 1\nInclude=ssh_config.d/20-b.conf\n",
		"ssh_config.d/unread":     "Port 3\n",
		"ssh_config.d/99-x.conf":  "secret\n",
		"ssh_known_hosts":         "Include ssh_config\n",
		"ssh_host_ed25519_key":    "key\n",
		"sshd_config":             "Port 22\n",
		"ssh_config.d/deep/x.con": "",
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "ssh_config.d/99-x.conf"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "more"), []byte("Port 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const more = "/etc/ssh/included/2-more"
	want := []policy.File{
		{Path: more, Text: "Port 2\n"},
		{Path: "/etc/ssh/ssh_config.d/10-a.conf", Text: "Include " + more + "\n"},
		{Path: "/etc/ssh/ssh_config.d/20-b.conf", Text: "Port 1\nInclude /etc/ssh/ssh_config.d/20-b.conf\n"},
		{Path: "/etc/ssh/ssh_config", Text: "Include /etc/ssh/ssh_config.d/10-a.conf /etc/ssh/ssh_config.d/20-b.conf\nHost *\nInclude " + more + "\nInclude nowhere/*\n  SendEnv LANG\n"},
		{Path: "/etc/ssh/ssh_known_hosts", Text: "Include ssh_config\n"},
	}
	if diff := cmp.Diff(want, sshFiles(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := sshFiles(filepath.Join(dir, "absent")); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
