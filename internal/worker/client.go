package worker

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"bourn"
	"bourn/internal/workspace"
)

// A Client is the control plane's side of a worker.
type Client struct {
	channel *channel
	closer  io.Closer
	denied  Inherited
	ended   chan struct{}

	mu       sync.Mutex
	children map[string]*waiting
	failed   bool
}

// waiting is a child that was asked for. The reader never waits for it: there is room for
// every piece that may be on its way.
type waiting struct {
	prepared chan *Problem
	started  chan struct{}
	output   chan output
	ended    chan Ended
	begun    bool
}

var errGone = &Problem{Code: bourn.CodeUnavailable, Reason: "worker_unavailable", Text: "what starts children for the run has gone", Hint: "start the run again"}

// Dial greets the worker at the other end of conn, which the client closes.
func Dial(ctx context.Context, conn io.ReadWriteCloser) (*Client, error) {
	c := &Client{channel: &channel{r: conn, w: conn}, closer: conn, ended: make(chan struct{}), children: map[string]*waiting{}}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	m, err := c.channel.receive()
	switch {
	case err != nil:
		err = &Problem{Code: bourn.CodeUnavailable, Reason: "worker_unavailable", Text: fmt.Sprintf("what starts children did not come up: %v", err)}
	case m.Hello == nil || m.Hello.Protocol != Protocol:
		err = &Problem{Code: bourn.CodeConflict, Reason: "worker_unavailable", Text: "what starts children is of another version of bourn", Hint: "install bourn and bournd of one version, and start both again"}
	default:
		c.denied = m.Hello.Denied
	}
	if !stop() && err == nil {
		err = errGone
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go func() {
		defer close(c.ended)
		c.read()
	}()
	return c, nil
}

// read hands out what the worker says, until it has gone. One that does not keep to the
// protocol has gone, too.
func (c *Client) read() {
	for {
		m, err := c.channel.receive()
		c.mu.Lock()
		if err == nil && !c.hear(m) {
			err = bourn.ErrInvalid
		}
		if err != nil {
			c.failed = true
			for _, w := range c.children {
				w.end(Ended{Problem: errGone})
			}
			clear(c.children)
		}
		c.mu.Unlock()
		if err != nil {
			_ = c.closer.Close()
			return
		}
	}
}

// hear takes one message, and reports whether it keeps to the protocol. The lock is held.
func (c *Client) hear(m message) bool {
	w := c.children[m.ID]
	if w == nil {
		return m.Ended != nil || m.Output != nil || m.Started || m.Prepared != nil // of one that was given up
	}
	switch {
	case m.Prepared != nil:
		return put(w.prepared, m.Prepared.Problem)
	case m.Started:
		return put(w.started, struct{}{})
	case m.Output != nil:
		return put(w.output, *m.Output)
	case m.Ended != nil:
		delete(c.children, m.ID)
		w.end(*m.Ended)
		return true
	}
	return false
}

// put puts something where there is room for all that may come.
func put[T any](to chan T, what T) bool {
	select {
	case to <- what:
		return true
	default:
		return false
	}
}

// end says how the child ended, also to who still waits for its plan.
func (w *waiting) end(e Ended) {
	put(w.prepared, e.Problem)
	w.ended <- e
}

// Denied is what the worker's own run is denied.
func (c *Client) Denied() Inherited { return c.denied }

// Ended is closed when the worker has gone.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Close ends the worker's side with every child, and waits until this side is closed.
func (c *Client) Close() {
	_ = c.closer.Close()
	<-c.ended
}

// Prepare has a child planned. After an error there is none; else Run or Drop ends it.
func (c *Client) Prepare(ctx context.Context, run string, j Job) error {
	w := &waiting{prepared: make(chan *Problem, 2), started: make(chan struct{}, 1), output: make(chan output, window), ended: make(chan Ended, 1)}
	c.mu.Lock()
	if c.failed || c.children[run] != nil {
		c.mu.Unlock()
		return errGone
	}
	c.children[run] = w
	c.mu.Unlock()
	if err := c.channel.send(message{ID: run, Prepare: &j}); err != nil {
		c.forget(run)
		if bourn.CodeOf(err) == bourn.CodeInvalid {
			return err
		}
		return errGone
	}
	select {
	case p := <-w.prepared:
		if p != nil {
			c.forget(run)
			return p
		}
		return nil
	case <-ctx.Done():
		c.Drop(run)
		return ErrEnded
	}
}

func (c *Client) forget(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.children, run)
}

// Drop lets go a child that was prepared and is not to be started.
func (c *Client) Drop(run string) {
	_ = c.channel.send(message{ID: run, End: true})
	c.forget(run)
}

// Run starts a child that was prepared, and returns when it and everything that it started
// have ended; when ctx ends, it is ended. Out gets what it prints, one piece at a time; while
// it does not return, the child waits. The error is why it was not executed.
func (c *Client) Run(ctx context.Context, run string, started func(), out func(Stream, []byte)) (Ended, error) {
	c.mu.Lock()
	w := c.children[run]
	c.mu.Unlock()
	if w == nil || w.begun {
		return Ended{}, errGone
	}
	w.begun = true
	if err := c.channel.send(message{ID: run, Start: true}); err != nil {
		c.forget(run)
		return Ended{}, errGone
	}
	e := c.await(ctx, run, w, started, out)
	if e.Problem != nil {
		return e, e.Problem
	}
	return e, nil
}

func (c *Client) await(ctx context.Context, run string, w *waiting, started func(), out func(Stream, []byte)) Ended {
	take := func(o output) {
		out(o.Stream, o.Bytes)
		_ = c.channel.send(message{ID: run, Taken: true}) // it has gone: ended says so
	}
	// Beside what is taken: whoever is told may not listen, and it is to end all the same.
	defer context.AfterFunc(ctx, func() { _ = c.channel.send(message{ID: run, End: true}) })()
	done := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-w.started:
			started()
		case o := <-w.output:
			take(o)
		case e := <-w.ended:
			if len(w.started) > 0 {
				started()
			}
			for len(w.output) > 0 {
				take(<-w.output)
			}
			return e
		case <-done:
			done = nil
			timer := time.NewTimer(giveUp)
			defer timer.Stop()
			late = timer.C
		case <-late:
			c.Close() // with it goes every child
			return <-w.ended
		}
	}
}

// Result makes a job's result of a child's end, with the end of its streams.
func (e Ended) Result(run string, out, err *Kept) workspace.JobResult {
	return workspace.JobResult{Child: run, Status: e.Status, Signal: e.Signal, TimedOut: e.TimedOut, Stdout: out.bytes, Stderr: err.bytes,
		LeftOut: out.left + err.left, Files: e.Files, Refusals: e.Refusals, Notes: e.Notes}
}

// Kept is the end of a stream.
type Kept struct {
	bytes []byte
	left  int64 // bytes before
}

// Add adds what a stream says next.
func (k *Kept) Add(b []byte) {
	k.bytes = append(k.bytes, b...)
	if over := len(k.bytes) - Tail; over > 0 {
		k.left += int64(over)
		k.bytes = append(k.bytes[:0], k.bytes[over:]...)
	}
}
