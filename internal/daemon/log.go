package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// Limits on what one run may write, so that a flood of refusals neither fills the disk nor
// slows others down. Entries before an effect are never left out: past the quota the
// effect is refused.
const (
	collapseWithin = 10 * time.Second // like entries within it are one, with a count
	quotaWithin    = time.Minute
	quotaRefusals  = 600  // of one run in quotaWithin; more are counted, not written
	quotaEffects   = 6000 // of one run in quotaWithin; more are refused
	maxTracked     = 10000
	commitMost     = 2000 // entries that share a commit
)

// A logSink commits entries; when it returns nil they are on disk.
type logSink interface {
	AppendLog(ctx context.Context, entries []store.EncodedEntry) error
}

// A logWriter writes the log: entries that are asked for at the same time share a commit.
type logWriter struct {
	sink logSink
	now  func() time.Time
	work sync.WaitGroup

	mu      sync.Mutex
	waiting []*pending
	busy    bool
	runs    map[string]*quota
	like    map[likeness]*collapsed
}

type pending struct {
	entry store.EncodedEntry
	done  chan error
}

// quota counts what a run wrote since a time.
type quota struct {
	since             time.Time
	refusals, effects int
	left              int // refusals that were counted and not written
}

// likeness is what makes two refusals the same.
type likeness struct {
	run, who, what, target, by, reason string
	outcome                            audit.Outcome
}

type collapsed struct {
	entry audit.Entry
	since time.Time
	more  int
}

func newLogWriter(sink logSink, now func() time.Time) *logWriter {
	return &logWriter{sink: sink, now: now, runs: map[string]*quota{}, like: map[likeness]*collapsed{}}
}

// Append commits an entry: when it returns nil, the effect that the entry announces may
// happen. ErrUnavailable means that it must not.
func (w *logWriter) Append(ctx context.Context, e audit.Entry) error {
	if e.Run != "" && !w.admit(e.Run) {
		return bourn.WithHint(fmt.Errorf("%w: run %s writes more to the log than it may (%d entries a minute)", bourn.ErrUnavailable, bourn.Printable(e.Run), quotaEffects),
			"slow down")
	}
	return w.commit(ctx, e)
}

// Refused writes that something was refused: nothing happened, so that repeats within
// ten seconds may be counted instead, and so may what is beyond a run's quota. An entry
// that is counted is written with its count later, by Flush.
func (w *logWriter) Refused(ctx context.Context, e audit.Entry) error {
	if e.Outcome == "" {
		e.Outcome = audit.Denied
	}
	if !w.first(e) {
		return nil
	}
	return w.commit(ctx, e)
}

// Close returns when nothing is being written.
func (w *logWriter) Close() { w.work.Wait() }

// admit counts an effect against its run's quota.
func (w *logWriter) admit(run string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.quota(run)
	q.effects++
	return q.effects <= quotaEffects
}

// first reports whether a refusal is to be written; otherwise it was counted.
func (w *logWriter) first(e audit.Entry) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	key := likeness{e.Run, e.Who, e.What, e.Target, e.By, e.Reason, e.Outcome}
	if c := w.like[key]; c != nil && now.Sub(c.since) < collapseWithin {
		c.more++
		return false
	}
	q := w.quota(e.Run)
	q.refusals++
	if q.refusals > quotaRefusals {
		q.left++
		return false
	}
	if len(w.like) < maxTracked {
		w.like[key] = &collapsed{entry: e, since: now}
	}
	return true
}

func (w *logWriter) quota(run string) *quota {
	q := w.runs[run]
	if q == nil {
		if len(w.runs) >= maxTracked {
			run = "" // all that are too many share one
			if q = w.runs[run]; q != nil {
				return q
			}
		}
		q = &quota{since: w.now()}
		w.runs[run] = q
	}
	if w.now().Sub(q.since) >= quotaWithin && q.left == 0 {
		*q = quota{since: w.now()}
	}
	return q
}

// Flush writes the counts of what was left out and is old enough, or of all of it.
func (w *logWriter) Flush(ctx context.Context, all bool) error {
	var due []audit.Entry
	w.mu.Lock()
	now := w.now()
	for key, c := range w.like {
		if !all && now.Sub(c.since) < collapseWithin {
			continue
		}
		delete(w.like, key)
		if c.more > 0 {
			e := c.entry
			e.ID, e.At, e.Repeated = "", time.Time{}, c.more
			due = append(due, e)
		}
	}
	for run, q := range w.runs {
		if !all && now.Sub(q.since) < quotaWithin {
			continue
		}
		delete(w.runs, run)
		if q.left > 0 {
			due = append(due, audit.Entry{Kind: audit.KindAction, Who: "host", Run: run, What: "refusals beyond the run's quota", Outcome: audit.Denied, Repeated: q.left})
		}
	}
	w.mu.Unlock()
	for _, e := range due {
		if err := w.commit(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// commit hands an entry to whoever commits, or commits all that wait.
func (w *logWriter) commit(ctx context.Context, e audit.Entry) error {
	body, err := e.Encode(w.now())
	if err != nil {
		return err
	}
	p := &pending{store.EncodedEntry{ID: e.ID, At: e.At, Body: body}, make(chan error, 1)}
	w.mu.Lock()
	w.waiting = append(w.waiting, p)
	if w.busy {
		w.mu.Unlock()
	} else {
		w.busy = true
		w.mu.Unlock()
		w.work.Go(w.drain)
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		// It may be committed yet: nothing may happen, and the log says that it was asked for.
		return fmt.Errorf("%w: the log was not written in time", bourn.ErrUnavailable)
	}
}

// drain commits what waits, in batches, until nothing does. The caller's context does
// not end it: others' entries are in it.
func (w *logWriter) drain() {
	for {
		w.mu.Lock()
		n := min(len(w.waiting), commitMost)
		if n == 0 {
			w.busy = false
			w.mu.Unlock()
			return
		}
		work := w.waiting[:n]
		w.waiting = w.waiting[n:]
		w.mu.Unlock()
		entries := make([]store.EncodedEntry, n)
		for i, p := range work {
			entries[i] = p.entry
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := w.sink.AppendLog(ctx, entries)
		cancel()
		for _, p := range work {
			p.done <- err
		}
	}
}
