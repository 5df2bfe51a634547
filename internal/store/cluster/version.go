package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/daemon/instance"
)

// A Version is a release of PostgreSQL, as in 15.18.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Minimum are the oldest releases that row security is trusted on, by major version:
// older ones leak rows or memory to any SQL (CVE-2023-2455, CVE-2024-10976,
// CVE-2025-8713, CVE-2026-2005, CVE-2026-6473). Majors after the last are accepted.
var Minimum = []Version{{15, 18}, {16, 14}, {17, 10}, {18, 4}}

// Check returns an error if row security is not to be trusted on v.
func (v Version) Check() error {
	for _, least := range Minimum {
		if v.Major == least.Major && v.Minor >= least.Minor {
			return nil
		}
		if v.Major == least.Major {
			return bourn.WithHint(
				fmt.Errorf("%w: PostgreSQL %s is older than %s, and its row security has known holes", bourn.ErrWeakHost, v, least),
				"upgrade PostgreSQL (Debian: apt-get update && apt-get install --only-upgrade postgresql-"+strconv.Itoa(v.Major)+")")
		}
	}
	if v.Major > Minimum[len(Minimum)-1].Major {
		return nil
	}
	return bourn.WithHint(
		fmt.Errorf("%w: PostgreSQL %s is too old: %s or newer is needed", bourn.ErrWeakHost, v, Minimum[0]),
		"install a newer PostgreSQL")
}

// ParseVersion reads what `postgres --version` and server_version say, as in
// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)" and "18.4". A release that is
// not final, such as 19beta1, has the minor number 0.
func ParseVersion(s string) (Version, error) {
	for word := range strings.FieldsSeq(s) {
		if word[0] < '0' || word[0] > '9' {
			continue
		}
		major, minor, _ := strings.Cut(word, ".")
		digits := strings.IndexFunc(major, func(r rune) bool { return r < '0' || r > '9' })
		if digits >= 0 {
			major, minor = major[:digits], "0"
		}
		m, err := strconv.Atoi(major)
		if err != nil {
			break
		}
		n, err := strconv.Atoi(minor)
		if minor != "" && err != nil {
			break
		}
		return Version{m, n}, nil
	}
	return Version{}, fmt.Errorf("cannot read a PostgreSQL version from %q", bourn.Printable(s))
}

// Programs are one installation of the server: the directory of its programs.
type Programs struct {
	Dir     string
	Version Version
}

// errNone is returned where no PostgreSQL is installed.
var errNone = bourn.WithHint(fmt.Errorf("%w: no PostgreSQL server is installed", bourn.ErrWeakHost),
	"install one (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server), or give --database-url")

// Find returns the newest installation among dirs, and of one major version where major
// is not 0. Without dirs it looks where distributions put them and in PATH. One that another
// user could replace is not executed, and is ErrDenied where there is no other.
func Find(ctx context.Context, dirs []string, major int) (Programs, error) {
	if len(dirs) == 0 {
		dirs = usualDirs()
	}
	var found []Programs
	var refused error
	for _, dir := range dirs {
		p, err := installation(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, bourn.ErrDenied) {
			refused = err
			continue
		}
		if err != nil {
			return Programs{}, err
		}
		found = append(found, p)
	}
	if len(found) == 0 && refused != nil {
		return Programs{}, refused
	}
	if len(found) == 0 {
		return Programs{}, errNone
	}
	slices.SortStableFunc(found, func(a, b Programs) int {
		if a.Version.Major != b.Version.Major {
			return b.Version.Major - a.Version.Major
		}
		return b.Version.Minor - a.Version.Minor
	})
	for _, p := range found {
		if major == 0 || p.Version.Major == major {
			return p, p.Version.Check()
		}
	}
	return Programs{}, bourn.WithHint(
		fmt.Errorf("%w: the cluster was made by PostgreSQL %d, which is not installed", bourn.ErrWeakHost, major),
		fmt.Sprintf("install it (Debian: apt-get install postgresql-%d); to move on, back up with it and restore into a new cluster", major))
}

// usualDirs are where distributions put a server's programs.
func usualDirs() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // the project's own packages for Fedora and RHEL
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	if at, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// installation asks the server in dir what it is.
func installation(ctx context.Context, dir string) (Programs, error) {
	for _, name := range []string{"postgres", "initdb"} {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err == nil {
			err = instance.Trusted(real)
		}
		if err != nil {
			return Programs{}, err
		}
	}
	said, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Programs{}, fmt.Errorf("cannot ask %s for its version: %w", filepath.Join(dir, "postgres"), err)
	}
	v, err := ParseVersion(string(said))
	if err != nil {
		return Programs{}, err
	}
	return Programs{Dir: dir, Version: v}, nil
}
