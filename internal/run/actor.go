package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"bourn"
	"bourn/api"
	"bourn/internal/egress"
	"bourn/internal/launch"
)

// The gate of a run leads to the control plane's tools, and those are performed by an actor
// of the run's: a process under the same grants, in a seal of its own, started at the first
// call and ended with the run.
//
//	agent ── gate.sock ── run's parent ──(bourn.sock, upgraded)── control plane
//	                          │  │                                    │  │ reviews
//	                          │  starts children ──(bourn.sock)───────┘  │
//	                      starts actor ──(bourn.sock, upgraded)──────────┘
type actorOf struct {
	*runner

	mu      sync.Mutex
	conn    io.Closer // the parent's end of what the actor is asked on
	ended   chan struct{}
	crew    *crew // what starts children
	egress  *egress.Server
	stopped bool
}

// actorCommand is what the actor runs inside its seal.
var actorCommand = []string{"/run/bourn/bourn", "actor"}

// newActor returns what starts an actor for the run when it is needed.
func newActor(r *runner) *actorOf {
	return &actorOf{runner: r}
}

// tools returns a connection to the control plane's tools, for this run, with an actor
// that performs them.
func (a *actorOf) tools() (io.ReadWriteCloser, error) {
	if err := a.start(); err != nil {
		return nil, err
	}
	return a.upgrade("mcp")
}

func (a *actorOf) upgrade(what string) (net.Conn, error) {
	return upgrade(api.NewSocketClient(a.home.Socket()), Report{Run: a.id, Agent: a.Options.Agent, Parent: a.parent()}, a.Options.Records, what)
}

// start starts the actor where none runs.
func (a *actorOf) start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return bourn.WithHint(fmt.Errorf("%w: the run has ended", bourn.ErrUnavailable), "start it again")
	}
	if a.ended != nil {
		select {
		case <-a.ended:
			a.release()
		default:
			return nil
		}
	}
	control, err := a.upgrade("actor")
	if err != nil {
		return err
	}
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		return errors.Join(err, control.Close())
	}
	crew := newCrew()
	// Who can start no children any more begins anew, at the next call.
	if err := a.startChildren(crew, a.id, a.upgrade, func() { ours.Close() }); err != nil {
		return errors.Join(err, control.Close(), ours.Close(), theirs.Close())
	}
	plan := *a.Whole
	plan.Command = actorCommand
	a.conn, a.ended, a.crew = ours, make(chan struct{}), crew
	var work sync.WaitGroup
	work.Go(func() {
		defer ours.Close()
		defer theirs.Close()
		_, _ = launch.Run(launch.Config{Plan: &plan, Program: a.home.Program, Stdin: theirs, Stdout: theirs, Aside: true, Steady: true,
			Report:  func(int) ([]byte, error) { return json.MarshalIndent(a.report(), "", "  ") },
			Network: a.serveNetworkAside, Sealed: func(int, int) error { theirs.Close(); return nil }})
	})
	work.Go(func() { carry(ours, ours, control) })
	ended := a.ended
	go func() {
		work.Wait()
		crew.stop()
		close(ended)
	}()
	return nil
}

// serveNetworkAside serves the actor's network as the run's is served.
func (a *actorOf) serveNetworkAside(files []*os.File) error {
	served, err := a.serveListeners(a.Whole, files)
	a.egress = served
	return err
}

// release lets go what an actor that has ended left.
func (a *actorOf) release() {
	if a.egress != nil {
		a.egress.Close()
		a.egress = nil
	}
	a.conn, a.ended = nil, nil
}

// stop ends the actor with everything that it started, and waits for it.
func (a *actorOf) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.ended == nil {
		return
	}
	a.crew.cancel() // at once, and not when the actor has gone
	a.conn.Close()
	<-a.ended
	a.release()
}
