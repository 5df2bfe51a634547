package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// A sink is a server that keeps what it is sent, connection by connection.
type sink struct {
	w   *world
	got chan []byte
}

func (w *world) sink(at string) *sink {
	s := &sink{w, make(chan []byte, 100)}
	w.serve(at, func(c net.Conn) {
		all, _ := io.ReadAll(c)
		s.got <- all
	})
	return s
}

func (s *sink) want(what string, want []byte) {
	s.w.t.Helper()
	select {
	case got := <-s.got:
		if !bytes.Equal(got, want) {
			s.w.t.Errorf("%s: the server is sent %d bytes, %.60q; want %d, %.60q", what, len(got), got, len(want), want)
		}
	case <-time.After(patience):
		s.w.t.Fatalf("%s: the server sees no end", what)
	}
}

// hello is what a TLS client says first.
func hello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	c = c.Clone()
	if c.ServerName == "" {
		c.InsecureSkipVerify = true
	}
	go func() {
		_ = tls.Client(near, c).Handshake()
		near.Close()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(far, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(far, body); err != nil {
		t.Fatal(err)
	}
	far.Close()
	return append(head, body...)
}

func greeting(t testing.TB, name string) []byte { return hello(t, &tls.Config{ServerName: name}) }

// renamed is a greeting with another server name of the same length, in any bytes.
func renamed(t testing.TB, name string) []byte {
	plain := strings.Repeat("n", len(name))
	return bytes.Replace(greeting(t, plain), []byte(plain), []byte(name), 1)
}

// records puts a greeting into several TLS records.
func records(greeting []byte, size int) (out []byte) {
	for part := range slices.Chunk(greeting[5:], size) {
		out = append(out, 22, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// padded is a greeting of about n bytes more.
func padded(t testing.TB, name string, n int) []byte {
	var protos []string
	for range n / 201 {
		protos = append(protos, strings.Repeat("p", 200))
	}
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: name, NextProtos: protos}).Handshake()
	}()
	defer far.Close()
	var message []byte
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(far, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint16(head[3:]))
		if _, err := io.ReadFull(far, body); err != nil {
			t.Fatal(err)
		}
		message = append(message, body...)
		if want := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3]); len(message) == want {
			return append(make([]byte, 5), message...) // records splits it
		}
	}
}

func sniWorld(t *testing.T) (*world, *sink) {
	w := newWorld(t, "example.com other.example *.example.org localhost:4443 93.184.216.40:443 bücher.example", "secret.example.org")
	w.name("example.com", public)
	w.serve("127.0.0.1:4443", echo)
	return w, w.sink(public + ":443")
}

// ways are how a client comes to a tunnel.
var ways = map[string]func(w *world, early []byte) *client{
	"proxy": func(w *world, early []byte) *client {
		c := w.open(w.proxy)
		c.say("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n" + string(early))
		c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
		return c
	},
	"socks": func(w *world, early []byte) *client {
		c := w.open(w.proxy)
		c.say(socks(1, 3, named("example.com"), 443) + string(early))
		c.hear(socksWelcome)
		return c
	},
}

