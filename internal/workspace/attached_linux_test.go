package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
)

// attach has a command executed that is attached.
func (o *owner) attach(ctx context.Context, r Request, out func([]byte, bool)) *Attached {
	o.t.Helper()
	r.Tool, r.Verb, r.Attached = "test_exec", Exec, true
	v, err := o.review(r)
	mustDo(o.t, err)
	a, err := o.Attach(ctx, r, v, out)
	mustDo(o.t, err)
	return a
}

// A printout is what a command prints; who waits for a text in it is told.
type printout struct {
	mu    sync.Mutex
	out   bytes.Buffer
	errs  bytes.Buffer
	wants map[string]chan struct{}
}

func (k *printout) take(b []byte, errs bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	to := &k.out
	if errs {
		to = &k.errs
	}
	to.Write(b)
	for text, said := range k.wants {
		if strings.Contains(k.out.String(), text) {
			close(said)
			delete(k.wants, text)
		}
	}
}

func (k *printout) said(t testing.TB, text string) {
	t.Helper()
	said := make(chan struct{})
	k.mu.Lock()
	if k.wants == nil {
		k.wants = map[string]chan struct{}{}
	}
	if strings.Contains(k.out.String(), text) {
		close(said)
	} else {
		k.wants[text] = said
	}
	k.mu.Unlock()
	select {
	case <-said:
	case <-time.After(20 * time.Second):
		k.mu.Lock()
		defer k.mu.Unlock()
		t.Fatalf("%q was not printed, but %q", text, k.out.String())
	}
}

// waits waits for a command beside, and returns how it ended.
func (a *Attached) waits() <-chan error {
	ended := make(chan error, 1)
	go func() {
		var r ExecResult
		err := a.Wait(&r)
		if err == nil {
			err = fmt.Errorf("status %d, %d bytes kept", r.Status, len(r.Stdout)+len(r.Stderr))
		}
		ended <- err
	}()
	return ended
}

func TestAttached(t *testing.T) {
	o := newOwner(t, tempDir(t))
	var k printout
	a := o.attach(t.Context(), Request{Command: "echo begun; read line; echo got $line; echo wrong >&2; cat; exit 7"}, k.take)
	ended := a.waits()
	k.said(t, "begun\n")
	mustDo(t, a.Send([]byte("one\ntwo")))
	k.said(t, "got one\n")
	mustDo(t, a.Send([]byte(" three")))
	mustDo(t, a.End())
	if err := <-ended; err.Error() != "status 7, 0 bytes kept" {
		t.Error(err)
	}
	if k.out.String() != "begun\ngot one\ntwo three" || k.errs.String() != "wrong\n" {
		t.Errorf("%q %q", k.out.String(), k.errs.String())
	}
	if err := a.Send([]byte("late")); reasonOf(err) != "ended" && err != nil {
		t.Errorf("what is sent too late: %v", err)
	}
	// A command that reads nothing does not hold up who sends; nor does one that has closed it.
	a = o.attach(t.Context(), Request{Command: "exec <&-; echo shut; sleep 0.2; exit 3"}, k.take)
	ended = a.waits()
	k.said(t, "shut\n")
	for range 4 * window {
		if err := a.Send(make([]byte, maxPiece)); err != nil {
			break
		}
	}
	if err := <-ended; err.Error() != "status 3, 0 bytes kept" {
		t.Error(err)
	}
}

func TestAttachedTerminal(t *testing.T) {
	o := newOwner(t, tempDir(t))
	var k printout
	a := o.attach(t.Context(), Request{Pty: true, Size: Size{Rows: 33, Cols: 111}, Command: `trap : INT; tty -s && stty size; stty -echo; echo ready
		while read line; do
			echo "got $line"
			case $line in
			size) stty size;;
			wait) sh -c 'echo waiting; exec sleep 1000'; echo interrupted;;
			esac
		done; exit 5`}, k.take)
	ended := a.waits()
	k.said(t, "33 111\r\nready\r\n")
	mustDo(t, a.Send([]byte("typed\r")))
	k.said(t, "got typed\r\n")
	for i := range 50 { // the newest is what holds
		mustDo(t, a.Resize(Size{Rows: uint16(i + 1), Cols: 77}))
	}
	mustDo(t, a.Resize(Size{Rows: 44, Cols: 99}))
	mustDo(t, a.Send([]byte("size\r")))
	k.said(t, "44 99\r\n")
	mustDo(t, a.Send([]byte("wait\r")))
	k.said(t, "waiting\r\n")
	mustDo(t, a.Send([]byte{3}))
	k.said(t, "interrupted\r\n")
	mustDo(t, a.Send([]byte("on\r")))
	k.said(t, "got on\r\n")
	mustDo(t, a.End())
	if err := <-ended; err.Error() != "status 5, 0 bytes kept" {
		t.Error(err)
	}
}

