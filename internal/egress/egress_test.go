package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn/internal/policy"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// A world is what a server under test sees of the network: names, and who answers at an
// address. Nothing of it is real but the loopback connections.
type world struct {
	t *testing.T
	s *Server

	proxy, names2 string
	names         net.Addr

	mu       sync.Mutex
	zone     map[string][][]string // each Resolve takes the next, and the last for ever
	at       map[string]string     // who answers at an address:port
	resolved []string
	dialled  []string
	refused  []Refusal
	told     chan struct{} // gets one for every refusal, as far as it has room
}

const public = "93.184.216.34"

// newWorld serves a network of these grants and denies.
func newWorld(t *testing.T, grants string, denies ...string) *world {
	t.Helper()
	w := &world{t: t, zone: map[string][][]string{}, at: map[string]string{}, told: make(chan struct{}, 1<<12)}
	var ls Listeners
	ls.Proxy, ls.Names2 = listen(t), listen(t)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ls.Names = pc
	w.proxy, w.names2, w.names = ls.Proxy.Addr().String(), ls.Names2.Addr().String(), pc.LocalAddr()
	w.s = Serve(Config{Network: network(t, grants, denies...), Refused: w.refuse, Resolve: w.resolve, Dial: w.dial}, ls)
	t.Cleanup(w.s.Close)
	return w
}

func network(t testing.TB, grants string, denies ...string) *policy.Network {
	t.Helper()
	n := &policy.Network{Mode: policy.NetworkRestricted, Direct: true}
	rule := func(i int, text string) policy.HostRule {
		h, err := policy.ParseHost(text)
		if err != nil {
			t.Fatal(err)
		}
		return policy.HostRule{Host: h, Item: i}
	}
	for i, text := range strings.Fields(grants) {
		n.Grants = append(n.Grants, rule(i, text))
	}
	for i, text := range denies {
		n.Denies = append(n.Denies, rule(100+i, text))
	}
	return n
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (w *world) refuse(r Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, r)
	select {
	case w.told <- struct{}{}:
	default:
	}
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolved = append(w.resolved, name)
	rounds := w.zone[name]
	if len(rounds) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if len(rounds) > 1 {
		w.zone[name] = rounds[1:]
	}
	var out []netip.Addr
	for _, a := range rounds[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to.String())
	at, ok := w.at[to.String()]
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("nobody answers")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

// name gives a name its addresses, one line for each time that it is resolved.
func (w *world) name(name string, rounds ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rounds {
		w.zone[name] = append(w.zone[name], strings.Fields(r))
	}
}

// serve answers at an address with serve, for each connection.
func (w *world) serve(at string, serve func(net.Conn)) {
	l := listen(w.t)
	w.mu.Lock()
	w.at[at] = l.Addr().String()
	w.mu.Unlock()
	var all sync.WaitGroup
	w.t.Cleanup(func() { l.Close(); w.s.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			all.Go(func() { defer c.Close(); serve(c) })
		}
	})
}

func (w *world) serveHTTP(at string, h http.HandlerFunc) {
	l := listen(w.t)
	w.mu.Lock()
	w.at[at] = l.Addr().String()
	w.mu.Unlock()
	web := &http.Server{Handler: h}
	go func() { _ = web.Serve(l) }()
	w.t.Cleanup(func() { web.Close() })
}

// echo sends back what it is sent.
func echo(c net.Conn) {
	_, _ = io.Copy(c, c)
	closeWrite(c)
}

func (w *world) seen() (dialled []string, refused []Refusal, resolved []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialled), slices.Clone(w.refused), slices.Clone(w.resolved)
}

// forget clears what was seen.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled, w.refused, w.resolved = nil, nil, nil
}

// wantRefused waits for a refusal that says all of words, and for no dial.
func (w *world) wantRefused(via string, words ...string) {
	w.t.Helper()
	w.waitRefused(via, words...)
	if dialled, _, _ := w.seen(); len(dialled) > 0 {
		w.t.Errorf("dialled %q", dialled)
	}
}