func TestServerNames(t *testing.T) {
	w, server := sniWorld(t)
	big := padded(t, "example.com", 30000)
	bigEvil := padded(t, "evil.example", 30000)
	alert := []byte{21, 3, 1, 0, 2, 1, 90}
	for _, test := range []struct {
		name  string
		says  []byte
		wrong string // why it is refused
	}{
		{"equal", greeting(t, "example.com"), ""},
		{"upper case", renamed(t, "EXAMPLE.com"), ""},
		{"another granted one", greeting(t, "other.example"), ""},
		{"below a suffix", greeting(t, "a.example.org"), ""},
		{"none", hello(t, &tls.Config{}), ""},
		{"with more behind", append(greeting(t, "example.com"), strings.Repeat("early data", 300)...), ""},
		{"TLS 1.2", hello(t, &tls.Config{ServerName: "example.com", MaxVersion: tls.VersionTLS12}), ""},
		{"in records of one byte", records(greeting(t, "example.com"), 1), ""},
		{"large", records(big, 16<<10), ""},
		{"large in small records", records(big, 1000), ""},
		{"an alert before", append(slices.Clone(alert), greeting(t, "example.com")...), ""},
		{"plain text", []byte("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), ""},
		{"one byte", []byte("x"), ""},
		{"what looks like an alert and is none", []byte("\x15\x00\x00\x00\x64\xff\xff9P2000.L"), ""},
		{"the first byte of an alert", []byte("\x15"), ""},
		{"SSLv2", []byte("\x80\x2e\x01\x00\x02"), ""},
		{"nothing", nil, ""},

		{"two greetings", append(greeting(t, "example.com"), greeting(t, "other.example")...), ""},
		{"two greetings, a cipher change between", slices.Concat(greeting(t, "example.com"), []byte{20, 3, 3, 0, 1, 1}, greeting(t, "example.com")), ""},

		{"not granted", greeting(t, "evil.example"), `"evil.example"`},
		{"denied", greeting(t, "secret.example.org"), `"secret.example.org"`},
		{"the suffix itself", greeting(t, "example.org"), `"example.org"`},
		{"a longer name", greeting(t, "example.com.evil.example"), `"example.com.evil.example"`},
		{"localhost", greeting(t, "localhost"), `"localhost"`},
		{"an address", renamed(t, "93.184.216.35"), `"93.184.216.35"`},
		{"a control character", renamed(t, "example\x1b[2Jcom"), `"example\x1b[2Jcom"`},
		{"NUL", renamed(t, "example.com\x00.evil.example"), `\x00`},
		{"a dot at the end", renamed(t, "example.com."), "not a client's greeting"},
		{"records of one byte, not granted", records(greeting(t, "evil.example"), 1), `"evil.example"`},
		{"large, not granted", records(bigEvil, 16<<10), `"evil.example"`},
		{"an alert before, not granted", append(slices.Clone(alert), greeting(t, "evil.example")...), `"evil.example"`},
		{"an alert of an odd version before", append([]byte{21, 4, 4, 0, 2, 1, 90}, greeting(t, "evil.example")...), `"evil.example"`},
		{"an alert in pieces before", append([]byte{21, 3, 1, 0, 1, 1, 21, 3, 1, 0, 1, 90}, greeting(t, "evil.example")...), "not a client's greeting"},
		{"a cipher change before", append([]byte{20, 3, 1, 0, 1, 1}, greeting(t, "evil.example")...), "not a client's greeting"},
		{"an odd version", append([]byte{22, 4, 4}, greeting(t, "evil.example")[3:]...), `"evil.example"`},
		{"garbage", []byte("\x16garbage that goes on and on"), "not a client's greeting"},
		{"garbage in a record", []byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"), "not a client's greeting"},
		{"a server's greeting", []byte("\x16\x03\x03\x00\x04\x02\x00\x00\x00"), "not a client's greeting"},
		{"cut off", greeting(t, "example.com")[:50], "not a client's greeting"},
		{"one byte of TLS", []byte("\x16"), "not a client's greeting"},
		{"empty records", bytes.Repeat([]byte{22, 3, 1, 0, 0}, 100), "not a client's greeting"},
		{"too large", append([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 16380)...), "not a client's greeting"},
	} {
		for via, open := range ways {
			// With the request; after it; byte by byte.
			for _, how := range []string{"early", "late", "bytes"} {
				if how == "bytes" && len(test.says) > 2000 {
					continue
				}
				w.forget()
				var c *client
				switch how {
				case "early":
					c = open(w, test.says)
				case "late":
					c = open(w, nil)
					_, _ = c.Write(test.says)
				default:
					c = open(w, nil)
					for i := range test.says {
						_, _ = c.Write(test.says[i : i+1])
					}
				}
				_ = c.CloseWrite()
				what := via + ", " + test.name + ", " + how
				if test.wrong != "" {
					w.waitRefused(via, "example.com:443", test.wrong)
					server.want(what, nil)
					if got := c.rest(); got != "" && got != "<reset>" {
						t.Errorf("%s: the client hears %q", what, got)
					}
					continue
				}
				server.want(what, test.says)
				if _, refused, _ := w.seen(); len(refused) > 0 {
					t.Errorf("%s: refused %+v", what, refused)
				}
			}
		}
	}
}

// Before the last byte of a greeting has come, the server has been sent nothing.
func TestNothingGoesOutBefore(t *testing.T) {
	w := newWorld(t, "example.com")
	w.name("example.com", public)
	sent := make(chan byte, 10000)
	w.serve(public+":443", func(c net.Conn) {
		b := make([]byte, 1)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			sent <- b[0]
		}
	})
	for _, open := range ways {
		c := open(w, nil)
		says := greeting(t, "example.com")
		for i := range says[:len(says)-1] {
			_, _ = c.Write(says[i : i+1])
			if len(sent) > 0 {
				t.Fatalf("something went out after %d of %d bytes", i+1, len(says))
			}
		}
		_, _ = c.Write(says[len(says)-1:])
		for range says {
			select {
			case <-sent:
			case <-time.After(patience):
				t.Fatal("the greeting does not go out")
			}
		}
		c.Close()
	}
}

// An address and localhost are granted with all that answers there.
func TestNoServerNameForAddresses(t *testing.T) {
	w, _ := sniWorld(t)
	other := w.sink("93.184.216.40:443")
	says := greeting(t, "evil.example")
	c := w.connect("93.184.216.40:443")
	c.say(string(says))
	_ = c.CloseWrite()
	other.want("address", says)
	c = w.connect("localhost:4443")
	c.say(string(says))
	c.hear(string(says))
}

func TestRealTLS(t *testing.T) {
	w := newWorld(t, "example.com other.example")
	w.name("example.com", public)
	cert := certificate(t, "example.com", "other.example", "outer.example")
	echKey, echList := echConfig(t, "outer.example")
	echGranted, echGrantedList := echConfig(t, "other.example")
	config := &tls.Config{Certificates: []tls.Certificate{cert}, EncryptedClientHelloKeys: []tls.EncryptedClientHelloKey{echKey, echGranted}}
	w.serve(public+":443", func(c net.Conn) { echo(tls.Server(c, config)) })
	shake := func(c *tls.Config) error {
		c.RootCAs = roots(cert)
		conn := tls.Client(w.connect("example.com:443").TCPConn, c)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("secret")); err != nil {
			return err
		}
		got := make([]byte, 6)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "secret" {
			return errors.Join(err, errors.New("no echo"))
		}
		return nil
	}
	for _, name := range []string{"example.com", "other.example"} {
		if err := shake(&tls.Config{ServerName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := shake(&tls.Config{ServerName: "example.com", EncryptedClientHelloConfigList: echGrantedList}); err != nil {
		t.Errorf("ECH behind a granted name: %v", err)
	}
	w.forget()
	if err := shake(&tls.Config{ServerName: "example.com", EncryptedClientHelloConfigList: echList}); err == nil {
		t.Error("ECH behind a name that is not granted passes")
	}
	w.waitRefused("proxy", `"outer.example"`)
}
