package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"testing"
)

// spellings of addresses of this host that a program, a resolver or a library may take for
// one.
var spellings = []string{
	"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "127.0.0.1.",
	"0", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]",
	"[fe80::1%25lo]", "[::1%25lo]", "[fe80::1%lo]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1",
	"169.254.169.254", "0xa9fea9fe", "2852039166", "localhost", "LOCALHOST.", "10.0.0.1", "192.168.0.1", "198.18.0.1", "93.184.216.34", "1.1.1.1",
	"user@127.0.0.1", "example.com@127.0.0.1", "example.com#@127.0.0.1", "example.com%00.evil.org", "example.com%2eevil.org",
	"example.com.evil.org", "evilexample.com", "xexample.com", "example.com..", ".example.com", "[example.com]x", "[example.comx",
}

func TestAddressesAreNotNames(t *testing.T) {
	w := newWorld(t, "example.com *.example.org")
	w.name("example.com", public)
	for _, at := range spellings {
		for _, line := range []string{
			"CONNECT " + at + ":443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
			"GET http://" + at + "/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
			"GET http://" + at + ":80/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
		} {
			c := w.open(w.proxy)
			c.say(line)
			r := c.response("GET")
			if r.StatusCode != http.StatusForbidden && r.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %s", line, r.Status)
			}
		}
		host := strings.Trim(strings.NewReplacer("%25", "%").Replace(at), "[]")
		if host == "example.comx" || len(host) > 255 {
			continue
		}
		c := w.open(w.proxy)
		c.say("\x05\x01\x00\x05\x01\x00\x03" + string([]byte{byte(len(host))}) + host + "\x01\xbb")
		c.hear("\x05\x00")
		if got := c.rest(); len(got) < 2 || got[1] != socksNotAllowed {
			t.Errorf("SOCKS %q: %q", host, got)
		}
	}
	w.wantDialled()
	if _, refused, resolved := w.seen(); len(resolved) > 0 || len(refused) < 2*len(spellings) {
		t.Errorf("resolved %q, %d refusals", resolved, len(refused))
	}
}

func TestNamesOfForeignAddresses(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.1.1", "169.254.169.254", "100.100.100.200",
		"100.64.0.1", "198.18.0.1", "198.18.1.0", "192.0.2.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%lo", "fd00::1%eth0",
		"fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::7f00:1", "2002:7f00:1::1", "2002:a00:1::", "2001:db8::1", "2001:0:7f00:1::", "::ffff:0:127.0.0.1", "127.0.0.1 10.0.0.1 ::1", "",
	} {
		w := newWorld(t, "example.com localhost")
		w.name("example.com", addr)
		if status, _ := w.status("example.com:443"); status != http.StatusForbidden {
			t.Errorf("%s: status %d", addr, status)
		}
		w.wantRefused("proxy", "example.com:443")
	}
}

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	w := newWorld(t, "example.com")
	w.name("example.com", "10.0.0.1 1.0.0.1 ::1 "+public+" fe80::1%lo 2606:4700::1")
	w.serve(public+":443", echo)
	c := w.connect("example.com:443")
	c.say("hello")
	c.hear("hello")
	w.wantDialled("1.0.0.1:443", public+":443")

	w.forget()
	w.s.answers.forget("example.com")
	w.mu.Lock()
	delete(w.at, public+":443")
	w.mu.Unlock()
	if status, _ := w.status("example.com:443"); status != http.StatusBadGateway {
		t.Errorf("status %d where nobody answers", status)
	}
	w.wantDialled("1.0.0.1:443", public+":443", "[2606:4700::1]:443")
	if _, refused, _ := w.seen(); len(refused) > 0 {
		t.Errorf("refusals %+v for what merely does not answer", refused)
	}
}

// A name that changes its address between the judgement and the connection gains nothing.
func TestRebinding(t *testing.T) {
	w := newWorld(t, "example.com")
	w.name("example.com", public, "127.0.0.1")
	w.serve(public+":443", echo)
	for range 3 {
		c := w.connect("example.com:443")
		c.say("x")
		c.hear("x")
	}
	w.wantDialled(public+":443", public+":443", public+":443")
	w.forget()
	w.s.answers.forget("example.com")
	if status, body := w.status("example.com:443"); status != http.StatusForbidden || !strings.Contains(body, "loopback") {
		t.Errorf("status %d, %s", status, body)
	}
	w.wantRefused("proxy", "127.0.0.1 is a loopback address")
}

