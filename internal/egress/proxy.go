package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"bourn/internal/policy"
)

// serveProxy serves HTTP and SOCKS5 on one listener: the first byte tells which it is.
func (s *Server) serveProxy(l net.Listener) {
	queue := &queue{addr: l.Addr(), conns: make(chan net.Conn), done: s.context.Done()}
	web := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: requestTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // what the server makes of them takes many times as much
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return s.context },
	}
	s.running.Go(func() { _ = web.Serve(queue) })
	s.accept("proxy", l, func(c net.Conn) {
		_ = c.SetReadDeadline(time.Now().Add(requestTime))
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		if first[0] == socksVersion {
			s.serveSOCKS(c)
			return
		}
		p := &peeked{TCPConn: c.(*net.TCPConn), first: first, closed: make(chan struct{})}
		select {
		case queue.conns <- p:
			<-p.closed // it is the web server's until then
		case <-s.context.Done():
		}
	})
}

// A queue is a listener of connections that were accepted elsewhere.
type queue struct {
	addr  net.Addr
	conns chan net.Conn
	done  <-chan struct{}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}
func (q *queue) Close() error   { return nil }
func (q *queue) Addr() net.Addr { return q.addr }

// A peeked connection has its first byte read already.
type peeked struct {
	*net.TCPConn
	first  []byte
	closed chan struct{}
	once   sync.Once
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.TCPConn.Read(b)
}

// WriteTo is not promoted: it would pass the first byte by.
func (p *peeked) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{p})
}

func (p *peeked) Close() error {
	err := p.TCPConn.Close()
	p.once.Do(func() { close(p.closed) })
	return err
}

// handler answers requests to a proxy. Those for plain http are judged one by one, since a
// client sends requests for many hosts over one connection.
func (s *Server) handler() http.Handler {
	s.transport = &http.Transport{
		DialContext:        s.dialPlain,
		DisableCompression: true,
		MaxIdleConns:       64,
		IdleConnTimeout:    30 * time.Second,

		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}
	plain := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host = r.Out.URL.Host // whatever the Host header says
			// What follows is removed for a proxy that stands before a server. This one
			// stands before a client, and passes on what it says.
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.Out.Trailer = r.In.Trailer // filled when the body has been read
			for _, name := range forwarding {
				if said, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = said
				}
			}
		},
		Transport:     s.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(w http.ResponseWriter, r *http.Request, err error) { s.failed(w, r.URL.Host, err) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			return
		}
		defer s.running.Done()
		switch {
		case r.Method == http.MethodConnect:
			s.tunnel(w, r)
		case r.URL.Scheme != "http" || r.URL.Host == "":
			http.Error(w, "bourn: this is a proxy: send CONNECT, or a request for an http:// URL", http.StatusBadRequest)
		default:
			t, err := target(r.URL.Host, "80")
			if err != nil {
				s.refuse(Refusal{"proxy", r.URL.Host, err.Error()})
				s.failed(w, r.URL.Host, refused{err.Error()})
				return
			}
			if ruling := s.config.Network.Judge(t); !ruling.Allowed {
				s.refuse(Refusal{"proxy", t.String(), ruling.Reason})
				s.failed(w, t.String(), refused{ruling.Reason})
				return
			}
			plain.ServeHTTP(w, r)
		}
	})
}

var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// dialPlain connects the transport of plain requests. The transport calls it on a goroutine
// of its own, with a context that outlives the request.
func (s *Server) dialPlain(ctx context.Context, _, addr string) (net.Conn, error) {
	if !s.enter() {
		return nil, net.ErrClosed
	}
	defer s.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.context, cancel)()
	select { // the transport goes on dialling when its client is gone
	case s.dials <- struct{}{}:
		defer func() { <-s.dials }()
	default:
		return nil, errors.New("too many connections are being made at once")
	}
	t, err := target(addr, "80")
	if err != nil {
		return nil, err
	}
	conn, err := s.connect(ctx, "proxy", t)
	if err != nil {
		return nil, err
	}
	if !s.hold(conn) {
		return nil, net.ErrClosed
	}
	return &held{conn, s}, nil
}

// A held connection is closed with the server.
type held struct {
	net.Conn
	s *Server
}

func (h *held) Close() error {
	h.s.drop(h.Conn)
	return nil
}

func (h *held) CloseWrite() error {
	closeWrite(h.Conn)
	return nil
}

