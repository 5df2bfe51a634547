package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

// On a host that cannot seal a start in the background fails as a run does, says why, and
// leaves nothing.
func TestBackgroundOnWeakHost(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		for _, h := range weakHosts {
			t.Run(h.name, func(t *testing.T) {
				b := inBackground(t, u.UID, true, stays)
				r := h.start(t, b.u, "agent", "start", b.name)
				if r.Status != 125 || !strings.Contains(r.Err, h.step) || !strings.Contains(r.Err, "hint: ") || strings.Contains(r.Err, "start 1, at") {
					t.Errorf("start: %d %q", r.Status, r.Err)
				}
				b.nothing()
			})
		}
	})
}

// A run without a seal is shown as such, and is ended with what is still below it.
func TestBackgroundAdvisory(t *testing.T) {
	hidden := nolandlock(t)
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		b := inBackground(t, u.UID, false, `trap '' TERM; `+stays)
		at := filepath.Join(b.dir(), "profile.yaml")
		b.u.Write(at, b.u.Read(at)+"sandbox: {fail_closed_on_sandbox_error: false}\n")
		r := b.u.Do(hidden, runtest.Binary(t), "agent", "start", b.name)
		if r.Status != 0 || !strings.Contains(r.Out, "ADVISORY") {
			t.Fatalf("start: %d %q %q", r.Status, r.Out, r.Err)
		}
		b.says("\nup\n")
		if r := b.u.Bourn("agent", "list"); !strings.Contains(r.Out, "running ADVISORY (background, since") {
			t.Errorf("list: %q", r.Out)
		}
		if a := b.activity(); a.ByHand != 0 {
			t.Errorf("the agent is %+v", a)
		}
		b.do(0, "stop", "--grace", "100ms")
		b.nothing()
	})
}
