package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"bourn"
	"bourn/internal/daemon/instance"
	"bourn/internal/store"
)

// mcpPath is where MCP is spoken over HTTP, with an agent token.
const mcpPath = "/mcp"

// Limits of what is asked for there.
const (
	maxMCPBody  = 17 << 20         // bytes of a request: a message is refused by the transport itself
	maxHosts    = 16               // agents whose tools are held ready at once
	hostIdle    = 10 * time.Minute // a host that nobody asks ends
	hostWithin  = 20 * time.Second // its start makes a seal
	hostGrace   = 5 * time.Second  // between its being let go and KILL
	maxHostSaid = 4 << 10          // bytes of what it says on standard error that are kept: the newest
	mcpAnswer   = time.Hour        // a call may take long
)

// A host is a run that was started for clients over HTTP: they have no launcher.
//
//	client ──(HTTP, token)── control plane ──starts──▶ bourn actor-host ── the run: actor
//	                              ▲                        │
//	                              └───(bourn.sock, upgraded to bourn-actor)
//
// It ends when its standard input does: with the control plane at the latest.
type host struct {
	key     hostKey
	ready   chan struct{} // closed when what follows is set
	err     error
	run     *gatedRun
	handler http.Handler

	uses int // of the gate's lock
	idle *time.Timer
	end  context.CancelFunc
}

type hostKey struct {
	member store.MemberID
	agent  bourn.AgentName
	dir    string
}

// serveMCPByHTTP answers a client with an agent token.
func (s *server) serveMCPByHTTP(w http.ResponseWriter, r *http.Request) {
	token := principalOf(r.Context()).agent
	if token == nil {
		s.refuse(w, r, bourn.WithHint(fmt.Errorf("%w: %s is asked with an agent token", bourn.ErrDenied, mcpPath), "bourn key mcp new --agent NAME makes one"))
		return
	}
	control := http.NewResponseController(w)
	if err := errors.Join(control.SetReadDeadline(time.Now().Add(batchWithin)), control.SetWriteDeadline(time.Now().Add(mcpAnswer))); err != nil {
		s.refuse(w, r, err)
		return
	}
	h, err := s.tools.host(r.Context(), hostKey{token.Member, token.Agent, token.Dir})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer s.tools.unuse(h)
	h.handler.ServeHTTP(w, r)
}

// host returns the host of an agent in a directory, and starts it where there is none. Unuse
// lets it go.
func (g *gate) host(ctx context.Context, key hostKey) (*host, error) {
	g.mu.Lock()
	h := g.hosts[key]
	if h == nil {
		if g.full(key.member) || g.ctx.Err() != nil {
			g.mu.Unlock()
			return nil, bourn.WithHint(fmt.Errorf("%w: the tools of too many agents are in use over HTTP already", bourn.ErrUnavailable), "try again later")
		}
		h = &host{key: key, ready: make(chan struct{})}
		h.idle = time.AfterFunc(hostIdle, func() { g.unusedFor(h) })
		var life context.Context
		life, h.end = context.WithCancel(g.ctx)
		g.hosts[key] = h
		g.all.Go(func() { g.runHost(life, h) })
	}
	h.uses++
	g.mu.Unlock()
	select {
	case <-h.ready:
	case <-ctx.Done():
		g.unuse(h)
		return nil, ctx.Err()
	}
	if h.err != nil {
		g.unuse(h)
		return nil, h.err
	}
	return h, nil
}

func (g *gate) unuse(h *host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.uses--
	h.idle.Reset(hostIdle)
}

// unusedFor ends a host that nobody has asked for its time.
func (g *gate) unusedFor(h *host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.uses > 0 {
		h.idle.Reset(hostIdle)
		return
	}
	g.forget(h)
	h.end()
}

// forget lets nobody have a host any more: who asks next gets another. The lock is held.
func (g *gate) forget(h *host) {
	if g.hosts[h.key] == h {
		delete(g.hosts, h.key)
	}
}

