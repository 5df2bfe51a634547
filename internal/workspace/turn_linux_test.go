package workspace

import (
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A readBy is a connection that counts who reads from it.
type readBy struct {
	net.Conn
	call, own atomic.Int64
}

func (c *readBy) Read(p []byte) (int, error) {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, ".readFor"):
			c.call.Add(1)
			more = false
		case strings.HasSuffix(f.Function, ".watch"):
			c.own.Add(1)
			more = false
		}
		if !more {
			return c.Conn.Read(p)
		}
	}
}

// A call that follows another reads its own answer: no goroutine hands it over.
func TestTurnOfCall(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "content")
	conn, cmd := startActor(t, &Actor{Version: "test", Cwd: dir})
	counted := &readBy{Conn: conn}
	c, err := Dial(t.Context(), counted)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := &owner{Client: c, t: t, cmd: cmd, conn: conn, cwd: dir}
	o.setRules((&Actor{Cwd: dir}).base())
	for range 200 {
		o.must(Request{Verb: Read, Path: "a"}, nil)
	}
	if counted.call.Load() < 10*counted.own.Load() {
		t.Errorf("%d answers were read by their calls, and %d by another", counted.call.Load(), counted.own.Load())
	}
}

// Whoever reads, others' calls are answered: such that print, one that waits long, one that is
// cancelled, and many at once; and the actor's end is noticed, whether or not somebody calls.
func TestTurnOfMany(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "content")
	o := newOwner(t, dir)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := o.ask(Request{Verb: Read, Path: "a"}, nil); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			printed := 0
			err := o.askFor(t.Context(), Request{Verb: Exec, Command: "head -c 300000 /dev/zero"}, nil, func(b []byte) { printed += len(b) })
			if err != nil || printed != 300_000 {
				t.Errorf("%d bytes, %v", printed, err)
			}
		})
		all.Go(func() {
			if err := o.ask(Request{Verb: Exec, Command: "sleep 0.1"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	long := make(chan error, 2)
	go func() { long <- o.ask(Request{Verb: Exec, Command: "sleep 600"}, nil) }()
	o.must(Request{Verb: Read, Path: "a"}, nil)
	go func() { long <- o.ask(Request{Verb: Exec, Command: "sleep 600"}, nil) }()
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-long; reasonOf(err) != "actor_runtime_unavailable" {
			t.Error(err)
		}
	}
	<-o.Ended()
}

// An actor that goes while nobody calls is noticed, after calls as before them.
func TestTurnAtRest(t *testing.T) {
	dir := tempDir(t)
	put(t, dir+"/a", "content")
	for _, calls := range []int{0, 1, 3} {
		o := newOwner(t, dir)
		for range calls {
			o.must(Request{Verb: Read, Path: "a"}, nil)
		}
		if err := o.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-o.Ended():
		case <-time.After(20 * time.Second):
			t.Fatalf("after %d calls nobody notices", calls)
		}
	}
}
