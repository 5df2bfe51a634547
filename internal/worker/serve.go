package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"bourn"
)

// A Handler is a worker: what makes children.
type Handler struct {
	Denied Inherited // what the worker's own run is denied
	// Prepare plans a child and starts nothing. Ctx ends with the connection.
	Prepare func(ctx context.Context, run string, j Job) (Child, error)
}

// A Child is planned, and not started yet. Exactly one of its methods is called.
type Child interface {
	// Run starts it and returns when it and everything that it started have ended, which is
	// soon after ctx has. Started is called when it is sealed, out with what it prints.
	Run(ctx context.Context, started func(), out func(Stream, []byte)) (Ended, error)
	// Drop lets go what the plan holds.
	Drop()
}

// maxPrepared is how many children a connection has at once, started or not.
const maxPrepared = 64

// Serve does what the control plane says on conn until that is closed or ctx ends; then it
// ends every child, waits for it, and closes its own side. It returns nil when the control
// plane has gone, and an error where that does not keep to the protocol.
func Serve(ctx context.Context, conn io.ReadWriteCloser, h Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &serving{handler: h, channel: &channel{r: conn, w: conn}, children: map[string]*child{}}
	defer s.all.Wait()
	defer conn.Close() // before waiting: a child may be sending to who no longer reads
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if s.channel.send(message{Hello: &hello{Protocol: Protocol, Denied: h.Denied}}) != nil {
		return nil // it has gone already
	}
	for {
		m, err := s.channel.receive()
		if err == nil {
			err = s.hear(ctx, m)
		}
		if err != nil {
			if errors.Is(err, bourn.ErrInvalid) {
				return err
			}
			return nil
		}
	}
}

type serving struct {
	handler Handler
	channel *channel
	all     sync.WaitGroup

	mu       sync.Mutex
	children map[string]*child
}

// child is one of a connection's.
type child struct {
	ctx    context.Context
	cancel context.CancelFunc
	start  chan struct{} // closed when it is to start
	told   bool
	window chan struct{} // holds what may still be sent
}

// hear takes one message. An error ends the connection.
func (s *serving) hear(ctx context.Context, m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.children[m.ID]
	switch {
	case m.Hello != nil || m.Prepared != nil || m.Started || m.Output != nil || m.Ended != nil:
		return fmt.Errorf("%w: a message that is a worker's to send", bourn.ErrInvalid)
	case m.Prepare != nil:
		if c != nil || m.ID == "" || len(s.children) >= maxPrepared {
			return fmt.Errorf("%w: a child that cannot be told from another, or too many", bourn.ErrInvalid)
		}
		c = &child{start: make(chan struct{}), window: make(chan struct{}, window)}
		for range window {
			c.window <- struct{}{}
		}
		c.ctx, c.cancel = context.WithCancel(ctx)
		s.children[m.ID] = c
		s.all.Go(func() { s.live(m.ID, c, *m.Prepare) })
	case c == nil: // it has ended just now
	case m.Start:
		if c.told {
			return fmt.Errorf("%w: a child is started twice", bourn.ErrInvalid)
		}
		c.told = true
		close(c.start)
	case m.End:
		c.cancel()
	case m.Taken:
		select {
		case c.window <- struct{}{}:
		default: // more than were sent
		}
	}
	return nil
}

// live is a child from its plan to its end.
func (s *serving) live(run string, c *child, j Job) {
	defer c.cancel()
	planned, err := s.handler.Prepare(c.ctx, run, j)
	_ = s.channel.send(message{ID: run, Prepared: &prepared{Problem: problemOf(err)}}) // its end is heard by who listens
	ended := Ended{}
	if err == nil {
		ended, err = s.perform(run, c, planned)
	}
	ended.Problem = problemOf(err)
	s.mu.Lock()
	delete(s.children, run) // before the other side can know
	s.mu.Unlock()
	if err := s.channel.send(message{ID: run, Ended: &ended}); err != nil && errors.Is(err, bourn.ErrInvalid) {
		_ = s.channel.send(message{ID: run, Ended: &Ended{Status: ended.Status, Signal: ended.Signal, TimedOut: ended.TimedOut}})
	}
}

func (s *serving) perform(run string, c *child, planned Child) (Ended, error) {
	select {
	case <-c.start:
	case <-c.ctx.Done():
	}
	if c.ctx.Err() != nil {
		planned.Drop()
		return Ended{}, ErrEnded
	}
	return planned.Run(c.ctx, func() {
		_ = s.channel.send(message{ID: run, Started: true})
	}, func(stream Stream, b []byte) {
		for len(b) > 0 {
			piece := b[:min(len(b), maxPiece)]
			b = b[len(piece):]
			select {
			case <-c.window:
			case <-c.ctx.Done(): // nobody waits for what it still prints
				return
			}
			if s.channel.send(message{ID: run, Output: &output{stream, piece}}) != nil {
				return // its end is heard by who listens
			}
		}
	})
}

// ErrEnded is why a child that was to end came to nothing.
var ErrEnded = &Problem{Code: bourn.CodeUnavailable, Reason: "cancelled", Text: "it was ended"}