func TestPortsAndDenies(t *testing.T) {
	w := newWorld(t, "example.com *.example.org:443 *.example.org:80 93.184.216.35:7720 localhost:7721 bücher.example", "secret.example.org", "93.184.216.36")
	for _, name := range []string{"example.com", "a.example.org", "secret.example.org", "xn--bcher-kva.example"} {
		w.name(name, public)
	}
	w.name("b.example.org", "93.184.216.36")
	w.serve(public+":443", echo)
	for at, want := range map[string]int{
		"example.com:443":            200,
		"EXAMPLE.com.:443":           200,
		"A.B.EXAMPLE.org:443":        502, // does not resolve
		"a.example.org.:443":         200,
		"xn--bcher-kva.example:443":  200,
		"XN--bcher-KVA.example.:443": 200,
		"example.com:22":             403,
		"example.com:8443":           403,
		"example.com:0":              403,
		"example.com:65536":          403,
		"example.com:-1":             400,
		"example.com:7720":           403,
		"example.org:443":            403,
		"secret.example.org:443":     403,
		"SECRET.example.org.:443":    403,
		"b.example.org:443":          403,
		"localhost:7720":             403,
		"127.0.0.1:7720":             403,
		"[::1]:7720":                 403,
		"127.0.0.2:7720":             403,
		"[::ffff:127.0.0.1]:7720":    403,
		"93.184.216.35:7720":         502, // granted, and another host
		"xn--bcher-kva.example:7720": 403,
	} {
		if status, body := w.status(at); status != want {
			t.Errorf("%s: %d, want %d: %s", at, status, want, body)
		}
	}
	dialled, _, _ := w.seen()
	for _, at := range dialled {
		if at != public+":443" && at != "93.184.216.35:7720" {
			t.Errorf("dialled %s", at)
		}
	}
}

// The control plane answers on every address of this host, and is reached at none.
func TestControlPlane(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var grants, addrs []string
	for _, a := range own {
		addr, _, _ := strings.Cut(a.String(), "/")
		addrs = append(addrs, net.JoinHostPort(addr, "7720"))
		if !strings.HasPrefix(addr, "fe80") {
			grants = append(grants, addrs[len(addrs)-1])
		}
	}
	w := newWorld(t, strings.Join(grants, " ")+" *.example.com:7720")
	for i, at := range addrs {
		name := fmt.Sprintf("n%d.example.com", i)
		host, _, _ := net.SplitHostPort(at)
		w.name(name, host)
		for _, at := range []string{at, name + ":7720"} {
			if status, body := w.status(at); status != http.StatusForbidden {
				t.Errorf("%s: %d %s", at, status, body)
			}
		}
	}
	w.wantDialled()
}

func TestPlainHTTP(t *testing.T) {
	w := newWorld(t, "one.example two.example three.example:8080")
	for i, name := range []string{"one.example", "two.example", "three.example"} {
		at := fmt.Sprintf("93.184.216.%d", i+1)
		w.name(name, at)
		port := ":80"
		if name == "three.example" {
			port = ":8080"
		}
		w.serveHTTP(at+port, func(rw http.ResponseWriter, r *http.Request) {
			dump, _ := httputil.DumpRequest(r, true)
			fmt.Fprintf(rw, "%s %s", name, dump)
		})
	}
	c := w.open(w.proxy)
	ask := func(request string) (int, string) {
		t.Helper()
		c.say(request)
		r := c.response("GET")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	for range 2 {
		for _, name := range []string{"one.example", "two.example", "three.example:8080"} {
			host, _, _ := strings.Cut(name, ":")
			status, body := ask("GET http://" + name + "/a%2Fb?q=1;2&z=%zz HTTP/1.1\r\nHost: evil.example\r\n" +
				"Connection: keep-alive, X-Gone\r\nX-Gone: 1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nKeep-Alive: 5\r\nTE: gzip\r\n" +
				"X-Forwarded-For: 10.9.8.7\r\nX-Stays: 1\r\n\r\n")
			if status != http.StatusOK || !strings.HasPrefix(body, host+" GET /a%2Fb?q=1;2&z=%zz HTTP/1.1\r\nHost: "+name+"\r\n") {
				t.Errorf("%s: %d %s", name, status, body)
			}
			for _, bad := range []string{"evil", "X-Gone", "Proxy-", "Keep-Alive", "Te:", "Via"} {
				if strings.Contains(body, bad) {
					t.Errorf("%s passes on %s: %s", name, bad, body)
				}
			}
			if !strings.Contains(body, "X-Stays: 1") || !strings.Contains(body, "X-Forwarded-For: 10.9.8.7") {
				t.Errorf("%s loses a header: %s", name, body)
			}
		}
		// A refusal does not end the connection, nor does what follows depend on it.
		if status, body := ask("GET http://evil.example/ HTTP/1.1\r\nHost: one.example\r\n\r\n"); status != http.StatusForbidden || !strings.Contains(body, "not granted") {
			t.Errorf("evil: %d %s", status, body)
		}
		if status, _ := ask("GET /path HTTP/1.1\r\nHost: one.example\r\n\r\n"); status != http.StatusBadRequest {
			t.Errorf("origin form: %d", status)
		}
		if status, _ := ask("GET https://one.example/ HTTP/1.1\r\nHost: one.example\r\n\r\n"); status != http.StatusBadRequest {
			t.Errorf("https: %d", status)
		}
		if status, _ := ask("GET ftp://one.example/ HTTP/1.1\r\nHost: one.example\r\n\r\n"); status != http.StatusBadRequest {
			t.Errorf("ftp: %d", status)
		}
	}
	w.wantDialled("93.184.216.1:80", "93.184.216.2:80", "93.184.216.3:8080")

	big := strings.Repeat("x", 12<<10)
	if status, body := ask("GET http://one.example/ HTTP/1.1\r\nHost: one.example\r\nX-Big: " + big + "\r\n\r\n"); status != 200 || !strings.Contains(body, big) {
		t.Errorf("large header: %d", status)
	}
	if status, _ := ask("GET http://one.example/ HTTP/1.1\r\nHost: one.example\r\nX-Big: " + big + big + "\r\n\r\n"); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("too large header: %d", status)
	}
}

