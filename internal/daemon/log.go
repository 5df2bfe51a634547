package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
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
	quotaRefusals  = 600   // of one run in quotaWithin; more are counted, not written
	quotaEffects   = 6000  // of one run in quotaWithin; more are refused
	maxRuns        = 10000 // whose quotas are counted; the rest share one
	maxLike        = 2000  // refusals that are held against new ones: each some kilobytes
	maxWaiting     = 10000 // entries that wait for a commit; more are refused
	lingerFor      = 5 * time.Millisecond
	maxUnawaited   = 1000 // and of those whose writers do not wait for it
	commitMost     = 2000 // entries that share a commit
	commitWithin   = 10 * time.Second
	settleWithin   = 2 * time.Second // how long a reader of the log waits for what was written before
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
	writing []*pending // what is being committed
	busy    bool       // somebody drains
	lingers bool       // somebody will
	closed  bool
	runs    map[string]*quota
	like    map[likeness]*collapsed
}

type pending struct {
	entry store.EncodedEntry
	done  chan error
	left  chan struct{} // closed when it waits no more, whatever became of it
}

func newPending(e audit.Entry, body []byte) *pending {
	return &pending{store.EncodedEntry{ID: e.ID, At: e.At, Body: body}, make(chan error, 1), make(chan struct{})}
}

// quota counts what a run wrote since a time.
type quota struct {
	since             time.Time
	refusals, effects int
	left              int // refusals that were counted and not written
}

// likeness is what makes two refusals the same, hashed: its parts are as long as they are.
type likeness [sha256.Size]byte

func likenessOf(e audit.Entry) likeness {
	h := sha256.New()
	for _, part := range []string{e.Run, e.Who, e.What, e.Target, e.By, e.Reason, string(e.Outcome)} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		io.WriteString(h, part) //nolint:errcheck // a hash takes everything
	}
	return likeness(h.Sum(nil))
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
		return bourn.WithHint(fmt.Errorf("%w: this run writes more to the log than it may (%d entries a minute)", bourn.ErrUnavailable, quotaEffects),
			"slow down")
	}
	return w.commit(ctx, e)
}

// Later lets an entry that an effect has had be committed after what was committed before,
// and does not wait for it: failed is told of what could not be. It goes with the next entry
// that somebody waits for, if one comes within a moment. Where much waits already it waits,
// too.
func (w *logWriter) Later(e audit.Entry, failed func(error)) {
	body, err := e.Encode(w.now())
	if err != nil {
		failed(err)
		return
	}
	w.mu.Lock()
	if w.closed || len(w.waiting) >= maxUnawaited {
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), commitWithin)
		defer cancel()
		if err := w.commit(ctx, e); err != nil {
			failed(err)
		}
		return
	}
	p := newPending(e, body)
	w.waiting = append(w.waiting, p)
	w.work.Go(func() {
		if err := <-p.done; err != nil {
			failed(err)
		}
	})
	if !w.busy && !w.lingers {
		w.lingers = true
		w.work.Go(w.linger)
	}
	w.mu.Unlock()
}

// settle returns when what was written by now is committed, or could not be: who reads the
// log then finds in it what had been done before. It does not wait long.
func (w *logWriter) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	w.mu.Lock()
	all := slices.Concat(w.writing, w.waiting)
	if !w.busy && len(w.waiting) > 0 {
		w.busy = true
		w.work.Go(w.drain)
	}
	w.mu.Unlock()
	for _, p := range all {
		select {
		case <-p.left:
		case <-ctx.Done():
			return
		}
	}
}

// linger commits what nobody waits for, unless somebody's entry has taken it along.
func (w *logWriter) linger() {
	time.Sleep(lingerFor)
	w.mu.Lock()
	w.lingers = false
	idle := !w.busy && len(w.waiting) > 0
	w.busy = w.busy || idle
	w.mu.Unlock()
	if idle {
		w.drain()
	}
}

// Effect commits an entry, lets its effect happen and adds how that ended. An outcome that
// cannot be written changes nothing: the log says that the effect was allowed.
func (w *logWriter) Effect(ctx context.Context, e audit.Entry, effect func() error) error {
	if e.ID == "" {
		e.ID = audit.NewID()
	}
	if err := w.Append(ctx, e); err != nil {
		return err
	}
	began := w.now()
	err := effect()
	outcome := audit.Entry{Kind: audit.KindOutcome, Who: e.Who, Run: e.Run, What: e.What, Of: e.ID, Outcome: audit.Done, Trace: e.Trace, Duration: w.now().Sub(began).Microseconds()}
	if err != nil {
		outcome.Outcome, outcome.Reason = audit.Failed, string(bourn.CodeOf(err))
	}
	// What has happened is said also of a caller who has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer cancel()
	_ = w.commit(ctx, outcome)
	return err
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

// Close lets nothing in any more and returns when nothing is being written.
func (w *logWriter) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.work.Wait()
}

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
	key := likenessOf(e)
	// One that has a count goes on counting until Flush has written it.
	if c := w.like[key]; c != nil && (c.more > 0 || now.Sub(c.since) < collapseWithin) {
		c.more++
		return false
	}
	q := w.quota(e.Run)
	q.refusals++
	if q.refusals > quotaRefusals {
		q.left++
		return false
	}
	if _, err := e.Encode(now); err == nil && (len(w.like) < maxLike || w.like[key] != nil) {
		w.like[key] = &collapsed{entry: e, since: now} // cut to an entry's limits by now
	}
	return true
}

