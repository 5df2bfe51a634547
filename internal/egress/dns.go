package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"bourn/internal/policy"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	answerTTL = 60 // seconds; an address stands for its name as long as the run lives
	maxNames  = 1 << 16
	queries   = 64 // answered at once over UDP
	udpSize   = 4096
)

// names are the addresses by which names are known inside.
type names struct {
	mu   sync.Mutex
	byIP map[netip.Addr]string
	of   map[string]netip.Addr
}

// firstName is the address of the first name: those before it are the run's own.
var firstName = netip.AddrFrom4([4]byte{198, 18, 1, 0})

// give returns the address of a name; false means that there are no more.
func (n *names) give(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok := n.of[name]; ok {
		return addr, true
	}
	if len(n.of) == maxNames {
		return netip.Addr{}, false
	}
	if n.of == nil {
		n.of, n.byIP = map[string]netip.Addr{}, map[netip.Addr]string{}
	}
	b := firstName.As4()
	addr := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])+uint32(len(n.of)))))
	n.of[name], n.byIP[addr] = addr, name
	return addr, true
}

// at returns the name that an address stands for.
func (n *names) at(addr netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byIP[addr]
	return name, ok
}

func (s *Server) serveUDP(c net.PacketConn) {
	slots := make(chan struct{}, queries)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		buf := make([]byte, udpSize)
		n, from, err := c.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.pause()
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			continue // a resolver asks again
		}
		all.Go(func() {
			defer func() { <-slots }()
			if out := s.answer(buf[:n]); out != nil {
				_, _ = c.WriteTo(out, from)
			}
		})
	}
}

// serveNames serves DNS over one TCP connection (RFC 1035, 4.2.2).
func (s *Server) serveNames(c net.Conn) {
	for {
		_ = c.SetDeadline(time.Now().Add(requestTime))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		out := s.answer(query)
		if out == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

// answer answers a DNS query, or returns nil for what is none.
func (s *Server) answer(query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil || head.Response {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode,
		RecursionDesired: head.RecursionDesired, RecursionAvailable: true}}
	questions, err := p.AllQuestions()
	switch {
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
	case head.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	default:
		reply.Questions = questions
		reply.RCode, reply.Answers = s.lookup(questions[0])
	}
	out, err := reply.Pack()
	if err != nil {
		return nil
	}
	return out
}

// lookup answers one question. A name that is not granted does not exist, and is not asked
// for upstream; one that is granted exists if it does there.
func (s *Server) lookup(q dnsmessage.Question) (dnsmessage.RCode, []dnsmessage.Resource) {
	text := strings.TrimSuffix(q.Name.String(), ".")
	t, err := policy.ParseTarget(text, 0)
	if err != nil || t.Name == "" {
		if !reverse(text) {
			s.refuse(Refusal{"dns", text, "not a host name"})
		}
		return dnsmessage.RCodeNameError, nil
	}
	if q.Class != dnsmessage.ClassINET {
		return dnsmessage.RCodeNotImplemented, nil
	}
	switch {
	case t.Name == policy.Localhost:
		return dnsmessage.RCodeSuccess, address(q, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	case reverse(t.Name):
		return dnsmessage.RCodeNameError, nil
	case !s.config.Network.Names(t.Name):
		s.refuse(Refusal{"dns", t.Name, s.config.Network.Judge(t).Reason}) // of no port: a deny, or nothing
		return dnsmessage.RCodeNameError, nil
	case q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA && q.Type != dnsmessage.TypeALL:
		return dnsmessage.RCodeSuccess, nil
	}
	if _, err := s.resolved(s.context, t); err != nil {
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return dnsmessage.RCodeNameError, nil
		}
		return dnsmessage.RCodeServerFailure, nil
	}
	addr, ok := s.names.give(t.Name)
	if !ok {
		s.refuse(Refusal{"dns", t.Name, "too many names in one run"})
		return dnsmessage.RCodeServerFailure, nil
	}
	return dnsmessage.RCodeSuccess, address(q, addr)
}

func reverse(name string) bool {
	return strings.HasSuffix(name, ".in-addr.arpa") || strings.HasSuffix(name, ".ip6.arpa")
}

// address returns resource records for those addresses that are of the type asked for.
func address(q dnsmessage.Question, addrs ...netip.Addr) []dnsmessage.Resource {
	var out []dnsmessage.Resource
	for _, addr := range addrs {
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
		switch {
		case addr.Is4() && q.Type != dnsmessage.TypeAAAA:
			head.Type = dnsmessage.TypeA
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type != dnsmessage.TypeA:
			head.Type = dnsmessage.TypeAAAA
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return out
}

// meant returns the target of a connection by the address that it was made to.
func (s *Server) meant(c net.Conn) policy.Target {
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return policy.Target{}
	}
	if name, ok := s.names.at(at.Addr().Unmap()); ok {
		return policy.Target{Name: name, Port: at.Port()}
	}
	return policy.Target{Addr: at.Addr().Unmap(), Port: at.Port()}
}

// serveDirect serves a connection that a program made as if there were no proxy: the
// address that it was made to says which name is meant.
func (s *Server) serveDirect(c net.Conn) {
	t := s.meant(c)
	server, err := s.connect(s.context, "direct", t)
	if local := (policy.Target{Name: policy.Localhost, Port: t.Port}); s.eitherWay(t, local, err) {
		server, err = s.connect(s.context, "direct", local)
	}
	if err != nil {
		reset(c)
		return
	}
	s.relay("direct", t, c, server, nil)
}

// eitherWay reports whether an address that did not answer stands for a granted localhost.
// In the run both its addresses are listened on, and a server of the host's often has but
// one: a client that was taken in at the other does not try again.
func (s *Server) eitherWay(t, local policy.Target, err error) bool {
	var no refused
	if err == nil || errors.As(err, &no) || t.Addr != netip.IPv6Loopback() && t.Addr != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		return false
	}
	return s.config.Network.Judge(local).Allowed
}