func TestBodiesAndTrailers(t *testing.T) {
	w := newWorld(t, "one.example")
	w.name("one.example", public)
	w.serveHTTP(public+":80", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			http.Error(rw, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		rw.Header().Set("Trailer", "X-Sum")
		n, err := io.Copy(rw, r.Body)
		fmt.Fprintf(rw, "|%d %v %s %v", n, err, r.Trailer.Get("X-Req"), r.TransferEncoding)
		rw.Header().Set("X-Sum", "sum")
	})
	ask := func(request, want string) {
		t.Helper()
		c := w.open(w.proxy)
		c.say(request)
		r := c.response("POST")
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != want || r.Trailer.Get("X-Sum") != "sum" {
			t.Errorf("%d %q, trailer %v, %v", r.StatusCode, body, r.Trailer, err)
		}
	}
	ask("POST http://one.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Req\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Req: t\r\n\r\n",
		"abcdefg|7 <nil> t [chunked]")
	ask("POST http://one.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "abc|3 <nil>  []")

	c := w.open(w.proxy)
	c.say("POST http://one.example/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if r := c.response("POST"); r.StatusCode != http.StatusContinue {
		t.Fatalf("100-continue: %d", r.StatusCode)
	}
	c.say("abc")
	r := c.response("POST")
	for r.StatusCode == http.StatusContinue { // the server's own comes, too
		r = c.response("POST")
	}
	if r.StatusCode != http.StatusOK {
		t.Fatalf("after 100-continue: %d", r.StatusCode)
	}
	c = w.open(w.proxy)
	c.say("POST http://one.example/no HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if r := c.response("POST"); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("refused body: %d", r.StatusCode)
	}
}

// What a server could read as two requests leaves as one, or not at all.
func TestSmuggling(t *testing.T) {
	w := newWorld(t, "one.example")
	w.name("one.example", public)
	var got []byte
	w.serve(public+":80", func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			w.mu.Lock()
			got = fmt.Appendf(got, "%s %s %s %q\n", req.Method, req.URL, req.Host, body)
			w.mu.Unlock()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	const head = "POST http://one.example/a HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n"
	for _, test := range []struct{ name, request, want string }{
		{"CL and TE", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://evil.example/ HTTP/1.1\r\nHost: e\r\n\r\n", "POST /a one.example \"\"\n"},
		{"TE and CL", head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "POST /a one.example \"abc\"\n"},
		{"two CL", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", ""},
		{"odd TE", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", ""},
		{"two TE", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", ""},
		{"space before colon", head + "Content-Length : 5\r\n\r\nabcde", ""},
		{"TE with space", head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", ""},
		{"obs-fold", head + "X-A: 1\r\n Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\na", "POST /a one.example \"a\"\n"},
		{"bare LF", strings.ReplaceAll(head, "\r", "") + "Content-Length: 1\n\na", "POST /a one.example \"a\"\n"},
		{"CR in value", head + "X-A: 1\rContent-Length: 5\r\n\r\n", ""},
		{"NUL", head + "X-A: \x00\r\n\r\n", ""},
		{"sign in CL", head + "Content-Length: +1\r\n\r\na", ""},
		{"two hosts", head + "Host: evil.example\r\n\r\n", ""},
		{"odd chunk", head + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", ""},
		{"line break in path", "GET http://one.example/a%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /a%0d%0aX:%20y one.example \"\"\n"},
		{"space in path", "GET http://one.example/a b HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		{"h2c preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
	} {
		w.mu.Lock()
		got = nil
		w.mu.Unlock()
		c := w.open(w.proxy)
		c.say(test.request)
		c.rest()
		w.mu.Lock()
		if string(got) != test.want {
			t.Errorf("%s: the server reads %q", test.name, got)
		}
		w.mu.Unlock()
	}
	for _, at := range must(w.seen()) {
		if at != public+":80" {
			t.Errorf("dialled %s", at)
		}
	}
}

func must(dialled []string, _ []Refusal, _ []string) []string { return dialled }

func TestUpgrade(t *testing.T) {
	w := newWorld(t, "one.example")
	w.name("one.example", public)
	w.serve(public+":80", func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil || req.Header.Get("Upgrade") != "websocket" || req.Header.Get("Sec-WebSocket-Key") != "k" {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
		echo(c)
	})
	c := w.open(w.proxy)
	c.say("GET http://one.example/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
	if r := c.response("GET"); r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(r.Status)
	}
	c.hear("first")
	c.say("over")
	c.hear("over")
	_ = c.CloseWrite()
	if got := c.rest(); got != "" {
		t.Errorf("after the end %q", got)
	}
}

func TestTunnels(t *testing.T) {
	w := newWorld(t, "example.com example.com:22")
	w.name("example.com", public)
	w.serve(public+":443", echo)
	w.serve(public+":22", func(c net.Conn) {
		_, _ = io.WriteString(c, "SSH-2.0-test\r\n")
		echo(c)
	})
	// The server speaks first.
	c := w.connect("example.com:22")
	c.hear("SSH-2.0-test\r\n")
	c.say("SSH-2.0-client\r\n")
	c.hear("SSH-2.0-client\r\n")

	// All at once, and nothing more to say.
	c = w.open(w.proxy)
	c.say("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\nearly words")
	_ = c.CloseWrite()
	if got := c.rest(); got != "HTTP/1.1 200 Connection established\r\n\r\nearly words" {
		t.Errorf("early words: %q", got)
	}
	// After requests on the same connection.
	c = w.open(w.proxy)
	c.say("GET / HTTP/1.1\r\nHost: x\r\n\r\nCONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	for _, want := range []int{http.StatusBadRequest, http.StatusForbidden} {
		r := c.response("GET")
		if _, _ = io.Copy(io.Discard, r.Body); r.StatusCode != want {
			t.Fatalf("%s, want %d", r.Status, want)
		}
	}
	c.say("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
	c.say("words")
	c.hear("words")
	// In Unicode.
	c = w.open(w.proxy)
	c.say("CONNECT ＥXAMPLE。com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
	// Without a port, and with a body that belongs to the tunnel.
	c = w.open(w.proxy)
	c.say("CONNECT example.com HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbodymore")
	c.hear("HTTP/1.1 200 Connection established\r\n\r\nbodymore")
	// One byte at a time.
	c = w.open(w.proxy)
	for _, b := range []byte("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n") {
		c.say(string(b))
	}
	c.hear("HTTP/1.1 200 Connection established\r\n\r\n")
}

func TestAnswersThatFail(t *testing.T) {
	w := newWorld(t, "one.example two.example three.example")
	w.name("one.example", public)
	w.name("two.example", "93.184.216.35")
	w.serve(public+":80", func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
	})
	w.serve("93.184.216.35:80", func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "\x00\x01 nonsense\r\n\r\n")
	})
	c := w.open(w.proxy)
	c.say("GET http://one.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	r := c.response("GET")
	if body, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("a short body ends as if it were whole: %q", body)
	}
	for _, name := range []string{"two.example", "three.example"} {
		c = w.open(w.proxy)
		c.say("GET http://" + name + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if r := c.response("GET"); r.StatusCode != http.StatusBadGateway || r.Header.Get("X-Bourn-Refused") != "false" {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	w.s.config.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "three.example", Server: "192.168.7.7:53", IsNotFound: true}
	}
	if status, body := w.status("three.example:80"); status != http.StatusBadGateway || strings.Contains(body, "192.168.7.7") {
		t.Errorf("%d %s", status, body)
	}
}
