package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn/internal/policy"

	"golang.org/x/net/dns/dnsmessage"
)

// fuzzed is the network of the fuzz targets.
func fuzzed(t testing.TB) *policy.Network {
	return network(t, "example.com *.example.org 93.184.216.40:25 localhost:5432", "secret.example.org", "93.184.216.36")
}

// mayAsk reports whether a name may be asked for upstream there.
func mayAsk(name string) bool {
	return name == "example.com" || strings.HasSuffix(name, ".example.org") && name != "secret.example.org"
}

// FuzzAnswer: every query gets no answer or a true one, and nothing is asked for upstream
// that is not granted.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"example.com.", "A.Example.ORG.", "secret.example.org.", "evil.example.", "localhost.", "1.0.0.127.in-addr.arpa.", "."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeALL, 65} {
			f.Add(query(f, 1, kind, dnsmessage.ClassINET, true, name))
		}
	}
	f.Add(query(f, 1, dnsmessage.TypeA, dnsmessage.ClassCHAOS, false, "example.com.", "b.example.org."))
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	s := Serve(Config{Network: fuzzed(f), Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		if !mayAsk(name) {
			panic("asked for " + name)
		}
		return []netip.Addr{netip.MustParseAddr(public)}, nil
	}}, Listeners{})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, q []byte) {
		out := s.answer(q)
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil {
			t.Fatalf("%x: %v", out, err)
		}
		if !m.Response || m.ID != binary.BigEndian.Uint16(q) || len(m.Questions) > 1 || len(out) > 512 {
			t.Errorf("%+v", m)
		}
		for _, r := range m.Answers {
			target, err := policy.ParseTarget(r.Header.Name.String(), 0)
			name := target.Name
			if err != nil {
				t.Fatalf("%q is answered: %v", r.Header.Name, err)
			}
			switch body := r.Body.(type) {
			case *dnsmessage.AResource:
				addr := netip.AddrFrom4(body.A)
				if at, ok := s.names.at(addr); !(ok && at == name && mayAsk(name)) && !(name == "localhost" && addr.IsLoopback()) {
					t.Errorf("%s is at %s", name, addr)
				}
			case *dnsmessage.AAAAResource:
				if name != "localhost" || body.AAAA != netip.IPv6Loopback().As16() {
					t.Errorf("%s is at %x", name, body.AAAA)
				}
			}
		}
	})
}

// FuzzProxyRequest: whatever a client says, nothing is asked for or dialled that is not
// granted, and the connection ends when the client does.
func FuzzProxyRequest(f *testing.F) {
	for _, host := range []string{"example.com", "a.example.org:443", "secret.example.org", "127.0.0.1:80", "[::1]:443", "2130706433", "93.184.216.40:25", "localhost:5432"} {
		f.Add([]byte("CONNECT " + host + " HTTP/1.1\r\nHost: x\r\n\r\nwords"))
		f.Add([]byte("GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n"))
		f.Add([]byte("POST http://" + host + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\nGET http://evil.example/ HTTP/1.1\r\n\r\n"))
		f.Add([]byte("GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nwords"))
		f.Add([]byte(socks(1, 3, named(host), 443) + "words"))
	}
	f.Add([]byte(socks(1, 1, raw("93.184.216.40"), 25) + "\x16\x03\x01"))
	f.Add([]byte(socks(1, 4, raw("::ffff:127.0.0.1"), 5432)))
	may := []string{public + ":80", public + ":443", "93.184.216.40:25", "127.0.0.1:5432", "[::1]:5432"}
	wrong := make(chan string, 100)
	l := listen(f)
	s := Serve(Config{Network: fuzzed(f),
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if !mayAsk(name) {
				wrong <- "asked for " + name
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr(public), netip.MustParseAddr("93.184.216.36")}, nil
		},
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			if !slices.Contains(may, to.String()) {
				wrong <- "dialled " + to.String()
			}
			near, far := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, io.LimitReader(far, 100))
				_, _ = io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nbye")
				far.Close()
			}()
			return near, nil
		},
	}, Listeners{Proxy: l})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, says []byte) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write(says)
		_ = c.(*net.TCPConn).CloseWrite()
		if n, err := io.Copy(io.Discard, c); err != nil && isTimeout(err) {
			t.Errorf("no end after %d bytes", n)
		}
		select {
		case what := <-wrong:
			t.Error(what)
		default:
		}
	})
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// A script is a connection over which a client says what it holds.
type script struct {
	net.Conn
	r    *bytes.Reader
	size int // of one read
}

