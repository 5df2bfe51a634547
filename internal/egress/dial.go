package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"bourn/internal/policy"
)

// refused is the error of a target that may not be reached.
type refused struct{ reason string }

func (r refused) Error() string { return r.reason }

// connect judges a target, resolves it, and dials the addresses that may be reached, one
// after the other. The error is a refused where nothing may be reached.
func (s *Server) connect(ctx context.Context, via string, t policy.Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	addrs, err := s.addresses(ctx, t)
	var no refused
	if errors.As(err, &no) {
		s.refuse(Refusal{via, t.String(), no.reason})
	}
	if err != nil {
		return nil, err
	}
	var last error
	for _, addr := range addrs {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		conn, err := s.config.Dial(ctx, netip.AddrPortFrom(addr, t.Port))
		cancel()
		if err == nil {
			return conn, nil
		}
		last = err
	}
	s.answers.forget(t.Name)
	return nil, last
}

// addresses returns the addresses of a target that may be dialled.
func (s *Server) addresses(ctx context.Context, t policy.Target) ([]netip.Addr, error) {
	n := s.config.Network
	if r := n.Judge(t); !r.Allowed {
		return nil, refused{r.Reason}
	}
	all, err := s.resolved(ctx, t)
	if err != nil {
		return nil, err
	}
	var may []netip.Addr
	reason := "it has no address"
	for _, addr := range all {
		addr = addr.Unmap().WithZone("") // no prefix contains an address with a zone
		r := Judge(n, t, addr)
		if r.Allowed {
			may = append(may, addr)
		} else if reason == "it has no address" {
			reason = r.Reason
		}
	}
	if len(may) == 0 {
		return nil, refused{reason}
	}
	return may, nil
}

// Judge is [policy.Network.JudgeAddress] with what only this host knows: where Bourn's own
// control plane stands.
func Judge(n *policy.Network, t policy.Target, addr netip.Addr) policy.Ruling {
	r := n.JudgeAddress(t, addr)
	if r.Allowed && IsControlPlane(netip.AddrPortFrom(addr, t.Port)) {
		return policy.Ruling{Item: -1, Reason: policy.OwnControlPlane}
	}
	return r
}

func (s *Server) resolved(ctx context.Context, t policy.Target) ([]netip.Addr, error) {
	switch {
	case t.Addr.IsValid():
		return []netip.Addr{t.Addr}, nil
	case t.Name == policy.Localhost:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if addrs, ok := s.answers.get(t.Name); ok {
		return addrs, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	addrs, err := s.config.Resolve(ctx, t.Name)
	var dns *net.DNSError
	if errors.As(err, &dns) {
		told := *dns
		told.Server = "" // the run hears of the error, and not of the host's resolver
		err = &told
	}
	if err != nil {
		s.unresolved(t.Name, err)
		return nil, fmt.Errorf("cannot resolve %s: %w", t.Name, err)
	}
	s.answers.put(t.Name, addrs)
	return addrs, nil
}

// unresolved tells of a name that does not resolve, unless the run was ended meanwhile.
func (s *Server) unresolved(name string, err error) {
	if s.config.Unresolved == nil || errors.Is(err, context.Canceled) || s.context.Err() != nil {
		return
	}
	why := err.Error()
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		why = dns.Err
	}
	s.config.Unresolved(name, clip(why))
}

// Resolve returns the addresses of a name as a Server without a Resolve of its own finds
// them.
func Resolve(ctx context.Context, name string) ([]netip.Addr, error) { return resolve(ctx, name) }

// resolve asks the host's resolver. A name with a dot is complete: the host's search list
// must not make another one of it.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

// IsControlPlane reports whether an address is where Bourn's own control plane stands, which
// is never reached, whatever is granted.
func IsControlPlane(at netip.AddrPort) bool {
	return at.Port() == policy.ControlPort && ofThisHost(at.Addr().Unmap())
}

// ofThisHost reports whether an address is one of this host's own.
func ofThisHost(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
			return true
		}
	}
	return false
}

// answers are what names were resolved to a moment ago.
type answers struct {
	mu   sync.Mutex
	kept map[string]answer
}

type answer struct {
	addrs []netip.Addr
	until time.Time
}

func (a *answers) get(name string) ([]netip.Addr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept, ok := a.kept[name]
	return kept.addrs, ok && time.Now().Before(kept.until)
}

func (a *answers) put(name string, addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil || len(a.kept) >= maxKept {
		a.kept = map[string]answer{}
	}
	a.kept[name] = answer{addrs, time.Now().Add(keptAnswers)}
}

func (a *answers) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, name)
}
