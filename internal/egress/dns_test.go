package egress

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// query is a DNS query for names of one type and class.
func query(t testing.TB, id uint16, kind dnsmessage.Type, class dnsmessage.Class, edns bool, names ...string) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true})
	_ = b.StartQuestions()
	for _, name := range names {
		if err := b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: class}); err != nil {
			t.Fatal(err)
		}
	}
	if edns {
		_ = b.StartAdditionals()
		var h dnsmessage.ResourceHeader
		_ = h.SetEDNS0(1232, dnsmessage.RCodeSuccess, true)
		_ = b.OPTResource(h, dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: []byte("cookie01")}}})
	}
	out, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ask sends a query over UDP and TCP and returns the answer, which has to be the same.
func (w *world) ask(q []byte) *dnsmessage.Message {
	w.t.Helper()
	c, err := net.Dial("udp", w.names.String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	if _, err := c.Write(q); err != nil {
		w.t.Fatal(err)
	}
	n, err := c.Read(buf)
	if err != nil {
		w.t.Fatal(err)
	}
	s := w.open(w.names2)
	s.say(string(binary.BigEndian.AppendUint16(nil, uint16(len(q)))) + string(q))
	s.hear(string(binary.BigEndian.AppendUint16(nil, uint16(n))) + string(buf[:n]))
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		w.t.Fatalf("%x: %v", buf[:n], err)
	}
	return &m
}

