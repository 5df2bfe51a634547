package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"bourn"
	"bourn/internal/review"
)

// An Actor performs requests. It is to run under a seal, as the person, in a process that
// does nothing else: it adopts and ends what its commands leave behind, and every child that
// it does not know counts as that.
type Actor struct {
	Version  string
	Cwd      string   // absolute: what relative paths begin in
	Home     string   // what ~ stands for, in rules and in paths; empty where that is an error
	FoldCase bool     // the file system does not tell upper from lower case
	Env      []string // of what is executed
	Spill    string   // a directory for output that is too long to answer with; empty for none
	// Sole: nothing else is in its pid namespace but what it starts and the first process. What
	// a call leaves behind is ended in one step then, also where it goes on starting others.
	Sole bool

	family family
	// moving is held for reading while files are put in their places, and for writing from the
	// judging of what is in a directory to its move: what it holds is what was judged.
	moving sync.RWMutex
}

// maxCalls is how many calls an actor performs at once; more wait.
const maxCalls = 32

// Serve performs what comes in on conn until that is closed, then ends everything that it
// started and closes its own side. It returns nil when its owner has gone, and an error when
// the owner does not keep to the protocol.
func (a *Actor) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &serving{actor: a, channel: newChannel(conn), rules: review.Invalid(errors.New("no rules were forwarded")),
		running: map[uint64]*running{}, slots: make(chan struct{}, maxCalls), ended: make(chan error, 1), relief: relief{after: handOver}}
	a.family.adopt(a.Sole)
	defer a.family.end()
	defer s.settle(settleWithin)
	defer conn.Close() // before waiting: a call may be sending to who no longer reads
	defer cancel()
	// Who ends ctx ends the waiting for the next message.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := s.channel.send(message{Hello: &hello{Protocol: Protocol, Version: a.Version, Pid: os.Getpid(), Cwd: a.Cwd, Home: a.Home}}); err != nil {
		return nil // it has gone already
	}
	go s.listen(ctx)
	return <-s.ended
}

// settleWithin is how long calls may take to end that nobody waits for any more. One that
// cannot be interrupted ends with the process.
const settleWithin = 5 * time.Second

// settle waits for the calls that are being performed.
func (s *serving) settle(within time.Duration) {
	still := make(chan struct{})
	go func() {
		defer close(still)
		s.all.Wait()
	}()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-still:
	case <-late.C:
	}
}

// serving is an actor with its owner.
type serving struct {
	actor   *Actor
	channel *channel
	all     sync.WaitGroup
	slots   chan struct{}
	ended   chan error // gets one when nobody listens any more
	relief  relief

	mu      sync.Mutex
	rules   *review.Compiled
	running map[uint64]*running
}

// running is a call that is being performed.
type running struct {
	cancel context.CancelFunc
	window chan struct{} // holds what may still be sent
	input  *inlet        // of a command that is attached, else nil
}

// base is what paths in rules are relative to, on both sides of a channel.
func (a *Actor) base() review.Base {
	return review.Base{Root: a.Cwd, Home: a.Home, FoldCase: a.FoldCase}
}

// handOver is how long a call may take that is performed by who listens, before another does.
// It is long enough for a call that only waits for a processor.
const handOver = 20 * time.Millisecond

// quick are the verbs that are performed by who listens: for them, waking another thread
// takes longer than the work.
var quick = map[Verb]bool{Read: true, Inspect: true}

// listen takes messages until the owner has gone. Where a quick call turns out to be none, as
// on a file system that does not answer, another goroutine goes on listening.
func (s *serving) listen(ctx context.Context) {
	for {
		m, err := s.channel.receive()
		if err != nil {
			if !errors.Is(err, bourn.ErrInvalid) {
				err = nil
			}
			s.ended <- err
			return
		}
		switch {
		case m.Rules != nil:
			s.setRules(m.Rules.Document)
		case m.Call != nil:
			m.Call.Request.Content = m.blob
			perform := s.start(ctx, m.ID, *m.Call)
			if perform == nil {
				continue
			}
			if !quick[m.Call.Request.Verb] || len(s.slots) == cap(s.slots) {
				// Another goroutine listens: to start one takes less time than to be started.
				s.all.Add(1)
				go s.listen(ctx)
				perform()
				s.all.Done()
				return
			}
			s.all.Add(1)
			call := s.relief.begin(func() { s.listen(ctx) })
			perform()
			s.all.Done()
			if s.relief.end(call) {
				return
			}
		case m.Cancel:
			s.cancel(m.ID)
		case m.Taken:
			s.taken(m.ID)
		case m.Input != nil:
			s.input(m.ID, *m.Input, m.blob)
		}
	}
}

// setRules compiles what the owner forwarded. What cannot be read denies every change.
func (s *serving) setRules(document []byte) {
	compiled := review.Invalid(errors.New("the forwarded rules could not be read"))
	if base := s.actor.base(); len(document) > 0 {
		if b, problems := review.Parse(document, base); len(problems) == 0 {
			if c, err := review.Compile(b, base); err == nil {
				compiled = c
			}
		}
	}
	s.mu.Lock()
	s.rules = compiled
	s.mu.Unlock()
}

