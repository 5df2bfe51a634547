package runtest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Nobody is the uid of an ordinary user who has an account on every host: PostgreSQL knows
// its users by name.
const Nobody = 65534

var daemon struct {
	once sync.Once
	err  error
}

// OwnOnly reports whether tests act as the test process's own user alone: BOURN_TEST_USERS=own,
// where they are run as an ordinary user besides.
func OwnOnly() bool { return os.Getenv("BOURN_TEST_USERS") == "own" }

// Accounts is Users, with an ordinary user who has an account; see OwnOnly.
func Accounts(t *testing.T, f func(t *testing.T, u *User)) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Run("root", func(t *testing.T) { f(t, NewUser(t, 0)) })
		if !OwnOnly() {
			t.Run("user", func(t *testing.T) { f(t, NewUser(t, Nobody)) })
		}
		return
	}
	_, err := user.LookupId(strconv.Itoa(os.Getuid()))
	Need(t, "account", err == nil)
	t.Run("user", func(t *testing.T) { f(t, NewUser(t, os.Getuid())) })
}

// Daemon returns the path of bournd, beside Binary, where bourn finds it. It is built there
// if it is missing.
func Daemon(t testing.TB) string {
	t.Helper()
	at := filepath.Join(filepath.Dir(Binary(t)), "bournd")
	daemon.once.Do(func() {
		if _, err := os.Stat(at); err == nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-o", at, "bourn/cmd/bournd")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			daemon.err = errors.Join(err, errors.New(string(out)))
		}
	})
	if daemon.err != nil {
		t.Fatalf("cannot build bournd: %v", daemon.err)
	}
	return at
}

// sharedRoot is where root's databases stand, since their own user cannot enter its home.
const sharedRoot = "/var/lib/bourn/postgres-"

// Serves sees to it that nothing is left of the user's control plane when the test ends.
// Its start needs the flags of DatabaseUser.
func (u *User) Serves() {
	u.t.Helper()
	Daemon(u.t)
	u.t.Cleanup(func() {
		u.Bourn("serve", "--stop")
		at := u.DatabaseDirectory()
		if !strings.HasPrefix(at, sharedRoot) {
			return
		}
		aside, err := filepath.Glob(at + ".*")
		u.must(err)
		for _, dir := range append(aside, at) {
			u.must(os.RemoveAll(dir))
		}
	})
}

// DatabaseDirectory is where the user's private database stands, or will.
func (u *User) DatabaseDirectory() string {
	u.t.Helper()
	var s struct {
		Directory string `json:"directory"`
	}
	r := u.Bourn("db", "status", "--json")
	if err := json.Unmarshal([]byte(r.Out), &s); err != nil {
		u.t.Fatalf("db status: %v\n%s%s", err, r.Out, r.Err)
	}
	return s.Directory
}

// DatabaseUser are the flags that name the database's user where root would make one.
func (u *User) DatabaseUser() []string {
	if u.UID == 0 {
		return []string{"--database-user", "nobody"}
	}
	return nil
}
