package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// Some never say a word, some never read, some dribble; the others go on.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(t, "example.com other.example")
	w.name("example.com", public)
	w.name("other.example", "93.184.216.35")
	w.serve(public+":443", echo)
	flood := func(c net.Conn) {
		for zero := make([]byte, 64<<10); ; {
			if _, err := c.Write(zero); err != nil {
				return
			}
		}
	}
	w.serve("93.184.216.35:443", flood)
	for range 20 {
		w.open(w.proxy)                // says nothing
		w.open(w.proxy).say("CONN")    // nor enough
		w.open(w.proxy).say("\x05")    // nor for SOCKS
		w.open(w.names2).say("\x00")   // nor for DNS
		w.connect("example.com:443")   // nor inside
		w.connect("other.example:443") // does not read
		c := w.connect("example.com:443")
		c.say("\x16\x03\x01") // dribbles
		go flood(w.connect("example.com:443"))
	}
	var all sync.WaitGroup
	for i := range 200 {
		c := w.connect("example.com:443")
		all.Go(func() {
			text := strings.Repeat(fmt.Sprint(i, " "), 20000)
			all.Go(func() {
				_, _ = io.WriteString(c.TCPConn, text)
				_ = c.CloseWrite()
			})
			if got, err := io.ReadAll(c); err != nil || string(got) != text {
				t.Errorf("connection %d gets %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
	w.closes(0)
}

func TestTooMany(t *testing.T) {
	w := newWorld(t, "example.com")
	w.name("example.com", public)
	w.serve(public+":443", echo)
	var held []*client
	for range maxConns {
		c := w.open(w.proxy)
		held = append(held, c)
	}
	// All of those have come to be served, or the next would not be refused.
	eventually(t, func() string {
		if n := len(w.s.slots); n < maxConns {
			return fmt.Sprint(n, " are served")
		}
		return ""
	})
	for _, at := range []string{w.proxy, w.names2} {
		if got := w.open(at).rest(); got != "" && got != "<reset>" {
			t.Errorf("one too many: %q", got)
		}
	}
	w.waitRefused("proxy", "too many connections at once")
	w.waitRefused("dns", "too many connections at once")
	for _, c := range held {
		c.Close()
	}
	eventually(t, func() string {
		if n := len(w.s.slots); n > 0 {
			return fmt.Sprint(n, " are still served")
		}
		return ""
	})
	c := w.connect("example.com:443")
	c.say("words")
	c.hear("words")
}

// Close ends all that goes on, whatever that is, and leaves nothing.
func TestClose(t *testing.T) {
	listen(t).Close() // what the runtime opens once is open
	before := descriptors(t)
	w := newWorld(t, "example.com other.example slow.example hangs.example", "denied.example")
	w.name("example.com", public)
	w.name("other.example", "93.184.216.35")
	w.name("slow.example", "93.184.216.36")
	serving := make(chan struct{}, 100)
	w.s.config.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if to.Addr() == netip.MustParseAddr("93.184.216.36") {
			serving <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return w.dial(ctx, to)
	}
	w.s.config.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
		if name == "hangs.example" {
			serving <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return w.resolve(ctx, name)
	}
	var servers []net.Conn
	var mu sync.Mutex
	keep := func(c net.Conn) {
		mu.Lock()
		servers = append(servers, c)
		mu.Unlock()
		r := bufio.NewReader(c)
		for b, _ := r.Peek(1); len(b) == 1 && b[0] == 'G'; b, _ = r.Peek(1) {
			req, err := http.ReadRequest(r)
			if err != nil {
				break
			}
			_, _ = io.WriteString(c, map[string]string{
				"/up":   "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
				"/idle": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
				"/half": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
			}[req.URL.Path])
		}
		_, _ = io.Copy(io.Discard, r)
	}
	for _, at := range []string{public + ":443", public + ":80"} {
		w.serve(at, keep)
	}
	w.serve("93.184.216.35:443", func(c net.Conn) {
		mu.Lock()
		servers = append(servers, c)
		mu.Unlock()
		for zero := make([]byte, 64<<10); ; {
			if _, err := c.Write(zero); err != nil {
				return
			}
		}
	})
	var clients []*client
	open := func(at string, says string) *client {
		c := w.open(at)
		c.say(says)
		clients = append(clients, c)
		return c
	}
	expected := 0
	for range 5 {
		open(w.proxy, "")
		open(w.proxy, "GET http://exam")
		open(w.proxy, "\x05\x01\x00\x05")
		open(w.names2, "\x00")
		clients = append(clients, w.connect("example.com:443"), w.connect("other.example:443"))
		c := w.connect("example.com:443")
		c.say("\x16\x03\x01\x02\x00")
		clients = append(clients, c)
		open(w.proxy, "GET http://example.com/up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n").response("GET")
		open(w.proxy, "GET http://example.com/idle HTTP/1.1\r\nHost: x\r\n\r\n").response("GET")
		open(w.proxy, "GET http://example.com/half HTTP/1.1\r\nHost: x\r\n\r\n").response("GET")
		open(w.proxy, "GET http://example.com/wait HTTP/1.1\r\nHost: x\r\n\r\n")
		open(w.proxy, "POST http://example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
		open(w.proxy, "GET http://slow.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
		open(w.proxy, "CONNECT slow.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		open(w.proxy, socks(1, 3, named("slow.example"), 443))
		open(w.proxy, "CONNECT hangs.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		q := query(t, 1, 1, 1, false, "hangs.example.")
		open(w.names2, "\x00"+string([]byte{byte(len(q))})+string(q))
		expected += 5
	}
	for range expected {
		select {
		case <-serving:
		case <-time.After(patience):
			t.Fatal("not all is under way")
		}
	}
	// One that is dialled for a request whose client has gone.
	gone := open(w.proxy, "GET http://slow.example/gone HTTP/1.1\r\nHost: x\r\n\r\n")
	<-serving
	gone.TCPConn.Close()

	begun := time.Now()
	w.closes(0)
	t.Logf("closed in %v", time.Since(begun))
	for _, c := range clients {
		_, _ = io.Copy(io.Discard, c) // an end, and no deadline
		c.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range servers {
		c.Close()
	}
	w.closes(before + 3) // twice is once; the three servers of this test listen still
	if _, err := net.Dial("tcp", w.proxy); err == nil {
		t.Error("the proxy still listens")
	}
}

// A server that is closed while connections come in.
func TestCloseUnderWay(t *testing.T) {
	for range 30 {
		w := newWorld(t, "example.com")
		w.name("example.com", public)
		w.serve(public+":443", echo)
		w.serve(public+":80", func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		var all sync.WaitGroup
		begun := make(chan struct{}, 100)
		for i := range 12 {
			all.Go(func() {
				for {
					c, err := net.Dial("tcp", w.proxy)
					if err != nil {
						return
					}
					_ = c.SetDeadline(time.Now().Add(patience))
					says := []string{"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\nwords", socks(1, 3, named("example.com"), 443) + "words", "GET http://example.com/ HTTP/1.1\r\nHost: x\r\n\r\n"}
					_, _ = io.WriteString(c, says[i%3])
					_, _ = io.ReadFull(c, make([]byte, 12))
					c.Close()
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 20 {
			<-begun
		}
		w.closes(0)
		all.Wait()
	}
}
