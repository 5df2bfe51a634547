package run_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// The hint to a grant that can never be had is one that can help.
func TestProtectedGrantHints(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	hook := u.Write(".git/hooks/pre-commit", "")
	u.Write(".git/config", "")
	sock := filepath.Join("/dev/shm", filepath.Base(u.Dir))
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ flag, path, want string }{
		{"--read", "/proc", "leave it out: no flag and no profile opens what is protected"},
		{"--write", "/sys/kernel", "leave it out: no flag and no profile opens what is protected"},
		{"--write", hook, "it can be granted for reading: --read " + hook},
		{"--read", sock, "a socket is granted by itself, in the profile of an agent: network: {unix: [" + sock + "]}"},
		{"--read", "/usr", "name a directory that holds only what the run needs"},
		{"--write", u.Home, "name a directory that holds only what the run needs"},
	} {
		r := u.Bourn("run", c.flag, c.path, "--", "true")
		if r.Status != 125 || !strings.Contains(r.Err, "cannot grant "+c.path) || !strings.Contains(r.Err, "hint: "+c.want+"\n") {
			t.Errorf("%s %s: status %d, said %q", c.flag, c.path, r.Status, r.Err)
		}
	}
}

// Inside, what is absent from a place of the run's own is not said to be readable.
func TestExplainInsideAbsent(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		key := u.Write(filepath.Join(u.Home, ".ssh/id"), secret)
		r := u.Bourn("run", "-q", "--", "bourn", "explain", "read", key)
		for _, want := range []string{"denied: a run here may not read " + key, "files: everything else is absent",
			"it does not exist inside: the run has a " + u.Home + " of its own, and " + key + " of the host is not granted", "ask a person to run: bourn explain read " + key} {
			if r.Status != 3 || !strings.Contains(r.Out, want) {
				t.Errorf("status %d, %q is not in\n%s", r.Status, want, r.Out)
			}
		}
		r = u.Sh("echo x >$HOME/own; bourn explain read ~/own && bourn explain write ~/new && bourn explain read /tmp")
		if r.Status != 0 || strings.Count(r.Out, "allowed: ") != 3 {
			t.Errorf("of its own: %d\n%s%s", r.Status, r.Out, r.Err)
		}
	})
}

// A granted host that does not resolve is said once, at the end.
func TestUnresolvedHostIsSaid(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		const name = "nosuch.example.invalid"
		r := u.Bourn("run", "--host", name, "--", "sh", "-c", "getent hosts "+name+"; getent hosts "+name+"; getent hosts other.example.invalid; true")
		if r.Status != 0 || strings.Count(r.Err, "bourn: "+name+" is granted, and its name did not resolve on this host: ") != 1 {
			t.Errorf("status %d, said %q", r.Status, r.Err)
		}
		if strings.Contains(r.Err, "other.example.invalid is granted") {
			t.Errorf("of a name that is not granted: %q", r.Err)
		}
	})
}
