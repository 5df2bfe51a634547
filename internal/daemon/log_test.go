package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// memory is a sink that keeps what it is given, unless it is told not to.
type memory struct {
	mu      sync.Mutex
	entries []store.EncodedEntry
	commits int
	refuse  func(store.EncodedEntry) error
	hold    chan struct{}
}

func (m *memory) AppendLog(ctx context.Context, entries []store.EncodedEntry) error {
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", bourn.ErrUnavailable, ctx.Err())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits++
	for _, e := range entries {
		if m.refuse != nil {
			if err := m.refuse(e); err != nil {
				return err
			}
		}
	}
	m.entries = append(m.entries, entries...)
	return nil
}

// stands counts the refusals that the log stands for.
func (m *memory) stands(t *testing.T) (lines, refusals int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		var entry audit.Entry
		if err := unmarshal(e.Body, &entry); err != nil {
			t.Fatal(err)
		}
		lines++
		refusals += max(entry.Repeated, 1)
	}
	return lines, refusals
}

func unmarshal(data []byte, v any) error { return strictFormat.Unmarshal(data, v) }

func refusal(run, target string) audit.Entry {
	return audit.Entry{Kind: audit.KindAction, Who: "agent:a", Run: run, What: "files_read", Target: target}
}

// Every refusal of a flood is written or counted, whenever the counts are flushed.
func TestFloodIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		w := newLogWriter(m, time.Now)
		sent := 0
		send := func(n int, e func(i int) audit.Entry) {
			for i := range n {
				if err := w.Refused(t.Context(), e(i)); err != nil {
					t.Fatal(err)
				}
				sent++
			}
		}
		for range 8 {
			send(500, func(int) audit.Entry { return refusal("one", "the same") })
			send(300, func(i int) audit.Entry { return refusal("two", fmt.Sprint(i)) })
			time.Sleep(7 * time.Second) // between a flush and the next the likeness ends
			send(3, func(int) audit.Entry { return refusal("one", "the same") })
			if err := w.Flush(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		lines, stands := m.stands(t)
		if stands != sent || lines > 2500 {
			t.Errorf("%d lines stand for %d refusals of %d", lines, stands, sent)
		}
		if len(w.like) != 0 || len(w.runs) != 0 {
			t.Errorf("%d and %d are kept", len(w.like), len(w.runs))
		}
		w.Close()
	})
}

// One run's flood stops nobody's effects, its own neither, up to its quota.
func TestFloodStopsNobody(t *testing.T) {
	m := &memory{}
	w := newLogWriter(m, time.Now)
	defer w.Close()
	for i := range 5000 {
		if err := w.Refused(t.Context(), refusal("one", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	effect := func(run string) error {
		return w.Append(t.Context(), audit.Entry{Kind: audit.KindAction, Who: "agent:a", Run: run, What: "files_write", Outcome: audit.Allowed})
	}
	for _, run := range []string{"one", "two", ""} {
		if err := effect(run); err != nil {
			t.Errorf("run %q: %v", run, err)
		}
	}
	for range quotaEffects {
		_ = effect("one")
	}
	if err := effect("one"); bourn.CodeOf(err) != bourn.CodeUnavailable || strings.Contains(err.Error(), "one writes") {
		t.Errorf("beyond its quota: %v", err)
	}
	if err := effect("two"); err != nil {
		t.Errorf("another run: %v", err)
	}
}

// However many runs and targets a flood has, what is kept of it is bounded.
func TestFloodIsBounded(t *testing.T) {
	m := &memory{}
	w := newLogWriter(m, time.Now)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	long := strings.Repeat("x", 200<<10)
	for i := range 30000 {
		target := fmt.Sprint(i)
		if i%10 == 0 {
			target += long
		}
		if err := w.Refused(t.Context(), refusal(fmt.Sprint("run", i), target)); err != nil {
			t.Fatal(err)
		}
	}
	m.mu.Lock()
	m.entries = nil
	m.mu.Unlock()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(w.like) > maxLike || len(w.runs) > maxRuns+1 {
		t.Errorf("%d like and %d runs are kept", len(w.like), len(w.runs))
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	// The runs beyond those that are counted one by one share a quota, and each line counts.
	if err := w.Flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := w.Append(t.Context(), refusal("", "x")); bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
}

// held waits until the first entry is being committed and none waits.
func held(t *testing.T, w *logWriter) {
	t.Helper()
	until(t, 10*time.Second, "one is being committed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.busy && len(w.waiting) == 0
	})
}

// Entries that come at once share a commit, and each is there once.
func TestCommitsAreShared(t *testing.T) {
	m := &memory{hold: make(chan struct{})}
	w := newLogWriter(m, time.Now)
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Append(t.Context(), refusal("", "the first")) })
	held(t, w)
	for i := range 1000 {
		wg.Go(func() {
			if err := w.Append(t.Context(), refusal("", fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, 20*time.Second, "all wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == 1000
	})
	close(m.hold)
	wg.Wait()
	w.Close()
	seen := map[string]bool{}
	for _, e := range m.entries {
		seen[e.ID] = true
	}
	if len(m.entries) != 1001 || len(seen) != 1001 || m.commits > 2 {
		t.Errorf("%d entries, %d ids, %d commits", len(m.entries), len(seen), m.commits)
	}
}

// One entry that the database refuses does not take the others with it.
func TestPoisonedEntry(t *testing.T) {
	bad := errors.New("poisoned")
	m := &memory{hold: make(chan struct{}), refuse: func(e store.EncodedEntry) error {
		if strings.Contains(string(e.Body), "poison") {
			return bad
		}
		return nil
	}}
	w := newLogWriter(m, time.Now)
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Append(t.Context(), refusal("", "the first")) })
	held(t, w)
	for i := range 100 {
		wg.Go(func() {
			target, want := fmt.Sprint(i), error(nil)
			if i == 42 {
				target, want = "poison", bad
			}
			if err := w.Append(t.Context(), refusal("", target)); !errors.Is(err, want) {
				t.Errorf("%s: %v", target, err)
			}
		})
	}
	until(t, 20*time.Second, "all wait", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.waiting) == 100 })
	close(m.hold)
	wg.Wait()
	w.Close()
	if len(m.entries) != 100 {
		t.Errorf("%d of 100 are there", len(m.entries))
	}
}

