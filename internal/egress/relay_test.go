package egress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"bourn/internal/policy"
)

// at is a connection that was made to another address than it came to.
type at struct {
	*net.TCPConn
	local net.Addr
}

func (a at) LocalAddr() net.Addr { return a.local }

// direct connects as a program does that ignores the proxy: to an address of the run's.
func (w *world) direct(to string) *client {
	w.t.Helper()
	l := listen(w.t)
	c := w.open(l.Addr().String())
	inside, err := l.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.begin("direct", at{inside.(*net.TCPConn), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to))}, w.s.serveDirect)
	return c
}

func TestDirect(t *testing.T) {
	w := newWorld(t, "example.com 93.184.216.40:25 [2606:4700::1]:443 localhost:5432 private.example")
	w.name("example.com", public)
	w.name("private.example", "10.0.0.1")
	for _, at := range []string{public + ":443", public + ":80", "93.184.216.40:25", "[2606:4700::1]:443", "127.0.0.1:5432"} {
		w.serve(at, func(c net.Conn) {
			_, _ = io.WriteString(c, at+"\n")
			echo(c)
		})
	}
	given, _ := w.s.names.give("example.com")
	private, _ := w.s.names.give("private.example")
	stale, _ := w.s.names.give("evil.example")
	for to, want := range map[string]string{
		given.String() + ":443": public + ":443\n", given.String() + ":80": public + ":80\n", "[::ffff:" + given.String() + "]:443": public + ":443\n",
		"93.184.216.40:25": "93.184.216.40:25\n", "[2606:4700::1]:443": "[2606:4700::1]:443\n", "127.0.0.1:5432": "127.0.0.1:5432\n",
	} {
		c := w.direct(to)
		c.hear(want)
		c.say("words")
		_ = c.CloseWrite()
		if got := c.rest(); got != "words" {
			t.Errorf("%s: %q", to, got)
		}
	}
	c := w.direct(given.String() + ":443")
	c.hear(public + ":443\n")
	c.say(string(greeting(t, "evil.example")))
	if got := c.rest(); got != "<reset>" {
		t.Errorf("another server name: %q", got)
	}
	w.waitRefused("direct", "example.com:443", `"evil.example"`)
	w.forget()
	for to, told := range map[string]string{
		given.String() + ":22": "example.com:22: port 22", private.String() + ":443": "10.0.0.1 is private", stale.String() + ":443": "evil.example:443: not granted",
		"198.18.0.1:443": "198.18.0.1:443: not granted", "198.19.255.255:443": "not granted", "127.0.0.1:7720": "control plane", "127.0.0.1:443": "port 443",
		"127.0.0.1:80": "port 80", "[::1]:22": "port 22", "0.0.0.0:443": "not granted", "93.184.216.40:443": "port 443", public + ":443": "not granted", "169.254.169.254:80": "not granted",
	} {
		if got := w.direct(to).rest(); got != "<reset>" {
			t.Errorf("%s: %q", to, got)
		}
		w.wantRefused("direct", told)
	}
}

