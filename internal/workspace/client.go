package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

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
	failed bool
}

// waiting is a call that was sent. The reader never waits for it: there is room for every
// chunk that may be on its way.
type waiting struct {
	done   chan done
	over   chan struct{} // closed with done
	chunks chan printed
	room   chan struct{} // holds what may still be sent for it to read
	blob   []byte        // of the result, set before done
}

// printed is a piece of what a command prints.
type printed struct {
	bytes []byte
	errs  bool
}

func (w *waiting) end(d done) {
	w.done <- d
	close(w.over)
}

// giveUp is how long an actor has to answer a cancelled call before it is given up whole.
const giveUp = 5 * time.Second

// errGone is what calls get when their actor has ended.
var errGone = &Problem{Code: bourn.CodeUnavailable, Reason: "actor_runtime_unavailable", Text: "the actor has ended"}

// Dial greets the actor at the other end of conn, which the client closes.
func Dial(ctx context.Context, conn io.ReadWriteCloser) (*Client, error) {
	c := &Client{channel: newChannel(conn), closer: conn, calls: map[uint64]*waiting{}, ended: make(chan struct{})}
	greeted := make(chan error, 1)
	go func() {
		defer close(c.ended)
		err := c.greet()
		greeted <- err
		if err == nil {
			c.read()
		}
	}()
	select {
	case err := <-greeted:
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return c, nil
	case <-ctx.Done():
		err := conn.Close()
		<-c.ended
		return nil, errors.Join(&Problem{Code: bourn.CodeUnavailable, Reason: "actor_runtime_unavailable", Text: "the actor did not come up in time"}, err)
	}
}

func (c *Client) greet() error {
	m, err := c.channel.receive()
	switch {
	case err != nil:
		return &Problem{Code: bourn.CodeUnavailable, Reason: "actor_runtime_unavailable", Text: fmt.Sprintf("the actor did not come up: %v", err)}
	case m.Done != nil && m.Done.Problem != nil: // see Refuse
		return m.Done.Problem
	case m.Hello == nil || m.Hello.Protocol != Protocol:
		return otherVersion
	}
	c.hello = *m.Hello
	return nil
}

// read hands out what the actor sends, until it has gone. An actor that does not keep to the
// protocol has gone, too.
func (c *Client) read() {
	for {
		m, err := c.channel.receive()
		c.mu.Lock()
		w := c.calls[m.ID]
		if err == nil && m.Chunk && w != nil {
			select {
			case w.chunks <- printed{m.blob, m.Errs}:
			default:
				err = errors.New("more chunks than were asked for")
			}
		}
		if err != nil {
			c.failed = true
			for id, w := range c.calls {
				delete(c.calls, id)
				w.end(done{Problem: errGone})
			}
			c.mu.Unlock()
			_ = c.closer.Close()
			return
		}
		if m.Done != nil && w != nil {
			delete(c.calls, m.ID)
			w.blob = m.blob
			w.end(*m.Done)
		}
		if m.Taken && w != nil {
			select {
			case w.room <- struct{}{}:
			default: // more than were sent
			}
		}
		c.mu.Unlock()
	}
}

// SetRules forwards the hard blocks that hold for every call after this one. A nil document
// means that they could not be read: the actor changes nothing then.
func (c *Client) SetRules(document []byte) error {
	err := c.channel.send(message{Rules: &rules{Document: document}})
	if err != nil && bourn.CodeOf(err) != bourn.CodeInvalid {
		return errGone
	}
	return err
}

// Do has a request performed and reads its result into result. chunk, if not nil, gets
// output as it comes, one piece at a time; while it does not return, what is executed
// waits, and nobody else does. When ctx ends the call is cancelled, and what it had begun is
// ended before Do returns.
func (c *Client) Do(ctx context.Context, r Request, review Review, result any, chunk func([]byte)) error {
	id, w, err := c.begin(r, review, chunk != nil)
	if err != nil {
		return err
	}
	var out func([]byte, bool)
	if chunk != nil {
		out = func(b []byte, _ bool) { chunk(b) }
	}
	return c.finish(ctx, id, w, result, out)
}

// begin sends a call.
func (c *Client) begin(r Request, review Review, chunks bool) (uint64, *waiting, error) {
	w := &waiting{done: make(chan done, 1), over: make(chan struct{}), chunks: make(chan printed, window), room: make(chan struct{}, window)}
	for range window {
		w.room <- struct{}{}
	}
	c.mu.Lock()
	if c.failed {
		c.mu.Unlock()
		return 0, nil, errGone
	}
	c.next++
	id := c.next
	c.calls[id] = w
	c.mu.Unlock()
	content := r.Content
	r.Content = nil
	if err := c.channel.send(message{ID: id, Call: &call{r, review, chunks}, blob: content}); err != nil {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		if bourn.CodeOf(err) == bourn.CodeInvalid {
			return 0, nil, err
		}
		return 0, nil, errGone
	}
	return id, w, nil
}

// finish waits for what comes of a call.
func (c *Client) finish(ctx context.Context, id uint64, w *waiting, result any, chunk func([]byte, bool)) error {
	// Cancelled from beside, as this one may be in chunk.
	stop := context.AfterFunc(ctx, func() { _ = c.channel.send(message{ID: id, Cancel: true}) })
	defer stop()
	d := c.await(ctx, id, w, chunk)
	if d.Problem != nil {
		return d.Problem
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(d.Result, result); err != nil {
		return fmt.Errorf("%w: the actor's answer cannot be read: %w", bourn.ErrInternal, err)
	}
	if to, ok := result.(interface{ attach([]byte) }); ok {
		to.attach(w.blob)
	}
	return nil
}

// await hands out chunks until the call is done.
func (c *Client) await(ctx context.Context, id uint64, w *waiting, chunk func([]byte, bool)) done {
	for {
		select {
		case b := <-w.chunks:
			if ctx.Err() != nil || chunk == nil {
				continue
			}
			chunk(b.bytes, b.errs)
			if err := c.channel.send(message{ID: id, Taken: true}); err != nil {
				continue // it has gone: done says so
			}
		case d := <-w.done:
			for len(w.chunks) > 0 {
				if b := <-w.chunks; ctx.Err() == nil && chunk != nil {
					chunk(b.bytes, b.errs)
				}
			}
			return d
		case <-ctx.Done():
			return c.cancelled(w)
		}
	}
}

// cancelled waits for the answer to a call that was cancelled. An actor that owes it too
// long is given up.
func (c *Client) cancelled(w *waiting) done {
	late := time.NewTimer(giveUp)
	defer late.Stop()
	for {
		select {
		case <-w.chunks:
		case d := <-w.done:
			return d
		case <-late.C:
			_ = c.closer.Close()
			<-c.ended
			return <-w.done
		}
	}
}

// Ended is closed when the actor has gone.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Pid is the actor's process, as it sees itself: under a seal, in a namespace of its own.
func (c *Client) Pid() int { return c.hello.Pid }

// Cwd is the directory that the actor's relative paths begin in.
func (c *Client) Cwd() string { return c.hello.Cwd }

// Home is what ~ stands for in rules about the actor's files.
func (c *Client) Home() string { return c.hello.Home }

// Close ends the actor with all that it started, and waits until its side is closed.
func (c *Client) Close() error {
	err := c.closer.Close()
	<-c.ended
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