func (s *script) Read(p []byte) (int, error)       { return s.r.Read(p[:min(s.size, len(p))]) }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// Kept is a connection that keeps what is written to it.
type kept struct {
	net.Conn
	bytes.Buffer
}

func (s *kept) Read(p []byte) (int, error)  { return s.Buffer.Read(p) }
func (s *kept) Write(p []byte) (int, error) { return s.Buffer.Write(p) }

// FuzzServerName: what passes is what was said, whole, and a server that finds a name in it
// finds one that is granted.
func FuzzServerName(f *testing.F) {
	for _, name := range []string{"example.com", "a.example.org", "secret.example.org", "evil.example", "localhost"} {
		g := greeting(f, name)
		f.Add(g, 1)
		f.Add(append(g, "more"...), 4096)
		f.Add(records(g, 7), 3)
		f.Add(append([]byte{21, 3, 1, 0, 2, 1, 90}, g...), 4096)
		f.Add(append([]byte{20, 3, 3, 0, 1, 1}, g...), 4096)
		old := hello(f, &tls.Config{ServerName: name, MaxVersion: tls.VersionTLS12})
		f.Add(old, 100)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"), 5)
	f.Add([]byte("\x15\x00\x00\x00\x64"), 2)
	s := Serve(Config{Network: fuzzed(f)}, Listeners{})
	f.Cleanup(s.Close)
	target := policy.Target{Name: "example.com", Port: 443}
	var once sync.Mutex
	f.Fuzz(func(t *testing.T, says []byte, size int) {
		once.Lock()
		defer once.Unlock()
		c := &script{r: bytes.NewReader(says), size: max(size, 1)}
		sent := &kept{}
		out, err := s.head("direct", target, &link{client: c, server: sent}, nil)
		if err != nil {
			if name := readName(sent.Bytes()); name != "" && name != "example.com" && !mayAsk(strings.ToLower(name)) {
				t.Errorf("%q passes before it is refused", name)
			}
			return
		}
		left, _ := io.ReadAll(c.r)
		if whole := slices.Concat(sent.Bytes(), out, left); !bytes.Equal(whole, says) {
			t.Fatalf("%x passes as %x", says, whole)
		}
		if name := readName(says); name != "" && name != "example.com" && !mayAsk(strings.ToLower(name)) {
			t.Errorf("%q passes", name)
		}
	})
}

// readName finds the server name as a lenient server does: alerts, and whatever else comes
// before the greeting, are skipped.
func readName(says []byte) string {
	var message []byte
	for len(says) >= 5 && says[0] >= 20 && says[0] <= 24 && says[1] == 3 {
		n := int(binary.BigEndian.Uint16(says[3:]))
		if len(says) < 5+n {
			break
		}
		if says[0] == 22 {
			message = append(message, says[5:5+n]...)
		}
		says = says[5+n:]
	}
	take := func(b *[]byte, lengthBytes int) (part []byte) {
		n := 0
		for i := range lengthBytes {
			if i >= len(*b) {
				return nil
			}
			n = n<<8 | int((*b)[i])
		}
		if len(*b) < lengthBytes+n {
			*b = nil
			return nil
		}
		part, *b = (*b)[lengthBytes:lengthBytes+n], (*b)[lengthBytes+n:]
		return part
	}
	if len(message) < 1 || message[0] != 1 {
		return ""
	}
	rest := message[1:]
	body := take(&rest, 3)
	if len(body) < 34 {
		return ""
	}
	body = body[34:]
	take(&body, 1)
	take(&body, 2)
	take(&body, 1)
	for extensions := take(&body, 2); len(extensions) >= 4; {
		kind := binary.BigEndian.Uint16(extensions)
		extensions = extensions[2:]
		content := take(&extensions, 2)
		if kind != 0 {
			continue
		}
		for list := take(&content, 2); len(list) > 3; {
			kind := list[0]
			list = list[1:]
			if name := take(&list, 2); kind == 0 {
				return string(name)
			}
		}
	}
	return ""
}