// runHost runs a host from its start to its end.
func (g *gate) runHost(ctx context.Context, h *host) {
	defer h.end()
	defer h.idle.Stop()
	p, err := g.startHost(ctx, h)
	if err == nil {
		defer p.stop()
	}
	defer func() { // before its end: who asks meanwhile gets another
		g.mu.Lock()
		g.forget(h)
		g.mu.Unlock()
	}()
	h.err = err
	close(h.ready)
	if err != nil {
		if more, say := g.failing.note(h.key.member, g.control.now()); say {
			g.control.config.Log.Warn("an agent's tools cannot be started", "agent", string(h.key.agent), "error", err, "not_said", more)
		}
		return
	}
	select {
	case <-ctx.Done():
	case <-h.run.actor.Ended():
	}
}

// failures are starts of hosts that failed, by member. Who has a token may cause any number:
// of each member's one is said in failedEvery.
type failures struct {
	mu sync.Mutex
	of map[store.MemberID]failing
}

type failing struct {
	said time.Time
	more int
}

const failedEvery = 10 * time.Second

// note counts a failure. It reports whether it is to be said, and how many were not said before.
func (f *failures) note(of store.MemberID, now time.Time) (more int, say bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, had := f.of[of]
	if had && now.Sub(last.said) < failedEvery {
		last.more++
		f.of[of] = last
		return 0, false
	}
	if f.of == nil {
		f.of = map[store.MemberID]failing{}
	}
	f.of[of] = failing{said: now}
	return last.more, true
}

// A stopper is what a host runs as.
type stopper interface{ stop() }

// startHost starts the process, and waits until its actor is there.
func (g *gate) startHost(ctx context.Context, h *host) (stopper, error) {
	if g.control.people != nil {
		return g.startPerson(ctx, h)
	}
	if err := g.ownUser(ctx, h.key.member); err != nil {
		return nil, err
	}
	p, err := startProcess(g.control.config.Home, h.key.dir, "actor-host", "--agent", string(h.key.agent))
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	id, err := p.runID(within)
	if err == nil {
		h.run, err = g.find(within, runKey{h.key.member, id})
	}
	if err == nil && h.run.agent != h.key.agent {
		err = fmt.Errorf("%w: the run is another agent's", bourn.ErrInternal)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	h.handler = g.client(h.run).Handler()
	return p, nil
}

// A hostProcess is `bourn actor-host`, or a member's `bourn worker`.
type hostProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   io.Reader
	said  *newest
}

// startProcess starts a command of bourn's in a directory.
func startProcess(home, dir string, args ...string) (*hostProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := instance.Command(self)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.WaitDelay = hostGrace
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "BOURN_HOME=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "BOURN_HOME="+home)
	p := &hostProcess{cmd: cmd, said: &newest{}}
	cmd.Stderr = p.said
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: the agent's tools cannot be started: %w", bourn.ErrUnavailable, err)
	}
	return p, nil
}

// runID reads which run the process is.
func (p *hostProcess) runID(ctx context.Context) (string, error) {
	// Killed, it says no more.
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	line, err := bufio.NewReader(io.LimitReader(p.out, 4<<10)).ReadBytes('\n')
	var v struct {
		Run string `json:"run"`
	}
	if err == nil && json.Unmarshal(line, &v) == nil && runID().MatchString(v.Run) {
		return v.Run, nil
	}
	p.stop() // so that all that it said is there
	return "", bourn.WithHint(fmt.Errorf("%w: the agent's tools cannot be started: %s", bourn.ErrUnavailable, p.said.text()), "bourn plan --agent NAME, in the token's directory, shows what is wrong")
}

// stop lets the process end, and waits for it.
func (p *hostProcess) stop() {
	_ = p.stdin.Close()
	late := time.AfterFunc(hostGrace, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // how it ended is in the log of its run
}

// newest keeps the newest of what is written.
type newest struct {
	mu   sync.Mutex
	kept []byte
}

func (n *newest) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept = append(n.kept, p[max(0, len(p)-maxHostSaid):]...)
	n.kept = n.kept[max(0, len(n.kept)-maxHostSaid):]
	return len(p), nil
}

func (n *newest) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.kept) == 0 {
		return "it said nothing"
	}
	return bourn.Printable(strings.TrimSpace(string(n.kept)))
}
