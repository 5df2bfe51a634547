package egress

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

// socks is a SOCKS5 greeting and request.
func socks(command, kind byte, addr string, port uint16) string {
	return string([]byte{5, 1, 0, 5, command, 0, kind}) + addr + string([]byte{byte(port >> 8), byte(port)})
}

func named(name string) string { return string([]byte{byte(len(name))}) + name }

func raw(addr string) string { return string(netip.MustParseAddr(addr).AsSlice()) }

const socksWelcome = "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"

func TestSOCKS(t *testing.T) {
	w := newWorld(t, "example.com 93.184.216.40 [2606:4700::1]:443 localhost:5432")
	w.name("example.com", public)
	for _, at := range []string{public + ":443", "93.184.216.40:80", "[2606:4700::1]:443", "127.0.0.1:5432"} {
		w.serve(at, echo)
	}
	for _, request := range []string{
		socks(1, 3, named("example.com"), 443), socks(1, 3, named("EXAMPLE.com."), 443),
		socks(1, 1, raw("93.184.216.40"), 80), socks(1, 3, named("93.184.216.40"), 80), socks(1, 4, raw("::ffff:93.184.216.40"), 80),
		socks(1, 4, raw("2606:4700::1"), 443), socks(1, 3, named("localhost"), 5432), socks(1, 1, raw("127.0.0.1"), 5432),
	} {
		c := w.open(w.proxy)
		for _, b := range []byte(request) {
			c.say(string([]byte{b}))
		}
		c.hear(socksWelcome)
		c.say("words")
		c.hear("words")
		_ = c.CloseWrite()
		if got := c.rest(); got != "" {
			t.Errorf("%q: at the end %q", request, got)
		}
		// All in one packet.
		c = w.open(w.proxy)
		c.say(request + "early words")
		c.hear(socksWelcome + "early words")
	}
	if _, refused, _ := w.seen(); len(refused) > 0 {
		t.Errorf("refused %+v", refused)
	}
}

func TestSOCKSRefusals(t *testing.T) {
	w := newWorld(t, "example.com gone.example")
	w.name("example.com", public)
	for _, test := range []struct {
		name, request string
		code          byte
		told          string
	}{
		{"name", socks(1, 3, named("evil.example"), 443), socksNotAllowed, "evil.example:443: not granted"},
		{"port", socks(1, 3, named("example.com"), 22), socksNotAllowed, "example.com:22: port 22"},
		{"no port", socks(1, 3, named("example.com"), 0), socksNotAllowed, "example.com:0: "},
		{"address", socks(1, 1, raw(public), 443), socksNotAllowed, public + ":443: not granted"},
		{"loopback", socks(1, 1, raw("127.0.0.1"), 443), socksNotAllowed, "127.0.0.1:443: not granted"},
		{"IPv6", socks(1, 4, raw("::1"), 443), socksNotAllowed, "[::1]:443: not granted"},
		{"mapped", socks(1, 4, raw("::ffff:127.0.0.1"), 443), socksNotAllowed, "127.0.0.1:443: not granted"},
		{"control plane", socks(1, 3, named("localhost"), 7720), socksNotAllowed, "localhost:7720: it is bourn's own"},
		{"number", socks(1, 3, named("2130706433"), 443), socksNotAllowed, "2130706433:443: "},
		{"nothing", socks(1, 3, named(""), 443), socksNotAllowed, ":443: "},
		{"long", socks(1, 3, named(strings.Repeat("a.", 127)+"a"), 443), socksNotAllowed, ":443: "},
		{"NUL", socks(1, 3, named("example.com\x00.evil.example"), 443), socksNotAllowed, ":443: "},
		{"BIND", socks(2, 3, named("example.com"), 443), socksNoCommand, "example.com:443: only CONNECT"},
		{"UDP", socks(3, 1, raw("1.1.1.1"), 53), socksNoCommand, "1.1.1.1:53: only CONNECT"},
		{"version", strings.Replace(socks(1, 3, named("example.com"), 443), "\x00\x05\x01", "\x00\x04\x01", 1), socksNoCommand, "example.com:443: "},
		{"kind", socks(1, 2, "x", 443), socksNoAddress, "unknown kind"},
		{"resolving", socks(1, 3, named("gone.example"), 443), socksUnreachable, ""},
	} {
		w.forget()
		c := w.open(w.proxy)
		c.say(test.request)
		c.hear("\x05\x00")
		if got := c.rest(); len(got) < 2 || got[0] != 5 || got[1] != test.code {
			t.Errorf("%s: %q", test.name, got)
		}
		if test.told != "" {
			w.wantRefused("socks", test.told)
		}
		w.wantDialled()
	}
}

func TestSOCKSNonsense(t *testing.T) {
	w := newWorld(t, "example.com")
	w.name("example.com", public)
	whole := socks(1, 3, named("example.com"), 443)
	for n := range len(whole) {
		c := w.open(w.proxy)
		c.say(whole[:n])
		_ = c.CloseWrite()
		if got := c.rest(); got != "" && got != "\x05\x00" {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
	for _, test := range []struct{ request, want string }{
		{"\x05\x01\x02", "\x05\xff"}, // a password
		{"\x05\x00", "\x05\xff"},
		{"\x05\x03\x80\x02\x01", "\x05\xff"},
		{"\x04\x01\x01\xbb\x5d\xb8\xd8\x22\x00\r\n\r\n", "HTTP/1.1 400 Bad Request"}, // SOCKS4
		{"\x06\x01\x00\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		{"\x16\x03\x01\x00\x05hello\r\n\r\n", "HTTP/1.1 400 Bad Request"}, // TLS to the proxy
	} {
		c := w.open(w.proxy)
		c.say(test.request)
		if got := c.rest(); !strings.HasPrefix(got, test.want) {
			t.Errorf("%q: %q", test.request, got)
		}
	}
	// Every method at once, no authentication among them.
	c := w.open(w.proxy)
	c.say("\x05\xff" + string(bytes.Repeat([]byte{7}, 254)) + "\x00")
	c.hear("\x05\x00")
	w.wantDialled()
}