// While nothing can be committed, whoever waits is let go in time, nothing piles up, and a
// count that could not be written is written later.
func TestSinkAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{hold: make(chan struct{})}
		w := newLogWriter(m, time.Now)
		for range 3 * maxWaiting / 1000 {
			var wg sync.WaitGroup
			for i := range 1000 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					if err := w.Append(ctx, refusal("", fmt.Sprint(i))); bourn.CodeOf(err) != bourn.CodeUnavailable || bourn.HintOf(err) == "" {
						t.Errorf("got %v", err)
					}
				})
			}
			wg.Wait()
		}
		if len(w.waiting) != 0 {
			t.Errorf("%d wait whose callers have gone", len(w.waiting))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for range 5 { // the first is to be written, and four are counted
			_ = w.Refused(ctx, refusal("r", "same"))
		}
		if err := w.Flush(ctx, true); err == nil {
			t.Error("nothing was written, and nothing says so")
		}
		time.Sleep(time.Minute) // what was being committed has given up
		close(m.hold)
		m.mu.Lock()
		m.entries = nil
		m.mu.Unlock()
		if err := w.Flush(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, stands := m.stands(t); stands != 4 {
			t.Errorf("the log stands for %d refusals more, want 4", stands)
		}
	})
}

// The effect happens only after its entry, and its outcome is there after it.
func TestEffect(t *testing.T) {
	m := &memory{}
	w := newLogWriter(m, time.Now)
	e := audit.Entry{Kind: audit.KindChange, Who: "member:x", What: "set", Outcome: audit.Allowed}
	if err := w.Effect(t.Context(), e, func() error {
		if len(m.entries) != 1 {
			t.Errorf("%d entries before the effect", len(m.entries))
		}
		return bourn.ErrConflict
	}); !errors.Is(err, bourn.ErrConflict) {
		t.Error(err)
	}
	if len(m.entries) != 2 || !strings.Contains(string(m.entries[1].Body), `"outcome":"failed"`) || !strings.Contains(string(m.entries[1].Body), `"of":"`+m.entries[0].ID) {
		t.Errorf("%d entries", len(m.entries))
	}
	m.refuse = func(store.EncodedEntry) error { return bourn.ErrUnavailable }
	if err := w.Effect(t.Context(), e, func() error { t.Error("it happened, and is not in the log"); return nil }); bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Error(err)
	}
	w.Close()
}
