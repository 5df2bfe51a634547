package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn/internal/operation"
	"bourn/internal/run/runtest"
	"bourn/internal/store/storetest"
)

// A host is a home with bourn and bournd, as one user.
type host struct {
	*runtest.User
	t testing.TB
}

// users calls f for each user that the test can act as: itself, and where it is root an
// ordinary user as well.
func users(t *testing.T, f func(t *testing.T, h host)) {
	t.Helper()
	storetest.Need(t)
	runtest.Accounts(t, func(t *testing.T, u *runtest.User) { f(t, hostOf(t, u)) })
}

func newHost(t *testing.T, uid int) host {
	t.Helper()
	return hostOf(t, runtest.NewUser(t, uid))
}

func hostOf(t *testing.T, u *runtest.User) host {
	t.Helper()
	u.Serves()
	return host{u, t}
}

func glob(pattern string) []string {
	all, _ := filepath.Glob(pattern)
	return all
}

// serve starts the control plane in the background.
func (h host) serve(flags ...string) string {
	h.t.Helper()
	r := h.Bourn(append(append([]string{"serve", "--background", "--no-http"}, h.DatabaseUser()...), flags...)...)
	if r.Status != 0 {
		log, _ := os.ReadFile(h.Home + "/.bourn/bournd.log")
		h.t.Fatalf("serve: status %d\n%s%s\n%s", r.Status, r.Out, r.Err, log)
	}
	return r.Out
}

// ok runs a command that must succeed.
func (h host) ok(args ...string) string {
	h.t.Helper()
	r := h.Bourn(args...)
	if r.Status != 0 {
		h.t.Fatalf("bourn %s: status %d\n%s%s", strings.Join(args, " "), r.Status, r.Out, r.Err)
	}
	return r.Out
}

// refused runs a command that must fail with a status and a hint, and say something.
func (h host) refused(status int, says string, args ...string) {
	h.t.Helper()
	r := h.Bourn(args...)
	if r.Status != status || !strings.Contains(r.Err, says) || !strings.Contains(r.Err, "hint: ") {
		h.t.Errorf("bourn %s: status %d, not %d with %q and a hint\n%s%s", strings.Join(args, " "), r.Status, status, says, r.Out, r.Err)
	}
}

// psql runs statements as the administrator.
func (h host) psql(database, sql string) string {
	h.t.Helper()
	return strings.TrimSpace(h.ok("db", "psql", database, "--", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql))
}

func (h host) status() operation.DatabaseStatus {
	h.t.Helper()
	var s operation.DatabaseStatus
	if err := json.Unmarshal([]byte(h.ok("db", "status", "--json")), &s); err != nil {
		h.t.Fatal(err)
	}
	return s
}

// until asks again and again, for what happens in a process that tells nobody.
func (h host) until(what string, holds func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			log, _ := os.ReadFile(h.Home + "/.bourn/bournd.log")
			h.t.Fatalf("not within a minute: %s\n%s", what, log)
		}
	}
}