func (w *world) waitRefused(via string, words ...string) {
	w.t.Helper()
	late := time.After(patience)
	for {
		_, refused, _ := w.seen()
		for _, r := range refused {
			text := r.Target + ": " + r.Reason
			if r.Via == via && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
				return
			}
		}
		select {
		case <-w.told:
		case <-late:
			w.t.Errorf("no refusal via %s says %q; there are %+v", via, words, refused)
			return
		}
	}
}

func (w *world) wantDialled(want ...string) {
	w.t.Helper()
	if dialled, _, _ := w.seen(); !slices.Equal(dialled, want) {
		w.t.Errorf("dialled %q, want %q", dialled, want)
	}
}

// open connects to a listener.
func (w *world) open(at string) *client {
	w.t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c), t: w.t}
}

// A client is one connection of a test.
type client struct {
	*net.TCPConn
	r *bufio.Reader
	t testing.TB
}

func (c *client) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.TCPConn, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) Read(p []byte) (int, error)         { return c.r.Read(p) }
func (c *client) WriteTo(w io.Writer) (int64, error) { return c.r.WriteTo(w) }

// hear reads exactly what is wanted.
func (c *client) hear(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c, got)
	if err != nil || string(got) != want {
		c.t.Fatalf("heard %q, %v; want %q", got[:n], err, want)
	}
}

// rest reads to the end; an end that is none is marked.
func (c *client) rest() string {
	c.t.Helper()
	got, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("no end after %q", got)
	}
	if err != nil {
		return string(got) + "<reset>"
	}
	return string(got)
}

func (c *client) response(method string) *http.Response {
	c.t.Helper()
	r, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// connect opens a tunnel.
func (w *world) connect(at string) *client {
	w.t.Helper()
	c := w.open(w.proxy)
	c.say("CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n")
	c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
	return c
}

// status asks for a tunnel and returns what that comes to.
func (w *world) status(at string) (int, string) {
	w.t.Helper()
	c := w.open(w.proxy)
	c.say("CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\n")
	r := c.response("CONNECT")
	if r.StatusCode == http.StatusOK {
		return r.StatusCode, ""
	}
	body, _ := io.ReadAll(io.LimitReader(c.r, r.ContentLength))
	return r.StatusCode, string(body)
}

// stacks returns the goroutines that run code of this package other than tests, or for it.
func stacks() (found []string) {
	buf := make([]byte, 8<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for g := range bytes.SplitSeq(buf, []byte("\n\n")) {
		text := string(g)
		if strings.Contains(text, "egress.(*Server)") || strings.Contains(text, "egress.(*link)") ||
			strings.Contains(text, "net/http.(*persistConn)") || strings.Contains(text, "net/http.(*Transport)") {
			found = append(found, text)
		}
	}
	return found
}

// descriptors returns how many are open.
func descriptors(t testing.TB) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc/self/fd")
	}
	return len(all)
}

// eventually waits until what holds returns "".
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	end := time.Now().Add(patience)
	for wrong() != "" {
		if time.Now().After(end) {
			t.Fatal(wrong())
		}
		runtime.Gosched()
	}
}

// closes closes a server and fails if that takes long or leaves anything.
func (w *world) closes(before int) {
	w.t.Helper()
	done := make(chan struct{})
	go func() { w.s.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		w.t.Fatalf("Close does not return; there are\n%s", strings.Join(stacks(), "\n\n"))
	}
	// What has said that it is done may be on its last instructions.
	eventually(w.t, func() string {
		if left := stacks(); len(left) > 0 {
			return "left behind:\n" + strings.Join(left, "\n\n")
		}
		return ""
	})
	if before > 0 {
		eventually(w.t, func() string {
			if now := descriptors(w.t); now > before {
				return fmt.Sprintf("%d descriptors, %d before", now, before)
			}
			return ""
		})
	}
}
