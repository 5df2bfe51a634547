package daemon

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/store"
)

func outcomeOf(what string) audit.Entry {
	return audit.Entry{Kind: audit.KindOutcome, Who: "agent:a", Run: "one", What: what, Outcome: audit.Done}
}

func (m *memory) whats(t *testing.T) (all []string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		var entry audit.Entry
		if err := unmarshal(e.Body, &entry); err != nil {
			t.Fatal(err)
		}
		all = append(all, entry.What)
	}
	return all
}

// TestLater: what nobody waits for is written after what was before it, and before the end.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{hold: make(chan struct{})}
		w := newLogWriter(m, time.Now)
		failed := func(err error) { t.Errorf("not written: %v", err) }
		var want []string
		for i := range 100 {
			what := fmt.Sprint("call ", i)
			w.Later(outcomeOf(what), failed) // returns though nothing is written
			want = append(want, what)
		}
		close(m.hold)
		w.Close()
		if got := m.whats(t); !slices.Equal(got, want) {
			t.Errorf("the log has %v", got)
		}
		late := error(nil)
		w.Later(outcomeOf("late"), func(err error) { late = err })
		if bourn.CodeOf(late) != bourn.CodeUnavailable {
			t.Errorf("after the end: %v", late)
		}
	})
}

// TestSettle: who reads the log waits for what was to be written before, and not for ever.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{hold: make(chan struct{})}
		w := newLogWriter(m, time.Now)
		w.settle(t.Context()) // nothing waits
		w.Later(outcomeOf("first"), func(err error) { t.Errorf("not written: %v", err) })
		began := time.Now()
		w.settle(t.Context())
		if took := time.Since(began); took != settleWithin {
			t.Errorf("it waited for %v", took)
		}
		close(m.hold)
		w.settle(t.Context())
		if got := m.whats(t); !slices.Equal(got, []string{"first"}) {
			t.Errorf("the log has %v", got)
		}
		w.Later(outcomeOf("second"), func(err error) { t.Errorf("not written: %v", err) })
		w.settle(t.Context())
		if got := m.whats(t); len(got) != 2 {
			t.Errorf("the log has %v", got)
		}
		w.Close()
	})
}

// TestLaterFails: what cannot be written is told.
func TestLaterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{refuse: func(store.EncodedEntry) error { return errors.New("full") }}
		w := newLogWriter(m, time.Now)
		told := make(chan error, 1)
		w.Later(outcomeOf("x"), func(err error) { told <- err })
		w.Close()
		if err := <-told; err == nil {
			t.Error("nothing is told")
		}
	})
}

// TestLaterIsBounded: where much waits, its writers wait as well.
func TestLaterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{hold: make(chan struct{})}
		w := newLogWriter(m, time.Now)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range maxUnawaited + commitMost + 10 {
				w.Later(outcomeOf("x"), func(err error) { t.Errorf("not written: %v", err) })
			}
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("nobody waits")
		default:
		}
		w.mu.Lock()
		if n := len(w.waiting); n > maxUnawaited+1 {
			t.Errorf("%d wait", n)
		}
		w.mu.Unlock()
		close(m.hold)
		<-ended
		w.Close()
	})
}
