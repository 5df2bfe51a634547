package workspace

import (
	"context"

	"bourn"
)

// maxPiece is the most that is sent at once of what a command reads, in bytes.
const maxPiece = 32 << 10

// An inlet holds what has come for a command to read: window pieces at most, each of which is
// acknowledged once the command has it.
type inlet struct {
	pieces chan typed
	sizes  chan Size // the newest
	taken  func()
}

type typed struct {
	bytes []byte
	end   bool
}

func newInlet(taken func()) *inlet {
	return &inlet{pieces: make(chan typed, window), sizes: make(chan Size, 1), taken: taken}
}

// put takes in what came, without waiting; false where it was not to be sent yet. It is for
// one at a time.
func (n *inlet) put(in input, b []byte) bool {
	if in.Size != nil {
		select {
		case <-n.sizes:
		default:
		}
		n.sizes <- *in.Size
		return true
	}
	select {
	case n.pieces <- typed{b, in.End}:
		return true
	default:
		return false
	}
}

// Attached is a command that is being executed and reads what its owner sends. Send and End
// are for one at a time.
type Attached struct {
	client *Client
	ctx    context.Context
	id     uint64
	call   *waiting
	out    func(b []byte, errs bool)
}

// Attach has a command executed that reads what is sent to it; see Request.Attached. out gets
// what it prints, while Wait runs, one piece at a time; while it does not return, the command
// waits. When ctx ends the call is cancelled. Wait is to be called.
func (c *Client) Attach(ctx context.Context, r Request, review Review, out func(b []byte, errs bool)) (*Attached, error) {
	id, w, err := c.begin(r, review, true)
	if err != nil {
		return nil, err
	}
	return &Attached{c, ctx, id, w, out}, nil
}

// Send has the command read b, and waits until some of what was sent before has been read. A
// command that has ended is ErrUnavailable.
func (a *Attached) Send(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), maxPiece)
		if err := a.send(message{ID: a.id, Input: &input{}, blob: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// End tells the command that nothing more comes.
func (a *Attached) End() error { return a.send(message{ID: a.id, Input: &input{End: true}}) }

// Resize changes the size of the command's terminal.
func (a *Attached) Resize(s Size) error {
	return a.client.channel.send(message{ID: a.id, Input: &input{Size: &s}})
}

func (a *Attached) send(m message) error {
	select {
	case <-a.call.room:
		return a.client.channel.send(m)
	case <-a.call.over:
		return &Problem{Code: bourn.CodeUnavailable, Reason: "ended", Text: "the command has ended"}
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// Wait waits until the command has ended, and reads how into result.
func (a *Attached) Wait(result any) error {
	return a.client.finish(a.ctx, a.id, a.call, result, a.out)
}