// start enters a call and returns what performs it. The rules that hold are those that were
// forwarded before it. An id that is in use belongs to the call that came first: nil.
func (s *serving) start(ctx context.Context, id uint64, c call) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	rules := s.rules
	if _, twice := s.running[id]; twice {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel}
	if c.Chunks {
		r.window = make(chan struct{}, window)
		for range window {
			r.window <- struct{}{}
		}
	}
	if c.Request.Verb == Exec && c.Request.Attached {
		r.input = newInlet(func() { _ = s.channel.send(message{ID: id, Taken: true}) })
	}
	s.running[id] = r
	return func() {
		result, err := s.perform(ctx, r, rules, id, c)
		// Its id is free again before the owner can know.
		s.mu.Lock()
		delete(s.running, id)
		s.mu.Unlock()
		cancel()
		s.answer(id, result, err)
	}
}

func (s *serving) perform(ctx context.Context, r *running, rules *review.Compiled, id uint64, c call) (result any, err error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, cancelled
	}
	defer func() {
		// A call is the agent's to choose: one that meets a defect is not to end the others.
		if p := recover(); p != nil {
			result, err = nil, &Problem{Code: bourn.CodeInternal, Reason: "operation_failed", Text: fmt.Sprintf("a defect of bourn: %v", p)}
		}
	}()
	w := &work{actor: s.actor, rules: rules, review: c.Review, request: c.Request}
	w.input = r.input
	if c.Chunks {
		w.chunk = func(b []byte, errs bool) {
			select {
			case <-r.window:
				_ = s.channel.send(message{ID: id, Chunk: true, Errs: errs, blob: b})
			case <-ctx.Done():
			}
		}
	}
	return w.perform(ctx)
}

var cancelled = &Problem{Code: bourn.CodeUnavailable, Reason: "cancelled", Text: "the call was cancelled"}

func (s *serving) cancel(id uint64) {
	s.mu.Lock()
	r := s.running[id]
	s.mu.Unlock()
	if r != nil {
		r.cancel()
	}
}

// input hands a program what it reads, or the size of its terminal. More than may be on its
// way ends the call.
func (s *serving) input(id uint64, in input, b []byte) {
	s.mu.Lock()
	r := s.running[id]
	s.mu.Unlock()
	if r == nil || r.input == nil {
		return // it has ended
	}
	if !r.input.put(in, b) {
		r.cancel()
	}
}

// taken lets a call send one more chunk.
func (s *serving) taken(id uint64) {
	s.mu.Lock()
	r := s.running[id]
	s.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case r.window <- struct{}{}:
	default: // more than were sent
	}
}

// answer sends what came of a call. One that is too long to be sent is a problem.
func (s *serving) answer(id uint64, result any, err error) {
	m := message{ID: id, Done: &done{}}
	if from, ok := result.(interface{ detach() (any, []byte) }); ok {
		result, m.blob = from.detach()
	}
	if err == nil {
		m.Done.Result, err = json.Marshal(result)
	}
	if err != nil {
		m = message{ID: id, Done: &done{Problem: problemOf(err)}}
	}
	if err := s.channel.send(m); err != nil && bourn.CodeOf(err) == bourn.CodeInvalid {
		_ = s.channel.send(message{ID: id, Done: &done{Problem: &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: "the answer is too long", Hint: "ask for less"}}})
	}
}

// problemOf is an error as the owner gets it.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Code: bourn.CodeOf(err), Reason: "operation_failed", Text: err.Error(), Hint: bourn.HintOf(err)}
}

// work is one call being performed.
type work struct {
	actor   *Actor
	rules   *review.Compiled
	review  Review
	request Request
	chunk   func(b []byte, errs bool) // nil: nobody wants any
	input   *inlet                    // of a command that is attached, else nil
}

// perform judges the request, and does it.
func (w *work) perform(ctx context.Context) (any, error) {
	action, err := w.request.Action()
	if err != nil {
		return nil, err
	}
	// Reviewed, allowed, and this very action by these very rules: else it was made up, is
	// stale, or was changed on the way.
	if w.review.Outcome != bourn.Allow || w.review.Action != action.Digest() || w.review.Rules != w.rules.Digest() {
		return nil, &Problem{Code: bourn.CodeDenied, Reason: "unreviewed", Text: "the action has no allowed review of its own", Hint: "ask again"}
	}
	if err := w.judge(action); err != nil {
		return nil, err
	}
	return w.do(ctx)
}

// judge refuses what the rules deny, and what they ask about: the review had allowed it.
func (w *work) judge(action bourn.Action) error {
	v := review.Judge(action, w.rules)
	if v.Outcome == bourn.Allow {
		return nil
	}
	reason, text := "reviewed_otherwise", "the actor's own review is stricter"
	if len(v.Reasons) > 0 {
		reason, text = v.Reasons[0].Blocker(), "a hard block refuses it"
		if v.Reasons[0].Text != "" {
			text += ": " + v.Reasons[0].Text
		}
	}
	return &Problem{Code: bourn.CodeDenied, Reason: reason, Text: text, Hint: "ask a person; bourn boundaries test says which rule it is"}
}

// opened judges what a path turned out to be, before anything is done with it: as it was
// given, made absolute, and as it was found.
func (w *work) opened(given, resolved string, operations ...bourn.Operation) error {
	action := bourn.Action{Tool: w.request.Tool, Tier: verbs[w.request.Verb].tier}
	for _, o := range operations {
		if o == bourn.Read && isAside(resolved) {
			return besideAnother(resolved)
		}
		action.Targets = append(action.Targets, bourn.Target{Operation: o, Path: given, Resolved: resolved})
	}
	return w.judge(action)
}

// ruled reports whether there are rules at all that could deny a path.
func (w *work) ruled() bool { return w.rules.Digest() != noRules() }

// noRules is the digest of rules that are none.
var noRules = sync.OnceValue(func() string { return review.NoRules().Digest() })