// manyRuns is the name that the quota of all runs beyond maxRuns has.
const manyRuns = "\x00"

func (w *logWriter) quota(run string) *quota {
	q := w.runs[run]
	if q == nil && run != "" && len(w.runs) >= maxRuns {
		run = manyRuns
		q = w.runs[run]
	}
	if q == nil {
		q = &quota{since: w.now()}
		w.runs[run] = q
	}
	if now := w.now(); now.Sub(q.since) >= quotaWithin {
		*q = quota{since: now, left: q.left}
	}
	return q
}

// Flush writes the counts of what was left out and is old enough, or of all of it. A count
// that cannot be written is kept for the next time.
func (w *logWriter) Flush(ctx context.Context, all bool) error {
	counts, waiting := w.due(all)
	var failed error
	for i, p := range waiting {
		if err := w.wait(ctx, p); err != nil {
			failed = err
			w.keep(counts[i])
		}
	}
	return failed
}

// A tally is an entry that stands for others, with where they were counted.
type tally struct {
	run  string   // of a quota
	like likeness // else
	c    collapsed
}

// due takes the counts that are to be written, and hands their entries to whoever commits.
func (w *logWriter) due(all bool) (counts []tally, waiting []*pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	add := func(c tally) {
		e := c.c.entry
		e.ID, e.At, e.Repeated = "", time.Time{}, c.c.more
		body, err := e.Encode(now)
		if err != nil {
			return // it was encoded before: it can be
		}
		counts = append(counts, c)
		waiting = append(waiting, w.enter(e, body))
	}
	for key, c := range w.like {
		if !all && now.Sub(c.since) < collapseWithin {
			continue
		}
		delete(w.like, key)
		if c.more > 0 {
			add(tally{like: key, c: *c})
		}
	}
	for run, q := range w.runs {
		if !all && now.Sub(q.since) < quotaWithin && q.left == 0 {
			continue
		}
		left := q.left
		q.left = 0
		if all || now.Sub(q.since) >= quotaWithin {
			delete(w.runs, run)
		}
		if left > 0 {
			e := audit.Entry{Kind: audit.KindAction, Who: "host", Run: run, What: "refusals beyond the run's quota", Outcome: audit.Denied}
			if run == manyRuns {
				e.Run, e.What = "", "refusals beyond the quota of many runs"
			}
			add(tally{run: run, c: collapsed{entry: e, more: left}})
		}
	}
	return counts, waiting
}

// keep takes back a count that was not written.
func (w *logWriter) keep(c tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.like == (likeness{}) {
		w.quota(c.run).left += c.c.more
		return
	}
	if now := w.like[c.like]; now != nil {
		now.more += c.c.more
		return
	}
	w.like[c.like] = &c.c
}

// commit writes an entry and waits for it.
func (w *logWriter) commit(ctx context.Context, e audit.Entry) error {
	body, err := e.Encode(w.now())
	if err != nil {
		return err
	}
	w.mu.Lock()
	var p *pending
	if !w.closed && len(w.waiting) < maxWaiting {
		p = w.enter(e, body)
	}
	w.mu.Unlock()
	if p == nil {
		return bourn.WithHint(fmt.Errorf("%w: more is to be written to the log than it takes", bourn.ErrUnavailable), "try again later; see bourn db status")
	}
	return w.wait(ctx, p)
}

// enter lets an encoded entry wait for a commit. The lock is held.
func (w *logWriter) enter(e audit.Entry, body []byte) *pending {
	p := newPending(e, body)
	w.waiting = append(w.waiting, p)
	if !w.busy {
		w.busy = true
		w.work.Go(w.drain)
	}
	return p
}

// wait returns when an entry was committed. One whose caller waits no longer is taken
// back, unless it is being committed.
func (w *logWriter) wait(ctx context.Context, p *pending) error {
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
	}
	w.mu.Lock()
	if i := slices.Index(w.waiting, p); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
		close(p.left)
	}
	w.mu.Unlock()
	// It may be committed yet: nothing may happen, and the log says that it was asked for.
	return bourn.WithHint(fmt.Errorf("%w: the log was not written in time", bourn.ErrUnavailable), "try again; see bourn db status")
}

// drain commits what waits, in batches, until nothing does. The caller's context does
// not end it: others' entries are in it.
func (w *logWriter) drain() {
	for {
		w.mu.Lock()
		n := min(len(w.waiting), commitMost)
		if n == 0 {
			w.waiting, w.writing, w.busy = nil, nil, false
			w.mu.Unlock()
			return
		}
		batch := slices.Clone(w.waiting[:n])
		w.waiting, w.writing = w.waiting[n:], batch
		w.mu.Unlock()
		w.write(batch)
	}
}

// write commits entries together; of those that the database refuses it finds the ones that
// are the reason, and the others are committed all the same.
func (w *logWriter) write(batch []*pending) {
	entries := make([]store.EncodedEntry, len(batch))
	for i, p := range batch {
		entries[i] = p.entry
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitWithin)
	err := w.sink.AppendLog(ctx, entries)
	cancel()
	if err != nil && len(batch) > 1 && bourn.CodeOf(err) != bourn.CodeUnavailable {
		w.write(batch[:len(batch)/2])
		w.write(batch[len(batch)/2:])
		return
	}
	for _, p := range batch {
		p.done <- err
		close(p.left)
	}
}
