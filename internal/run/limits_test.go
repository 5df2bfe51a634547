package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// limited makes an agent whose profile has the given limits.
func limited(u *runtest.User, limits string) {
	u.Mkdir(filepath.Join(u.Home, ".bourn/agents/small/home"))
	u.Write(filepath.Join(u.Home, ".bourn/agents/small/profile.yaml"),
		"version: 1\nagent: small\nfilesystem: {write: ["+u.Work+"]}\nlimits: {"+limits+"}\n")
}

func TestLimitsHold(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, c := range []struct{ limits, script, out, err string }{
			{"open_files: 32", "ulimit -n", "32\n", ""},
			{"memory: 64MiB", "head -c 200000000 /dev/zero | tail -c 1 >/dev/null; dd if=/dev/zero of=/dev/null bs=150M count=1", "", "memory"},
			{"processes: 20", "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; echo all", "", "fork"},
		} {
			t.Run(c.limits, func(t *testing.T) {
				limited(u, c.limits)
				r := u.Sh(c.script, "--agent", "small")
				if u.UID == 0 && strings.HasPrefix(c.limits, "processes") {
					// The kernel does not count root's: the report must not claim it.
					plan := u.Bourn("plan", "--agent", "small")
					if !strings.Contains(plan.Out, "✗ processes 20") {
						t.Errorf("plan: %s", plan.Out)
					}
					return
				}
				if r.Out != c.out || !strings.Contains(strings.ToLower(r.Err), c.err) {
					t.Errorf("out %q, err %q", r.Out, r.Err)
				}
			})
		}
	})
}

func TestTimeLimitEndsTheRun(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		limited(u, "time: 1s")
		r := u.Bourn("run", "--agent", "small", "--", "sleep", "1000")
		if r.Signal == 0 || !strings.Contains(r.Err, "its time of 1s is over") {
			t.Errorf("%+v", r)
		}
	})
}