// A granted localhost has two addresses in the run, and the host's server often one.
func TestDirectEitherWay(t *testing.T) {
	w := newWorld(t, "localhost:5432 localhost:5433 127.0.0.2:5432 [::1]:5434 localhost:5435 localhost:5436", "127.0.0.1:5436")
	for _, at := range []string{"127.0.0.1:5432", "[::1]:5433", "127.0.0.1:5434", "127.0.0.1:5436"} {
		w.serve(at, func(c net.Conn) { _, _ = io.WriteString(c, at) })
	}
	for to, want := range map[string]string{
		"127.0.0.1:5432": "127.0.0.1:5432", "[::1]:5432": "127.0.0.1:5432", "127.0.0.1:5433": "[::1]:5433", "[::1]:5433": "[::1]:5433",
		"127.0.0.2:5432": "<reset>", // that address alone is granted
		"[::1]:5434":     "<reset>", // likewise
		"[::1]:5435":     "<reset>", // nobody is there
		"[::1]:5436":     "<reset>", // denied
	} {
		if got := w.direct(to).rest(); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// A listener that stands where a name's address is.
func TestDirectListener(t *testing.T) {
	l := listen(t)
	port := l.Addr().(*net.TCPAddr).Port
	w := &world{t: t, zone: map[string][][]string{"example.com": {{public}}}, at: map[string]string{}, told: make(chan struct{}, 9)}
	w.s = Serve(Config{Network: network(t, fmt.Sprintf("example.com:%d", port)), Refused: w.refuse, Resolve: w.resolve, Dial: w.dial}, Listeners{Direct: []net.Listener{l}})
	t.Cleanup(w.s.Close)
	w.serve(fmt.Sprintf("%s:%d", public, port), echo)
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil { // else it was reset by then
		_ = c.SetDeadline(time.Now().Add(patience))
		if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v", n, err)
		}
		c.Close()
	}
	w.wantRefused("direct", "127.0.0.1")
	w.s.names.mu.Lock()
	w.s.names.byIP = map[netip.Addr]string{netip.MustParseAddr("127.0.0.1"): "example.com"}
	w.s.names.mu.Unlock()
	c := w.open(l.Addr().String())
	c.say("words")
	c.hear("words")
}

func TestHalfClose(t *testing.T) {
	w := newWorld(t, "example.com other.example")
	w.name("example.com", public)
	w.name("other.example", "93.184.216.35")
	heard := make(chan string, 1)
	w.serve(public+":443", func(c net.Conn) { // says all first, then listens
		_, _ = io.WriteString(c, "all")
		closeWrite(c)
		all, _ := io.ReadAll(c)
		heard <- string(all)
	})
	w.serve("93.184.216.35:443", func(c net.Conn) { // listens to the end, then says all
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(all))
	})
	for _, first := range []string{"", "some words "} {
		c := w.connect("example.com:443")
		c.say(first)
		if got := c.rest(); got != "all" {
			t.Fatalf("%q", got)
		}
		c.say("after ")
		c.say("the end")
		_ = c.CloseWrite()
		if got := <-heard; got != first+"after the end" {
			t.Errorf("the server hears %q", got)
		}
	}
	c := w.connect("other.example:443")
	c.say("12345")
	_ = c.CloseWrite()
	if got := c.rest(); got != "5 bytes" {
		t.Errorf("%q", got)
	}
	c = w.connect("other.example:443")
	_ = c.CloseWrite()
	if got := c.rest(); got != "0 bytes" {
		t.Errorf("%q", got)
	}
}

// An end that is none does not look like one, on either side.
func TestResets(t *testing.T) {
	w := newWorld(t, "example.com other.example")
	w.name("example.com", public)
	w.name("other.example", "93.184.216.35")
	w.serve(public+":443", func(c net.Conn) {
		_, _ = io.WriteString(c, "half of it")
		_, _ = io.ReadFull(c, make([]byte, 2))
		reset(c)
	})
	ended := make(chan error, 1)
	w.serve("93.184.216.35:443", func(c net.Conn) {
		_, _ = io.WriteString(c, "go")
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	c := w.connect("example.com:443")
	c.hear("half of it")
	c.say("ok")
	if got := c.rest(); got != "<reset>" {
		t.Errorf("the client hears %q where the server broke off", got)
	}
	c = w.connect("other.example:443")
	c.hear("go")
	c.say("words")
	reset(c.TCPConn)
	if err := <-ended; err == nil {
		t.Error("the server sees an end where the client broke off")
	}
}

func TestBigTransfers(t *testing.T) {
	const size = 64 << 20
	w := newWorld(t, "example.com localhost:4443")
	w.name("example.com", public)
	sums := make(chan string, 2)
	both := func(c net.Conn, seed uint64) (string, error) {
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() {
			_, _ = io.CopyN(c, rand.NewChaCha8([32]byte{byte(seed)}), size)
			closeWrite(c)
		})
		sum := sha256.New()
		n, err := io.Copy(sum, c)
		if n != size {
			err = errors.Join(err, fmt.Errorf("%d bytes", n))
		}
		return hex.EncodeToString(sum.Sum(nil)), err
	}
	serve := func(c net.Conn) {
		sum, err := both(c, 1)
		if err != nil {
			sum = err.Error()
		}
		sums <- sum
	}
	w.serve(public+":443", serve)
	w.serve("127.0.0.1:4443", serve)
	want := func(seed byte) string {
		sum := sha256.New()
		_, _ = io.CopyN(sum, rand.NewChaCha8([32]byte{seed}), size)
		return hex.EncodeToString(sum.Sum(nil))
	}
	want1, want2 := want(1), want(2)
	for _, at := range []string{"example.com:443", "localhost:4443"} {
		c := w.connect(at)
		_ = c.SetDeadline(time.Now().Add(4 * patience))
		sum, err := both(c, 2)
		if err != nil || sum != want1 {
			t.Errorf("%s: the client gets %s, %v", at, sum, err)
		}
		if sum := <-sums; sum != want2 {
			t.Errorf("%s: the server gets %s", at, sum)
		}
	}
}

// A stuckServer says nothing, and that is all once eof is closed.
type stuckServer struct {
	net.Conn
	eof   chan struct{}
	wrote chan error
}

func (s *stuckServer) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.wrote <- err
	return n, err
}