// TestAttachedMuch: 100 MB through cat come back as they were.
func TestAttachedMuch(t *testing.T) {
	o := newOwner(t, tempDir(t))
	size := 100_000_000
	if testing.Short() || slower > 1 {
		size = 10_000_000
	}
	sum, n := sha256.New(), 0
	a := o.attach(t.Context(), Request{Command: "cat"}, func(b []byte, errs bool) { sum.Write(b); n += len(b) })
	ended := a.waits()
	want := sha256.New()
	block := make([]byte, 1<<20)
	for sent := 0; sent < size; sent += len(block) {
		for i := range block {
			block[i] = byte(i * (sent>>20 + 1))
		}
		block = block[:min(len(block), size-sent)]
		want.Write(block)
		mustDo(t, a.Send(block))
	}
	mustDo(t, a.End())
	if err := <-ended; err.Error() != "status 0, 0 bytes kept" {
		t.Error(err)
	}
	if n != size || !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes of %d came back, or others", n, size)
	}
}

// TestAttachedStuck: an owner that does not take what is printed holds up its command alone,
// and a command that reads nothing holds up who sends to it alone; what is cancelled ends.
func TestAttachedStuck(t *testing.T) {
	o := newOwner(t, tempDir(t))
	ctx, cancel := context.WithCancel(t.Context())
	first, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a := o.attach(ctx, Request{Command: "yes; sleep 1000"}, func([]byte, bool) {
		once.Do(func() { close(first) })
		<-free
	})
	ended := a.waits()
	<-first
	b := o.attach(ctx, Request{Command: "echo up; sleep 1000"}, func([]byte, bool) {})
	deaf := b.waits()
	sending := make(chan error, 1)
	go func() {
		for {
			if err := b.Send(make([]byte, maxPiece)); err != nil {
				sending <- err
				return
			}
		}
	}()
	for range 20 {
		o.must(Request{Verb: Exec, Command: "true"}, nil)
	}
	mustDo(t, a.Resize(Size{1, 1})) // of no terminal: nothing
	cancel()
	close(free)
	for _, err := range []error{<-ended, <-deaf} {
		if !errors.Is(err, bourn.ErrUnavailable) || reasonOf(err) != "cancelled" {
			t.Error(err)
		}
	}
	if err := <-sending; err == nil {
		t.Error("who sends is not told")
	}
	o.nothingLeft()
}

// nothingLeft fails the test where the actor has a child still.
func (o *owner) nothingLeft() {
	o.t.Helper()
	eventually(o.t, 10*time.Second, "the actor has no children", func() bool {
		return content(o.t, fmt.Sprintf("/proc/%d/task/%d/children", o.cmd.Process.Pid, o.cmd.Process.Pid)) == ""
	})
}

// TestAttachedTooMuch: who sends more than may be on its way, by hand, loses the call and no
// other; what is sent to no call, or to one that is not attached, is nothing.
func TestAttachedTooMuch(t *testing.T) {
	o := newOwner(t, tempDir(t))
	a := o.attach(t.Context(), Request{Command: "sleep 1000"}, func([]byte, bool) {})
	ended := a.waits()
	for range 4 * window {
		mustDo(t, o.channel.send(message{ID: a.id, Input: &input{}, blob: make([]byte, maxPiece)}))
	}
	if err := <-ended; reasonOf(err) != "cancelled" {
		t.Error(err)
	}
	mustDo(t, o.channel.send(message{ID: 12345, Input: &input{}, blob: []byte("x")}))
	o.must(Request{Verb: Exec, Command: "true"}, nil)
	o.nothingLeft()
}
