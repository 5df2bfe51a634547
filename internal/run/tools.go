package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/launch"
	"bourn/internal/policy"
)

// ServeTools carries MCP between in and out and the control plane's tools, for a run whose
// command is the actor alone: who asks is outside, unsealed, and what is asked for is
// performed under the agent's grants.
//
//	client ── in, out ── this process ──(bourn.sock, upgraded)── control plane
//	                          │                                       │ reviews
//	                      the run: actor ──(bourn.sock, upgraded)─────┘
//
// It returns when the client, the control plane or the actor has gone, with everything
// that was started ended. An error means that nothing was served, or that the control plane
// has gone.
func (p *Prepared) ServeTools(in io.Reader, out io.Writer, stderr *os.File) (Outcome, error) {
	return p.actor(stderr, func(client *api.Client, r Report) error {
		tools, err := upgrade(client, r, p.Options.Records, "mcp")
		if err != nil {
			return err
		}
		return Relay(tools, in, out)
	})
}

// HostActor is ServeTools for clients that the control plane has itself: it writes which
// run it is to out, as {"run": …} on a line, and ends with in.
func (p *Prepared) HostActor(in io.Reader, out io.Writer, stderr *os.File) (Outcome, error) {
	return p.actor(stderr, func(_ *api.Client, r Report) error {
		if err := json.NewEncoder(out).Encode(map[string]string{"run": r.Run}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, in)
		return err
	})
}

// actor runs the actor alone, connected with the control plane, until serve returns or it
// has gone.
func (p *Prepared) actor(stderr *os.File, serve func(*api.Client, Report) error) (Outcome, error) {
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		return Outcome{}, err
	}
	defer ours.Close()
	defer theirs.Close()
	plan := *p.Whole
	plan.Command = actorCommand
	p.Plan = &plan
	p.Request.Advisory = false // an actor performs nothing without a seal
	p.actorOnly = true
	client := api.NewSocketClient(p.home.Socket())
	served := make(chan error, 1)
	crew := newCrew()
	told := func(r Report) {
		go p.connectActor(client, r, ours, crew, func() { // it may wait for a client until the process ends
			served <- serve(client, r)
		}, served)
	}
	outcome, err := p.Run(Streams{In: theirs, Out: theirs, Err: stderr}, told, false)
	ours.Close()
	crew.stop()
	select {
	case servedErr := <-served:
		err = errors.Join(err, servedErr)
	default:
		if err == nil {
			err = bourn.WithHint(fmt.Errorf("%w: the actor has ended", bourn.ErrUnavailable), "start this again")
		}
	}
	return outcome, err
}

// connectActor connects a run's actor with the control plane while serve goes on. The actor
// ends with that. What keeps it from being connected is told.
func (p *Prepared) connectActor(client *api.Client, r Report, actor net.Conn, crew *crew, serve func(), failed chan<- error) {
	defer actor.Close()
	to := func(what string) (net.Conn, error) { return upgrade(client, r, p.Options.Records, what) }
	control, err := to("actor")
	if err == nil {
		if err = p.startChildren(crew, r.Run, to, func() { actor.Close() }); err != nil {
			control.Close()
		}
	}
	if err != nil {
		failed <- err
		return
	}
	var carrying sync.WaitGroup
	carrying.Go(func() { carry(actor, actor, control) })
	serve()
	control.Close()
	carrying.Wait()
}

// upgrade asks the control plane to take a connection over for a run. One that works for
// another says so: it is nobody's once that no longer waits for it, and then it is refused.
// What a flag grants of records is said too: what a profile does, the control plane reads.
func upgrade(client *api.Client, r Report, records policy.Records, what string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), upgradeWithin)
	defer cancel()
	query := url.Values{"agent": {string(r.Agent)}}
	if r.Parent != "" {
		query.Set("of", r.Parent)
	}
	if records != policy.RecordsNone {
		query.Set("records", string(records))
	}
	return client.Upgrade(ctx, "/v1/runs/"+url.PathEscape(r.Run)+"/"+what+"?"+query.Encode(), "bourn-"+what)
}

// upgradeWithin is how long the control plane may take to take a connection over.
const upgradeWithin = 10 * time.Second

// Relay carries bytes both ways until the server has gone, and closes conn. A client that
// has gone is the end of what is carried to the server, which ends then.
func Relay(conn net.Conn, in io.Reader, out io.Writer) error {
	defer conn.Close()
	gone := make(chan struct{})
	go func() { // it may wait for in until the process ends
		_, _ = io.Copy(conn, in) // a client that has gone is one that has said all
		close(gone)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		} else {
			_ = conn.Close()
		}
	}()
	_, err := io.Copy(out, conn)
	select {
	case <-gone:
		return nil
	default:
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return bourn.WithHint(fmt.Errorf("%w: the tools have gone: %w", bourn.ErrUnavailable, err), hintGone)
	}
	return bourn.WithHint(fmt.Errorf("%w: the tools have gone", bourn.ErrUnavailable), hintGone)
}

const hintGone = "bourn serve --status says how the control plane is; start this again"
