// Package storetest gives tests a PostgreSQL server of their own, and databases made from
// a template.
package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/store/cluster"
)

// nobody is the user that a test's server runs as where the test runs as root.
const nobody = 65534

// Need ends the test where no PostgreSQL is installed: it is skipped, or failed where
// BOURN_TEST_NEED names postgres.
func Need(t testing.TB) {
	t.Helper()
	if _, err := cluster.Find(t.Context(), nil, 0); err != nil {
		lack(t, "postgres", fmt.Sprintf("PostgreSQL: %v", err))
	}
}

// ServerConfig is that of a cluster of other programs than the system's, as Programs and
// Pretending return them.
func ServerConfig(t testing.TB, programs string) cluster.Config {
	t.Helper()
	config := clusterConfig(shortDir(t))
	config.Programs = []string{programs}
	return config
}

// ClusterConfig is that of a cluster in a directory of the test's own, with everything
// that costs time and serves nothing in a test left out.
func ClusterConfig(t testing.TB) cluster.Config {
	t.Helper()
	Need(t)
	return clusterConfig(shortDir(t))
}

func clusterConfig(dir string) cluster.Config {
	config := cluster.Config{
		Dir:       filepath.Join(dir, "postgres"),
		SocketDir: filepath.Join(dir, "s"),
		Ident:     []cluster.Ident{{OS: osUser(), Role: cluster.Admin}},
		Set:       map[string]string{"fsync": "off", "shared_buffers": "32MB"},
	}
	if os.Geteuid() == 0 {
		config.User = &cluster.User{UID: nobody, GID: nobody}
	}
	return config
}

// Own gives everything below path to the server's user.
func Own(t testing.TB, config cluster.Config, path string) {
	t.Helper()
	if config.User == nil {
		return
	}
	err := filepath.WalkDir(path, func(at string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(at, int(config.User.UID), int(config.User.GID))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// shortDir is a directory with a path short enough for a socket, that the server's user
// can reach.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bourn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// osUser is the name that PostgreSQL's peer authentication sees for this process.
func osUser() string { return cluster.CurrentUser() }
