package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"bourn/internal/policy"
)

const (
	headSize  = 4 << 10
	halfTime  = 5 * time.Minute
	drainTime = 100 * time.Millisecond
	chunk     = 32 << 10
)

// A link is a client in the run and the host that it reached. Once one side has said all,
// the other has to go on: where it stays silent, or does not take what it is sent, for as
// long as halfTime, the link ends. A side that breaks off ends it at once, but for what
// the other had said by then.
type link struct {
	client, server net.Conn
	halfTime       time.Duration

	mu     sync.Mutex
	half   bool          // one side has said all, or has broken off
	idle   time.Duration // how long the other may stay silent
	until  time.Time     // when a write that had begun by then is given up
	broken bool
}

// relay carries bytes both ways between a client and a server, until both have said all.
// Early is what the client has said already. What begins like TLS must name a granted
// server before any of it goes out.
func (s *Server) relay(via string, t policy.Target, client, server net.Conn, early []byte) {
	if !s.hold(server) {
		return
	}
	defer s.drop(server)
	l := &link{client: client, server: server, halfTime: halfTime}
	l.run(func() ([]byte, error) { return s.head(via, t, l, early) })
}

// run carries what both sides say, and from the client what head returns before all else.
func (l *link) run(head func() ([]byte, error)) {
	var both sync.WaitGroup
	both.Go(func() { l.ended(l.client, l.server, l.carry(l.client, l.server)) })
	first, err := head()
	if err != nil {
		l.reset()
	} else if _, err = l.server.Write(first); err == nil {
		err = l.carry(l.server, l.client)
	}
	l.ended(l.server, l.client, err)
	both.Wait()
	if l.broken {
		l.reset()
	}
}

func (l *link) reset() {
	reset(l.client)
	reset(l.server)
}

// ended notes that from has said all to to, or has broken off, and wakes what carries the
// other way so that it takes the time from now on.
func (l *link) ended(to, from net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle = l.halfTime; err != nil {
		l.idle, l.broken = drainTime, true
	} else {
		closeWrite(to)
	}
	l.half, l.until = true, time.Now().Add(l.halfTime)
	_ = from.SetWriteDeadline(l.until)
	_ = to.SetReadDeadline(time.Unix(1, 0))
}

// silence returns how long a side may stay silent, where the other has ended.
func (l *link) silence() (idle time.Duration, until time.Time, half bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle, l.until, l.half
}

// carry copies to to what from says, until that is all.
func (l *link) carry(to, from net.Conn) error {
	idle, _, half := l.silence()
	if !half {
		// Both ends are sockets: the kernel moves the bytes (splice(2)).
		_, err := io.Copy(to, from)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		// A read that is woken loses nothing. A write that is given up does.
		var until time.Time
		if idle, until, half = l.silence(); !half || !time.Now().Before(until) {
			return err
		}
	}
	for buf := make([]byte, chunk); ; {
		_ = from.SetReadDeadline(time.Now().Add(idle))
		n, err := from.Read(buf)
		if n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(l.halfTime))
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// listen reads what the client says first.
func (l *link) listen(b []byte) (int, error) {
	n, err := l.client.Read(b)
	if idle, _, half := l.silence(); n == 0 && half && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = l.client.SetReadDeadline(time.Now().Add(idle))
		n, err = l.client.Read(b)
	}
	return n, err
}

// head returns the first bytes that the client says, and for TLS all that its first message
// takes, once that is found to name a server that may be reached.
func (s *Server) head(via string, t policy.Target, l *link, early []byte) ([]byte, error) {
	if t.Name == "" || t.Name == policy.Localhost {
		return early, nil // an address is granted with all that answers there
	}
	if len(early) == 0 {
		early = make([]byte, headSize)
		n, err := l.listen(early)
		if early = early[:n]; n == 0 {
			if errors.Is(err, io.EOF) {
				return nil, nil // it says nothing, and listens
			}
			return nil, err
		}
	}
	if early[0] < tlsFirst || early[0] > tlsLast {
		return early, nil
	}
	g := greeter{link: l, early: early, check: func(name string) string { return s.misnamed(t, name) }}
	rest, err := g.greet()
	var no refused
	if errors.As(err, &no) {
		s.refuse(Refusal{via, t.String(), no.reason})
	}
	return rest, err
}

// misnamed says why a TLS server name may not be asked for over a connection to t, or "".
func (s *Server) misnamed(t policy.Target, name string) string {
	if name == "" {
		return ""
	}
	named, err := policy.ParseTarget(name, t.Port)
	if err == nil && (named.Name == t.Name || s.config.Network.Judge(named).Allowed) {
		return ""
	}
	return "the TLS server name is " + strconv.Quote(name) + ", which is not granted"
}

var errGreeted = errors.New("greeted")

// serverName reads a TLS client's greeting and returns the server name in it.
func serverName(c net.Conn) (string, error) {
	name, greeted := "", false
	err := tls.Server(c, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, greeted = hello.ServerName, true
		return nil, errGreeted
	}}).Handshake()
	if !greeted {
		return "", errors.Join(errors.New("no client's greeting"), err)
	}
	return name, nil
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	c.Close()
}
