package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"bourn"
)

// A Client is the owner's side of an actor.
type Client struct {
	channel *channel
	closer  io.Closer
	hello   hello
	ended   chan struct{}

	mu     sync.Mutex
	next   uint64
	calls  map[uint64]*waiting
	failed error
}

type waiting struct {
	done  chan done
	chunk func([]byte)
}

// errGone is what calls get when their actor has ended.
var errGone = fmt.Errorf("%w: the actor has ended", bourn.ErrUnavailable)

// Dial greets the actor at the other end of conn, which the client closes.
func Dial(ctx context.Context, conn io.ReadWriteCloser) (*Client, error) {
	c := &Client{channel: newChannel(conn), closer: conn, calls: map[uint64]*waiting{}, ended: make(chan struct{})}
	greeted := make(chan error, 1)
	go func() {
		m, err := c.channel.receive()
		switch {
		case err != nil:
			err = fmt.Errorf("%w: the actor did not come up: %w", bourn.ErrUnavailable, err)
		case m.Hello == nil || m.Hello.Protocol != Protocol:
			err = bourn.WithHint(fmt.Errorf("%w: the actor is of another version of bourn", bourn.ErrConflict), "install bourn and bournd of one version, and start both again")
		default:
			c.hello = *m.Hello
		}
		greeted <- err
		if err != nil {
			close(c.ended)
			return
		}
		c.read()
	}()
	select {
	case err := <-greeted:
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return c, nil
	case <-ctx.Done():
		err := conn.Close()
		<-greeted
		return nil, errors.Join(fmt.Errorf("%w: the actor did not come up in time", bourn.ErrUnavailable), err)
	}
}

// read hands out what the actor sends, until it has gone.
func (c *Client) read() {
	defer close(c.ended)
	for {
		m, err := c.channel.receive()
		c.mu.Lock()
		if err != nil {
			c.failed = errGone
			for id, w := range c.calls {
				delete(c.calls, id)
				w.done <- done{Problem: &Problem{Code: bourn.CodeUnavailable, Text: "the actor has ended"}}
			}
			c.mu.Unlock()
			return
		}
		w := c.calls[m.ID]
		if m.Done != nil {
			delete(c.calls, m.ID)
		}
		c.mu.Unlock()
		switch {
		case w == nil: // cancelled, and answered all the same
		case m.Done != nil:
			w.done <- *m.Done
		case len(m.Chunk) > 0 && w.chunk != nil:
			w.chunk(m.Chunk)
		}
	}
}

// SetRules forwards the hard blocks that hold for every call after this one. A nil document
// means that they could not be read: the actor changes nothing then.
func (c *Client) SetRules(document []byte) error {
	if err := c.channel.send(message{Rules: &rules{Document: document}}); err != nil {
		return errGone
	}
	return nil
}

// Do has a request performed and reads its result into result. chunk, if not nil, gets
// output as it comes, one piece at a time. When ctx ends the call is cancelled, and what
// it had begun is ended before Do returns.
func (c *Client) Do(ctx context.Context, r Request, review Review, result any, chunk func([]byte)) error {
	w := &waiting{done: make(chan done, 1), chunk: chunk}
	c.mu.Lock()
	if c.failed != nil {
		c.mu.Unlock()
		return c.failed
	}
	c.next++
	id := c.next
	c.calls[id] = w
	c.mu.Unlock()
	if err := c.channel.send(message{ID: id, Call: &call{r, review}}); err != nil {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		if bourn.CodeOf(err) == bourn.CodeInvalid {
			return err
		}
		return errGone
	}
	var d done
	select {
	case d = <-w.done:
	case <-ctx.Done():
		if err := c.channel.send(message{ID: id, Cancel: true}); err != nil {
			return errGone
		}
		d = <-w.done
	}
	if d.Problem != nil {
		return d.Problem
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(d.Result, result); err != nil {
		return fmt.Errorf("%w: the actor's answer cannot be read: %w", bourn.ErrInternal, err)
	}
	return nil
}

// Ended is closed when the actor has gone.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Cwd is the directory that the actor's relative paths begin in.
func (c *Client) Cwd() string { return c.hello.Cwd }

// Close ends the actor with all that it started, and waits until it has gone.
func (c *Client) Close() error {
	err := c.closer.Close()
	<-c.ended
	return err
}
