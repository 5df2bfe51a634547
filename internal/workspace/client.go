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
	expect  func() // waits a moment for something to come; nil where that is not known
	hello   hello
	ended   chan struct{}
	turn    chan struct{} // holds one while nobody reads; see readFor

	mu      sync.Mutex
	next    uint64
	calls   map[uint64]*waiting
	failed  bool
	streams int    // calls that want chunks
	watched bool   // watch runs, or is about to
	resting bool   // rested is to be called
	seen    uint64 // next, when rested was last called
}

// waiting is a call that was sent. The reader never waits for it: there is room for every
// chunk that may be on its way.
type waiting struct {
	done   chan done
	over   chan struct{} // closed with done
	chunks chan printed  // nil where none is wanted
	room   chan struct{} // holds what may still be sent for it to read; likewise
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
	conn, err := take(conn)
	if err != nil {
		return nil, &Problem{Code: bourn.CodeUnavailable, Reason: "actor_runtime_unavailable", Text: fmt.Sprintf("the connection to the actor cannot be taken over: %v", err)}
	}
	c := &Client{channel: newChannel(conn), closer: conn, calls: map[uint64]*waiting{}, ended: make(chan struct{}), turn: make(chan struct{}, 1), watched: true}
	if e, ok := conn.(interface{ expect() }); ok {
		c.expect = e.expect
	}
	greeted := make(chan error, 1)
	go func() { greeted <- c.greet() }()
	select {
	case err := <-greeted:
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		c.turn <- struct{}{}
		go c.watch()
		return c, nil
	case <-ctx.Done():
		err := conn.Close()
		<-greeted
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
	w := &waiting{done: make(chan done, 1), over: make(chan struct{})}
	if chunks {
		w.chunks, w.room = make(chan printed, window), make(chan struct{}, window)
		for range window {
			w.room <- struct{}{}
		}
	}
	c.mu.Lock()
	if c.failed {
		c.mu.Unlock()
		return 0, nil, errGone
	}
	c.next++
	id := c.next
	c.enter(id, w)
	c.mu.Unlock()
	content := r.Content
	r.Content = nil
	if err := c.channel.send(message{ID: id, Call: &call{r, review, chunks}, blob: content}); err != nil {
		c.mu.Lock()
		c.leave(id)
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
	// Cancelled from beside, as this one may be in chunk, or reading. An actor that owes the
	// answer too long is given up.
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(giveUp, func() { _ = c.closer.Close() })
		defer late.Stop()
		_ = c.channel.send(message{ID: id, Cancel: true})
		<-w.over
	})
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

// await hands out chunks until the call is done. One that wants none reads meanwhile, where
// nobody does.
func (c *Client) await(ctx context.Context, id uint64, w *waiting, chunk func([]byte, bool)) done {
	turn := c.turn
	if w.chunks != nil {
		turn = nil
	}
	for {
		select {
		case <-turn:
			c.readFor(w)
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
	select {
	case <-c.ended:
	case <-c.turn:
		c.readFor(nil)
		<-c.ended
	}
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
