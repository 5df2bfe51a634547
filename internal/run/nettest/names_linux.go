package nettest

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// zone holds the names of a world.
type zone struct {
	mu    sync.Mutex
	names map[string]Answers
	asked map[string]int // A and AAAA questions by name, in pairs
	times map[string]int // of A questions alone
}

// Name makes a name known. The name may begin with "*.". Questions for one without answers,
// nil, are never answered.
func (w *World) Name(name string, a Answers) {
	w.zone.mu.Lock()
	defer w.zone.mu.Unlock()
	w.zone.names[name] = a
}

// Asked returns the names that the name server was asked for since the last call, sorted.
func (w *World) Asked() []string {
	w.zone.mu.Lock()
	defer w.zone.mu.Unlock()
	var out []string
	for name := range w.zone.asked {
		out = append(out, name)
	}
	clear(w.zone.asked)
	slices.Sort(out)
	return out
}

// find returns what a question is answered with. A name has the same addresses for its A
// and its AAAA question: each is counted for itself.
func (z *zone) find(q dnsmessage.Question) (addrs []netip.Addr, exists, silent bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	z.asked[name]++
	key := name + " " + q.Type.String()
	n := z.times[key]
	z.times[key]++
	for at, rest, more := name, name, true; more; at = "*." + rest {
		if a, known := z.names[at]; known && a == nil {
			return nil, true, true
		} else if known {
			addrs, exists = a(n)
			return addrs, exists, false
		}
		_, rest, more = strings.Cut(rest, ".")
	}
	return nil, false, false
}

func (z *zone) answer(query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	reply := dnsmessage.Message{Questions: []dnsmessage.Question{q},
		Header: dnsmessage.Header{ID: head.ID, Response: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}}
	addrs, exists, silent := z.find(q)
	switch {
	case silent:
		return nil
	case !exists:
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, addr := range addrs {
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
		case !addr.Is4() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	out, err := reply.Pack()
	if err != nil {
		return nil
	}
	return out
}

func (z *zone) serve(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if out := z.answer(buf[:n]); out != nil {
			_, _ = c.WriteTo(out, from)
		}
	}
}
