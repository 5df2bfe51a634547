package workspace

import (
	"errors"
	"time"
)

// What an actor sends is read by one at a time, who has the turn:
//
//	a call that waits for its answer ── reads until it has come ─▶ the turn is free
//	watch, where a call wants chunks ── reads while one does ───▶ the turn is free
//	                                       no call for restAfter ─▶ watch, until the next answer
//
// So an answer is read by who waits for it, and wakes nobody else: handing it from one
// goroutine to another costs as much as reading it. Whoever reads hands out what is another's.

// restAfter is how long no call is made before watch reads, which notices that the actor has
// gone.
const restAfter = 50 * time.Millisecond

// readFor reads until a call is done, or for nil until the actor has gone. It is for who has
// the turn, and gives it back.
func (c *Client) readFor(w *waiting) {
	for w == nil || len(w.done) == 0 {
		if w != nil && c.expect != nil && c.channel.r.Buffered() == 0 {
			c.expect()
		}
		if !c.readOne() {
			break
		}
	}
	c.turn <- struct{}{}
}

// watch reads while a call wants chunks, or until an answer has come.
func (c *Client) watch() {
	<-c.turn
	for c.readOne() && c.goOn() {
	}
	c.turn <- struct{}{}
}

func (c *Client) goOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams > 0 {
		return true
	}
	c.watched = false
	c.rest()
	return false
}

// readOne hands out the next of what the actor sends; false once it has gone. An actor that
// does not keep to the protocol has gone, too.
func (c *Client) readOne() bool {
	m, err := c.channel.receive()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.handOut(m)
	}
	if err == nil || c.failed {
		return err == nil
	}
	c.failed = true
	for id, w := range c.calls {
		c.leave(id)
		w.end(done{Problem: errGone})
	}
	_ = c.closer.Close()
	close(c.ended)
	return false
}

// handOut gives a message to the call that it is for. The lock is held.
func (c *Client) handOut(m message) error {
	w := c.calls[m.ID]
	if w == nil {
		return nil
	}
	if m.Chunk {
		select {
		case w.chunks <- printed{m.blob, m.Errs}:
		default:
			return errors.New("more chunks than were asked for")
		}
	}
	if m.Done != nil {
		c.leave(m.ID)
		w.blob = m.blob
		w.end(*m.Done)
	}
	if m.Taken {
		select {
		case w.room <- struct{}{}:
		default: // more than were sent
		}
	}
	return nil
}

// enter notes a call that is about to be sent. The lock is held, as for what follows.
func (c *Client) enter(id uint64, w *waiting) {
	c.calls[id] = w
	if w.chunks == nil {
		return
	}
	c.streams++
	if !c.watched {
		c.watched = true
		go c.watch()
	}
}

// leave forgets a call.
func (c *Client) leave(id uint64) {
	if w := c.calls[id]; w != nil && w.chunks != nil {
		c.streams--
	}
	delete(c.calls, id)
	c.rest()
}

// rest has rested called a while later, where nobody would notice that the actor goes.
func (c *Client) rest() {
	if c.watched || c.resting || c.failed || len(c.calls) > 0 {
		return
	}
	c.resting, c.seen = true, c.next
	time.AfterFunc(restAfter, c.rested)
}

// rested watches, unless there were calls meanwhile.
func (c *Client) rested() {
	c.mu.Lock()
	c.resting = false
	quiet := c.seen == c.next && len(c.calls) == 0 && !c.watched && !c.failed
	if quiet {
		c.watched = true
	} else {
		c.rest()
	}
	c.mu.Unlock()
	if quiet {
		c.watch()
	}
}