// tunnel answers CONNECT.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request) {
	t, err := target(r.Host, "443")
	if err != nil {
		s.refuse(Refusal{"proxy", r.Host, err.Error()})
		s.failed(w, r.Host, refused{err.Error()})
		return
	}
	// Not the request's context: a client that has said all so early only listens.
	server, err := s.connect(s.context, "proxy", t)
	if err != nil {
		s.failed(w, t.String(), err)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		server.Close()
		return
	}
	defer conn.Close()
	client := conn.(*peeked)
	if _, err := client.TCPConn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		server.Close()
		return
	}
	s.relay("proxy", t, client.TCPConn, server, buffered(rw.Reader))
}

// buffered returns what a client has said beyond its request.
func buffered(r *bufio.Reader) []byte {
	early := make([]byte, r.Buffered())
	n, _ := io.ReadFull(r, early)
	return early[:n]
}

// failed answers a request that could not be carried out.
func (s *Server) failed(w http.ResponseWriter, at string, err error) {
	status, text := http.StatusBadGateway, "bourn: cannot reach "+at+": "+err.Error()+"\n"
	var no refused
	if errors.As(err, &no) {
		status = http.StatusForbidden
		text = "bourn: " + at + " refused: " + no.reason + "\nbourn explain connect " + at + " says what decides\n"
	}
	w.Header().Set("X-Bourn-Refused", strconv.FormatBool(status == http.StatusForbidden))
	http.Error(w, text, status)
}

// target reads HOST[:PORT].
func target(hostport, port string) (policy.Target, error) {
	host := hostport
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host, port = h, p
	} else if inside, ok := strings.CutPrefix(hostport, "["); ok {
		host, _ = strings.CutSuffix(inside, "]")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return policy.Target{}, errors.New("the port must be a number from 1 to 65535")
	}
	return policy.ParseTarget(host, uint16(n))
}

// SOCKS5 (RFC 1928).
const (
	socksVersion     = 5
	socksNoAuth      = 0
	socksNoMethod    = 0xff
	socksConnect     = 1
	socksIPv4        = 1
	socksName        = 3
	socksIPv6        = 4
	socksSucceeded   = 0
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

// serveSOCKS serves a connection whose version byte is read already.
func (s *Server) serveSOCKS(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(requestTime))
	at, t, code, err := readSOCKS(c)
	if err != nil {
		if code != socksSucceeded {
			s.refuse(Refusal{"socks", at, err.Error()})
			_, _ = c.Write(socksReply(code))
		}
		return
	}
	_ = c.SetDeadline(time.Time{})
	server, err := s.connect(s.context, "socks", t)
	if err != nil {
		code := byte(socksUnreachable)
		var no refused
		if errors.As(err, &no) {
			code = socksNotAllowed
		}
		_, _ = c.Write(socksReply(code))
		return
	}
	if _, err := c.Write(socksReply(socksSucceeded)); err != nil {
		server.Close()
		return
	}
	s.relay("socks", t, c, server, nil)
}

func socksReply(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}

// readSOCKS reads the greeting and the request. At is the target as it was asked for. With
// an error, a code other than socksSucceeded is what to answer.
func readSOCKS(c net.Conn) (at string, t policy.Target, code byte, err error) {
	var head [4]byte
	methods := make([]byte, 255)
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return at, t, 0, err
	}
	methods = methods[:head[0]]
	if _, err := io.ReadFull(c, methods); err != nil {
		return at, t, 0, err
	}
	method := byte(socksNoMethod)
	for _, m := range methods {
		if m == socksNoAuth {
			method = m
		}
	}
	if _, err := c.Write([]byte{socksVersion, method}); err != nil || method == socksNoMethod {
		return at, t, 0, errors.Join(errors.New("no method in common"), err)
	}
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return at, t, 0, err
	}
	host := make([]byte, 16)
	switch head[3] {
	case socksIPv4:
		host = host[:4]
	case socksIPv6:
	case socksName:
		var size [1]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return at, t, 0, err
		}
		host = make([]byte, size[0])
	default:
		return at, t, socksNoAddress, errors.New("an address of an unknown kind")
	}
	var port [2]byte
	if _, err := io.ReadFull(c, host); err != nil {
		return at, t, 0, err
	}
	if _, err := io.ReadFull(c, port[:]); err != nil {
		return at, t, 0, err
	}
	text := string(host)
	if head[3] != socksName {
		addr, _ := netip.AddrFromSlice(host)
		text = addr.String()
	}
	n := binary.BigEndian.Uint16(port[:])
	at = net.JoinHostPort(text, strconv.Itoa(int(n)))
	t, err = policy.ParseTarget(text, n)
	switch {
	case err != nil:
		return at, t, socksNotAllowed, err
	case head[0] != socksVersion || head[1] != socksConnect:
		return at, t, socksNoCommand, errors.New("only CONNECT is supported")
	}
	return at, t, socksSucceeded, nil
}
