package main_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// Started many times at once it is started once, and whoever started it is told so. It
// keeps no administrator's password in its environment.
func TestStartedTogether(t *testing.T) {
	h := newHost(t, os.Getuid())
	h.Env = append(h.Env, "BOURN_DATABASE_ADMIN_URL=postgres://postgres:hush@db.example.com/")
	const starters = 4
	results := make(chan runtest.Result, starters)
	for range starters {
		go func() {
			results <- h.Bourn(append([]string{"serve", "--background", "--no-http"}, h.DatabaseUser()...)...)
		}()
	}
	started := 0
	for range starters {
		r := <-results
		if r.Status != 0 {
			t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
		}
		if strings.Contains(r.Out, "runs in the background (process ") {
			started++
		}
	}
	if started != 1 {
		t.Errorf("%d say that they started it", started)
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(h.instance().Pid) + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(environ), "hush") {
		t.Error("the administrator's password is in the environment of the control plane")
	}
	h.ok("serve", "--stop")
}