func (s *stuckServer) CloseWrite() error { return nil }
func (s *stuckServer) Read([]byte) (int, error) {
	<-s.eof
	return 0, io.EOF
}

// One end has said all: the other may go on as long as it says something at times, and the
// link ends when it does not.
func TestSilentLinksEnd(t *testing.T) {
	pair := func() (outer, inner *net.TCPConn) {
		l := listen(t)
		o, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		i, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { o.Close(); i.Close() })
		_ = o.SetDeadline(time.Now().Add(patience))
		return o.(*net.TCPConn), i.(*net.TCPConn)
	}
	s := Serve(Config{Network: network(t, "example.com")}, Listeners{})
	defer s.Close()
	target := policy.Target{Name: "example.com", Port: 443}
	start := func(bound time.Duration) (client, server *net.TCPConn, done chan struct{}) {
		client, inner := pair()
		server, outer := pair()
		l := &link{client: inner, server: outer, halfTime: bound}
		done = make(chan struct{})
		go func() {
			defer close(done)
			l.run(func() ([]byte, error) { return s.head("direct", target, l, nil) })
			inner.Close()
			outer.Close()
		}()
		return client, server, done
	}
	wait := func(what string, done chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("%s: the link does not end", what)
		}
	}
	const short = 30 * time.Millisecond

	_, server, done := start(short)
	server.Close()
	wait("the server is gone, the client never spoke", done)

	client, server, done := start(short)
	_, _ = client.Write([]byte("hello"))
	_, _ = io.ReadFull(server, make([]byte, 5))
	_ = server.CloseWrite()
	wait("the server has said all, the client stays", done)

	client, _, done = start(short)
	_, _ = client.Write([]byte("hello"))
	_ = client.CloseWrite()
	wait("the client has said all, the server stays", done)

	// The client has said all, and does not take what the server sends.
	client, server, done = start(short)
	_ = client.CloseWrite()
	go func() { _, _ = io.Copy(server, rand.NewChaCha8([32]byte{})) }()
	wait("the client takes nothing", done)

	// The server has said all, and does not take what the client sends.
	client, server, done = start(short)
	go func() { _, _ = io.Copy(client, rand.NewChaCha8([32]byte{})) }()
	_, _ = io.ReadFull(server, make([]byte, 1<<20))
	_ = server.CloseWrite()
	wait("the server takes nothing", done)

	// The same, where the write is under way for sure: of the first words, and of later ones.
	// What was given up leaves no hole: nothing follows it.
	for _, later := range []string{"", "later words"} {
		client, inner := pair()
		near, far := net.Pipe()
		stuck := &stuckServer{near, make(chan struct{}), make(chan error, 9)}
		l := &link{client: inner, server: stuck, halfTime: short}
		done = make(chan struct{})
		go func() {
			defer close(done)
			l.run(func() ([]byte, error) { return s.head("direct", target, l, nil) })
			inner.Close()
			near.Close()
		}()
		_, _ = client.Write([]byte("hello"))
		if later != "" {
			_, _ = io.ReadFull(far, make([]byte, 5))
			if err := <-stuck.wrote; err != nil {
				t.Fatal(err)
			}
			_, _ = client.Write([]byte(later))
		}
		_, _ = far.Read(make([]byte, 1))
		_, _ = client.Write([]byte("tail"))
		close(stuck.eof)
		if err := <-stuck.wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the write that is given up: %v", err)
		}
		if got, _ := io.ReadAll(far); len(got) > 0 {
			t.Errorf("after a hole: %q", got)
		}
		wait("the server takes a part", done)
	}

	// Part of a greeting, and no server any more.
	client, server, done = start(short)
	_, _ = client.Write([]byte{22, 3, 1})
	_ = server.CloseWrite()
	wait("half a greeting", done)

	// Patient with one that goes on: nothing is lost when the carrying changes over.
	client, server, done = start(patience)
	sum := make(chan []byte, 1)
	go func() {
		h := sha256.New()
		_, _ = io.Copy(h, server)
		sum <- h.Sum(nil)
	}()
	want := sha256.New()
	from := io.TeeReader(rand.NewChaCha8([32]byte{}), want)
	for i := range 300 {
		if i == 100 {
			_ = server.CloseWrite()
		}
		if _, err := io.CopyN(client, from, 100_000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the server's end arrives as %v", err)
	}
	_ = client.CloseWrite()
	wait("both have said all", done)
	if got := <-sum; hex.EncodeToString(got) != hex.EncodeToString(want.Sum(nil)) {
		t.Error("what the client went on to say arrives otherwise")
	}
}
