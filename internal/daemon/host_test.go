package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostIdle: a host ends when nobody has asked for its time, and not while somebody does.
func TestHostIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{hosts: map[hostKey]*host{}}
		ctx, end := context.WithCancel(t.Context())
		h := &host{key: hostKey{agent: "mur", dir: "/"}, uses: 1, end: end}
		g.mu.Lock()
		h.idle = time.AfterFunc(hostIdle, func() { g.unusedFor(h) })
		g.hosts[h.key] = h
		g.mu.Unlock()
		time.Sleep(3 * hostIdle)
		if synctest.Wait(); ctx.Err() != nil || g.hosts[h.key] != h {
			t.Fatal("it ends while it is used")
		}
		g.unuse(h)
		time.Sleep(hostIdle - time.Second)
		if synctest.Wait(); ctx.Err() != nil {
			t.Fatal("it ends before its time")
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); ctx.Err() == nil || len(g.hosts) != 0 {
			t.Error("it does not end")
		}
	})
}

// A token whose agent's tools cannot be started does not fill the operators' log.
func TestFailuresAreFew(t *testing.T) {
	var f failures
	ann, bob, now := someMember(1, "", -1, false, false).ID, someMember(2, "", -1, false, false).ID, time.Now()
	for i := range 1000 {
		if _, say := f.note(ann, now); say != (i == 0) {
			t.Fatalf("failure %d: said is %v", i, say)
		}
	}
	if more, say := f.note(bob, now); !say || more != 0 {
		t.Errorf("another member's: %d %v", more, say)
	}
	if more, say := f.note(ann, now.Add(failedEvery)); !say || more != 999 {
		t.Errorf("later: %d %v", more, say)
	}
}
