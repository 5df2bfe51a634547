// Package egress is the only way out of a run whose network is restricted. It serves
// listeners that stand in the run's network namespace, from outside: what comes in there
// is judged by name, resolved here, judged again by address, and the address that was
// judged is the one that is dialled.
//
//	program in the run                      egress (outside)                 the network
//	──────────────────                      ────────────────                 ───────────
//	CONNECT, http://, SOCKS5 ──→ proxy ──┐
//	                                     ├─→ judge ─→ resolve ─→ judge ─→ dial ──→ host
//	name? ─→ DNS stub: 198.18.x.y        │                                          │
//	connect 198.18.x.y:443 ──→ direct ───┘   ←──────────── bytes, both ways ────────┘
//
// # What it upholds
//
// Only granted names and addresses are reached, on granted ports. A name that resolves to
// an address which is not of the public internet is not reached unless that address is
// granted too; so a name that changes its address gains nothing. The server name in the
// first message of a TLS connection (SNI) is the granted name that the connection was made
// for, or another granted one. Names that are not granted are not asked for upstream.
// Bourn's own control plane is never reached. Every refusal is told with its reason.
//
// # What it does not
//
// It sees neither the Host header inside TLS or a tunnel nor a TLS session that begins
// later in a connection (STARTTLS), and what a granted host passes on it passes on. TCP
// only. A client that sends no server name reaches what the granted host serves by default,
// and one that encrypts its greeting (ECH) whatever stands behind the server that it names
// openly.
package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"bourn/internal/policy"
)

const (
	maxConns    = 1024             // at once; what comes beyond is closed
	requestTime = 30 * time.Second // for a client to say what it wants
	dialTime    = 10 * time.Second // for one address
	reachTime   = 25 * time.Second // for all of a name
	resolveTime = 5 * time.Second
	maxTold     = 300              // bytes
	maxDials    = 128              // for plain requests, at once
	keptAnswers = 10 * time.Second // for which a resolved name is not asked for again
	maxKept     = 4096
	acceptAgain = 10 * time.Millisecond
)

// A Refusal is one thing that was not let out.
type Refusal struct {
	Via    string // proxy, socks, direct or dns
	Target string // HOST:PORT, or a name alone for dns
	Reason string
}

// Config says what is let out. Network is required.
type Config struct {
	Network *policy.Network
	// Refused is told of every refusal, from several goroutines at once; nil discards it.
	Refused func(Refusal)
	// Unresolved is told of a granted name that the host's resolver does not resolve, as often
	// as that happens and from several goroutines at once; nil discards it.
	Unresolved func(name, why string)
	// Resolve returns the addresses of a name; nil asks the host's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address; nil is TCP.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Listeners stand in the run's network namespace. Each may be nil.
type Listeners struct {
	Proxy  net.Listener   // HTTP and SOCKS5
	Names  net.PacketConn // DNS over UDP
	Names2 net.Listener   // DNS over TCP
	Direct []net.Listener // for programs that ignore the proxy
}

// A Server serves the listeners of one run.
type Server struct {
	config    Config
	ls        Listeners
	names     names
	answers   answers
	context   context.Context
	cancel    context.CancelFunc
	dials     chan struct{}
	slots     chan struct{}
	running   sync.WaitGroup
	transport *http.Transport // of plain requests, nil without a proxy

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	over  bool
}

// Serve begins to serve ls, which it owns from then on.
func Serve(c Config, ls Listeners) *Server {
	s := &Server{config: c, ls: ls, slots: make(chan struct{}, maxConns), dials: make(chan struct{}, maxDials), conns: map[net.Conn]struct{}{}}
	s.context, s.cancel = context.WithCancel(context.Background())
	if s.config.Resolve == nil {
		s.config.Resolve = resolve
	}
	if s.config.Dial == nil {
		s.config.Dial = dial
	}
	if ls.Proxy != nil {
		s.serveProxy(ls.Proxy)
	}
	if ls.Names != nil {
		s.running.Go(func() { s.serveUDP(ls.Names) })
	}
	if ls.Names2 != nil {
		s.accept("dns", ls.Names2, s.serveNames)
	}
	for _, l := range ls.Direct {
		s.accept("direct", l, s.serveDirect)
	}
	return s
}

// Close closes the listeners and every connection, and returns when all is still.
func (s *Server) Close() {
	s.cancel()
	for _, l := range append([]net.Listener{s.ls.Proxy, s.ls.Names2}, s.ls.Direct...) {
		if l != nil {
			l.Close()
		}
	}
	if s.ls.Names != nil {
		s.ls.Names.Close()
	}
	s.mu.Lock()
	s.over = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	s.running.Wait()
}

// accept hands every connection of l to serve, on a goroutine of its own. Serve need not
// close it.
func (s *Server) accept(via string, l net.Listener, serve func(net.Conn)) {
	s.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if errors.Is(err, net.ErrClosed) {
					return
				}
				s.pause() // no descriptors are left, as a rule: some will be
				continue
			}
			s.begin(via, c, serve)
		}
	})
}

func (s *Server) pause() {
	select {
	case <-s.context.Done():
	case <-time.After(acceptAgain):
	}
}

// begin serves c if there is room for it.
func (s *Server) begin(via string, c net.Conn, serve func(net.Conn)) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.refuse(Refusal{via, s.meant(c).String(), "too many connections at once"})
		c.Close()
		return
	}
	if !s.hold(c) {
		<-s.slots
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		defer s.drop(c)
		serve(c)
	})
}

// enter reports whether the server goes on. The caller then calls s.running.Done at its end.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.running.Add(1)
	}
	return !s.over
}

// hold keeps a connection to be closed with the server; it closes it if that is over.
func (s *Server) hold(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		c.Close()
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) drop(c net.Conn) {
	c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) refuse(r Refusal) {
	if s.config.Refused != nil {
		r.Target, r.Reason = clip(r.Target), clip(r.Reason)
		s.config.Refused(r)
	}
}

// clip bounds what is told of a refusal: a run can name anything.
func clip(s string) string {
	if len(s) <= maxTold {
		return s
	}
	return strings.ToValidUTF8(s[:maxTold], "") + "…"
}

// reset ends a connection so that the other side sees an error, not an end.
func reset(c net.Conn) {
	if t, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}