func TestNames(t *testing.T) {
	w := newWorld(t, "example.com *.example.org db.example:5432", "secret.example.org")
	for _, name := range []string{"example.com", "a.example.org", "db.example"} {
		w.name(name, public)
	}
	w.name("private.example.org", "10.0.0.1")
	const in, a, aaaa, any = dnsmessage.ClassINET, dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeALL
	for i, test := range []struct {
		name  string
		kind  dnsmessage.Type
		class dnsmessage.Class
		code  dnsmessage.RCode
		want  string // addresses
		asked bool   // upstream
	}{
		{"example.com.", a, in, 0, "198.18.1.0", true},
		{"ExAmPlE.cOm.", a, in, 0, "198.18.1.0", false},
		{"example.com.", aaaa, in, 0, "", false},
		{"example.com.", any, in, 0, "198.18.1.0", false},
		{"a.example.org.", aaaa, in, 0, "", true},
		{"a.example.org.", a, in, 0, "198.18.1.1", false},
		{"private.example.org.", a, in, 0, "198.18.1.2", true},
		{"db.example.", a, in, 0, "198.18.1.3", true},
		{"gone.example.org.", a, in, dnsmessage.RCodeNameError, "", true},
		{"example.com.", 65, in, 0, "", false}, // HTTPS
		{"example.com.", dnsmessage.TypeTXT, in, 0, "", false},
		{"example.com.", dnsmessage.TypeMX, in, 0, "", false},
		{"localhost.", a, in, 0, "127.0.0.1", false},
		{"LOCALHOST.", aaaa, in, 0, "::1", false},
		{"localhost.", any, in, 0, "127.0.0.1 ::1", false},
		{"evil.example.", a, in, dnsmessage.RCodeNameError, "", false},
		{"evil.example.", dnsmessage.TypeTXT, in, dnsmessage.RCodeNameError, "", false},
		{"data-that-leaves.evil.example.", 65, in, dnsmessage.RCodeNameError, "", false},
		{"example.org.", a, in, dnsmessage.RCodeNameError, "", false},
		{"secret.example.org.", a, in, dnsmessage.RCodeNameError, "", false},
		{"SECRET.example.org.", any, in, dnsmessage.RCodeNameError, "", false},
		{"example.com.evil.example.", a, in, dnsmessage.RCodeNameError, "", false},
		{"1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, in, dnsmessage.RCodeNameError, "", false},
		{"0.1.18.198.IN-ADDR.arpa.", dnsmessage.TypePTR, in, dnsmessage.RCodeNameError, "", false},
		{"127.0.0.1.", a, in, dnsmessage.RCodeNameError, "", false},
		{"2130706433.", a, in, dnsmessage.RCodeNameError, "", false},
		{"0x7f.1.", a, in, dnsmessage.RCodeNameError, "", false},
		{".", dnsmessage.TypeNS, in, dnsmessage.RCodeNameError, "", false},
		{"example.com.", a, dnsmessage.ClassCHAOS, dnsmessage.RCodeNotImplemented, "", false},
		{"version.bind.", dnsmessage.TypeTXT, dnsmessage.ClassCHAOS, dnsmessage.RCodeNotImplemented, "", false},
		{"evil.example.", a, dnsmessage.ClassANY, dnsmessage.RCodeNotImplemented, "", false},
		{strings.Repeat("a.", 126) + "a.", a, in, dnsmessage.RCodeNameError, "", false},
		{"sp ace.example.com.", a, in, dnsmessage.RCodeNameError, "", false},
		{"nul\x00.example.org.", a, in, dnsmessage.RCodeNameError, "", false},
	} {
		w.forget()
		id := uint16(1000 + i)
		m := w.ask(query(t, id, test.kind, test.class, i%2 == 1, test.name))
		var got []string
		for _, r := range m.Answers {
			if r.Header.Name.String() != test.name || r.Header.Class != in {
				t.Errorf("%s: record %v", test.name, r.Header)
			}
			switch body := r.Body.(type) {
			case *dnsmessage.AResource:
				got = append(got, netip.AddrFrom4(body.A).String())
			case *dnsmessage.AAAAResource:
				got = append(got, netip.AddrFrom16(body.AAAA).String())
			}
		}
		if m.ID != id || !m.Response || m.RCode != test.code || strings.Join(got, " ") != test.want {
			t.Errorf("%s %v: %v %q", test.name, test.kind, m.RCode, got)
		}
		if len(m.Questions) != 1 || m.Questions[0].Name.String() != test.name {
			t.Errorf("%s: the question comes back as %v", test.name, m.Questions)
		}
		_, _, resolved := w.seen()
		if asked := len(resolved) > 0; asked != test.asked {
			t.Errorf("%s %v: asked upstream %q", test.name, test.kind, resolved)
		}
	}
	w.wantDialled()
}

func TestQueriesThatAreNone(t *testing.T) {
	w := newWorld(t, "example.com")
	w.name("example.com", public)
	good := query(t, 1, dnsmessage.TypeA, dnsmessage.ClassINET, true, "example.com.")
	if m := w.ask(query(t, 7, dnsmessage.TypeA, dnsmessage.ClassINET, false, "example.com.", "example.com.")); m.RCode != dnsmessage.RCodeFormatError {
		t.Errorf("two questions: %v", m.RCode)
	}
	if m := w.ask(query(t, 7, dnsmessage.TypeA, dnsmessage.ClassINET, false)); m.RCode != dnsmessage.RCodeFormatError {
		t.Errorf("no question: %v", m.RCode)
	}
	loop := append(good[:12:12], 0xc0, 12, 0, 1, 0, 1)
	if m := w.ask(loop); m.RCode != dnsmessage.RCodeFormatError {
		t.Errorf("a name that is itself: %v", m.RCode)
	}
	status := append([]byte{}, good...)
	status[2] |= 2 << 3
	if m := w.ask(status); m.RCode != dnsmessage.RCodeNotImplemented {
		t.Errorf("STATUS: %v", m.RCode)
	}
	// Nobody is answered who does not ask: two servers would go on for ever.
	response := append([]byte{}, good...)
	response[2] |= 0x80
	for _, none := range [][]byte{response, good[:11], {0}, {}} {
		if out := w.s.answer(none); out != nil {
			t.Errorf("%x is answered with %x", none, out)
		}
		c := w.open(w.names2)
		c.say(string(binary.BigEndian.AppendUint16(nil, uint16(len(none)))) + string(none))
		if got := c.rest(); got != "" {
			t.Errorf("%x over TCP: %q", none, got)
		}
	}
	// Over TCP: one byte at a time, several on one connection, one cut off.
	c := w.open(w.names2)
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(good)))
	framed = append(framed, good...)
	for range 3 {
		for _, b := range framed {
			c.say(string([]byte{b}))
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(size[:]))); err != nil {
			t.Fatal(err)
		}
	}
	c.say(string(framed[:9]))
	_ = c.CloseWrite()
	if got := c.rest(); got != "" {
		t.Errorf("after half a query: %q", got)
	}
	w.wantDialled()
}

func TestNamesEnd(t *testing.T) {
	var n names
	seen := map[netip.Addr]bool{}
	for i := range maxNames {
		addr, ok := n.give(fmt.Sprint(i))
		if !ok || seen[addr] || !netip.MustParsePrefix("198.18.0.0/15").Contains(addr) || addr.Less(firstName) {
			t.Fatalf("name %d gets %v", i, addr)
		}
		seen[addr] = true
	}
	if addr, ok := n.give("more"); ok {
		t.Errorf("one too many gets %v", addr)
	}
	if addr, ok := n.give("0"); !ok || addr != firstName {
		t.Errorf("the first has %v", addr)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	var a answers
	for i := range 3 * maxKept {
		a.put(fmt.Sprint(i), nil)
		if len(a.kept) > maxKept {
			t.Fatalf("%d are kept", len(a.kept))
		}
	}
}
