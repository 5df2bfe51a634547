package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"bourn"
	"bourn/internal/review"
)

// An Actor performs requests. It is to run under a seal, as the person.
type Actor struct {
	Version string
	Cwd     string   // absolute: what relative paths begin in
	Home    string   // what ~ stands for in rules
	Env     []string // of what is executed
	Spill   string   // a directory for output that is too long to answer with; empty for none
}

// maxCalls is how many calls an actor performs at once; more wait.
const maxCalls = 32

// Serve performs what comes in on conn until it is closed, then ends everything that it
// started. It returns nil when its owner has gone.
func (a *Actor) Serve(ctx context.Context, conn io.ReadWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &serving{actor: a, channel: newChannel(conn), rules: review.Invalid(errors.New("no rules were forwarded")),
		running: map[uint64]context.CancelFunc{}, slots: make(chan struct{}, maxCalls)}
	defer s.all.Wait()
	defer cancel()
	if err := s.channel.send(message{Hello: &hello{Protocol: Protocol, Version: a.Version, Pid: os.Getpid(), Cwd: a.Cwd}}); err != nil {
		return err
	}
	for {
		m, err := s.channel.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case m.Rules != nil:
			s.setRules(m.Rules.Document)
		case m.Call != nil:
			s.start(ctx, m.ID, *m.Call)
		case m.Cancel:
			s.cancel(m.ID)
		}
	}
}

// serving is an actor with its owner.
type serving struct {
	actor   *Actor
	channel *channel
	all     sync.WaitGroup
	slots   chan struct{}

	mu      sync.Mutex
	rules   *review.Compiled
	running map[uint64]context.CancelFunc
}

// setRules compiles what the owner forwarded. What cannot be read denies every change.
func (s *serving) setRules(document []byte) {
	compiled := review.Invalid(errors.New("the forwarded rules could not be read"))
	if base := (review.Base{Root: s.actor.Cwd, Home: s.actor.Home}); len(document) > 0 {
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

// start performs a call beside the others. The rules that hold are those that were
// forwarded before it.
func (s *serving) start(ctx context.Context, id uint64, c call) {
	s.mu.Lock()
	rules := s.rules
	if _, twice := s.running[id]; twice {
		s.mu.Unlock()
		return // the first will answer
	}
	ctx, cancel := context.WithCancel(ctx)
	s.running[id] = cancel
	s.mu.Unlock()
	s.all.Go(func() {
		defer s.cancel(id)
		defer cancel()
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-ctx.Done():
			s.answer(id, nil, cancelled)
			return
		}
		w := &work{actor: s.actor, rules: rules, review: c.Review, request: c.Request,
			chunk: func(b []byte) error { return s.channel.send(message{ID: id, Chunk: b}) }}
		result, err := w.perform(ctx)
		s.answer(id, result, err)
	})
}

var cancelled = &Problem{Code: bourn.CodeUnavailable, Reason: "cancelled", Text: "the call was cancelled"}

func (s *serving) cancel(id uint64) {
	s.mu.Lock()
	cancel := s.running[id]
	delete(s.running, id)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// answer sends what came of a call. One that is too long to be sent is a problem.
func (s *serving) answer(id uint64, result any, err error) {
	d := done{}
	if err == nil {
		d.Result, err = json.Marshal(result)
	}
	if err != nil {
		d = done{Problem: problemOf(err)}
	}
	if err := s.channel.send(message{ID: id, Done: &d}); err != nil && bourn.CodeOf(err) == bourn.CodeInvalid {
		_ = s.channel.send(message{ID: id, Done: &done{Problem: &Problem{Code: bourn.CodeInvalid, Reason: "too_large", Text: "the answer is too long", Hint: "ask for less"}}})
	}
}

// problemOf is an error as the owner gets it.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	return &Problem{Code: bourn.CodeOf(err), Reason: reasonOf(err), Text: err.Error(), Hint: bourn.HintOf(err)}
}

// work is one call being performed.
type work struct {
	actor   *Actor
	rules   *review.Compiled
	review  Review
	request Request
	chunk   func([]byte) error
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

// opened judges what a path turned out to be, before anything is done with it.
func (w *work) opened(o bourn.Operation, given, resolved string) error {
	action := bourn.Action{Tool: w.request.Tool, Tier: verbs[w.request.Verb].tier, Targets: []bourn.Target{{Operation: o, Path: given, Resolved: resolved}}}
	if err := w.judge(action); err != nil {
		return err
	}
	return nil
}
