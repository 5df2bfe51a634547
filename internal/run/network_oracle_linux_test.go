package run_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"bourn/internal/run/nettest"
)

// A rule is a grant or a deny as the oracle sees it: two texts. Its host has no spelling
// but the usual one.
type rule struct{ host, port string }

func (r rule) String() string {
	switch {
	case r.port == "":
		return r.host
	case strings.Contains(r.host, ":"):
		return "[" + r.host + "]:" + r.port
	}
	return r.host + ":" + r.port
}

// A netTrial is one policy, the names that exist, and what is tried under it.
type netTrial struct {
	seed    uint64
	n       int
	names   map[string][]string // addresses
	grants  []rule
	denies  []rule
	profile string
	tries   []attempt
}

// The ports that servers listen on.
var trialPorts = []string{"80", "443", "8080", "5432", "7720"}

// newTrial makes a trial from a seed alone, but for n, which makes its names and most of
// its addresses its own.
func newTrial(seed uint64, n, size int) *netTrial {
	r := rand.New(rand.NewPCG(seed, 0))
	zone := fmt.Sprintf("t%d.test", n)
	public, private := fmt.Sprintf("93.%d.%d.", n>>8&255, n&255), fmt.Sprintf("10.%d.%d.", n>>8&255, n&255)
	six := fmt.Sprintf("2606:%x::", n&0xfff+1)
	t := &netTrial{seed: seed, n: n, names: map[string][]string{
		"a." + zone: {public + "1"}, "b." + zone: {public + "2", six + "2"}, "a.sub." + zone: {public + "3"}, "b.sub." + zone: {private + "4"},
		"private." + zone: {private + "5"}, "loop." + zone: {"127.0.0.1"}, "mixed." + zone: {private + "6", public + "6"}, "six." + zone: {six + "7"},
		"metadata." + zone: {"169.254.169.254"}, "own." + zone: {nettest.OwnAddress}, zone: {public + "8"}, "nothing." + zone: {}, "local6." + zone: {"::1"},
	}}
	names := []string{"missing." + zone, "a.missing." + zone}
	var addrs []string
	for name, at := range t.names {
		names = append(names, name)
		addrs = append(addrs, at...)
	}
	slices.Sort(names)
	slices.Sort(addrs)
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	anyRule := func() rule {
		out := rule{host: pick(names)}
		switch r.IntN(8) {
		case 0:
			out.host = "*." + zone
		case 1:
			out.host = "*.sub." + zone
		case 2, 3:
			out.host = pick(addrs)
		case 4:
			out.host = "localhost"
		}
		if r.IntN(4) > 0 {
			out.port = pick(trialPorts)
		}
		if out.port == "7720" && slices.Contains([]string{"localhost", "127.0.0.1", "::1", nettest.OwnAddress}, out.host) {
			out.port = "8080" // TestNetworkReach grants the control plane
		}
		return out
	}
	for range 1 + r.IntN(5) {
		if g := anyRule(); !slices.Contains(t.grants, g) {
			t.grants = append(t.grants, g)
		}
	}
	for range r.IntN(3) {
		if d := anyRule(); !slices.Contains(t.grants, d) && !slices.Contains(t.denies, d) {
			t.denies = append(t.denies, d)
		}
	}
	for i := range size {
		a := attempt{Via: pick([]string{"connect", "socks", "direct", "connect", "socks", "direct", "dns"}), Host: pick(names), Port: pick(trialPorts), Say: fmt.Sprintf("trial-%d-%d", n, i)}
		if a.Via != "dns" && r.IntN(3) == 0 {
			a.Host = pick(append([]string{"localhost", "127.0.0.1", "::1"}, addrs...))
		}
		if g := t.grants[r.IntN(len(t.grants))]; r.IntN(3) == 0 { // near to what is granted
			if host, suffix := strings.CutPrefix(g.host, "*."); suffix {
				a.Host = "any." + host
			} else if a.Via != "dns" || net.ParseIP(g.host) == nil {
				a.Host = g.host
			}
			if g.port != "" {
				a.Port = g.port
			}
		}
		t.tries = append(t.tries, a)
	}
	t.profile = "network:\n  mode: restricted\n  hosts: [" + listed(r, t.grants) + "]\n  deny: [" + listed(r, t.denies) + "]\n"
	return t
}

// spell writes a host in one of the ways that mean the same.
func spell(r *rand.Rand, host string) string {
	switch {
	case net.ParseIP(host) != nil:
	case r.IntN(6) == 0:
		return strings.ToUpper(host)
	case r.IntN(6) == 0 && host != "localhost":
		return host + "."
	}
	return host
}

func listed(r *rand.Rand, rules []rule) string {
	var out []string
	for _, g := range rules {
		out = append(out, fmt.Sprintf("%q", rule{spell(r, g.host), g.port}))
	}
	return strings.Join(out, ", ")
}

// matches reports whether a rule names a host: the same text, one below a suffix, or for
// localhost a loopback address.
func (r rule) matches(host string) bool {
	if suffix, ok := strings.CutPrefix(r.host, "*"); ok {
		return strings.HasSuffix(host, suffix)
	}
	return r.host == host || r.host == "localhost" && (strings.HasPrefix(host, "127.") || host == "::1")
}

func (t *netTrial) denied(host, port string) bool {
	return slices.ContainsFunc(t.denies, func(d rule) bool { return d.matches(host) && (d.port == "" || d.port == port) })
}

func (t *netTrial) granted(host, port string) bool {
	return slices.ContainsFunc(t.grants, func(g rule) bool {
		return g.matches(host) && (g.port == port || g.port == "" && (port == "80" || port == "443"))
	})
}

// reach returns where a connection may arrive: nowhere is refused. A deny wins; then a name
// or an address must be granted with its port; an address that is not public must be the
// one that was asked for, or be granted as an address; the control plane is never reached.
func (t *netTrial) reach(host, port string) (out []string) {
	if t.denied(host, port) || !t.granted(host, port) {
		return nil
	}
	for _, addr := range t.addresses(host) {
		ip := net.ParseIP(addr)
		private := ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()
		asAddress := slices.ContainsFunc(t.grants, func(g rule) bool { return g.host == addr && t.granted(addr, port) && (g.port == port || g.port == "") })
		own := port == "7720" && (ip.IsLoopback() || addr == nettest.OwnAddress)
		if t.denied(addr, port) || own || private && host != addr && !(host == "localhost" && ip.IsLoopback()) && !asAddress {
			continue
		}
		out = append(out, net.JoinHostPort(addr, port))
	}
	return out
}

// expect returns where an attempt may arrive, and whether it must. A program that resolves
// localhost by itself asks for a loopback address of its choice.
func (t *netTrial) expect(a attempt) (may []string, must bool) {
	if a.Via != "direct" || a.Host != "localhost" {
		may = t.reach(a.Host, a.Port)
		return may, len(may) > 0
	}
	may = append(t.reach("127.0.0.1", a.Port), t.reach("::1", a.Port)...)
	return may, len(may) == 2
}

func (t *netTrial) addresses(host string) []string {
	switch {
	case net.ParseIP(host) != nil:
		return []string{host}
	case host == "localhost":
		return []string{"127.0.0.1", "::1"}
	}
	return t.names[host]
}

// known reports whether a name is answered for: a grant of which something is left is for
// it on some port, and it is not denied on all.
func (t *netTrial) known(name string) bool {
	named := func(r rule) bool { return r.matches(name) }
	return slices.ContainsFunc(t.grants, func(g rule) bool { return named(g) && !t.closed(g) }) && !slices.ContainsFunc(t.denies, func(d rule) bool { return named(d) && d.port == "" })
}

// closed reports whether a deny leaves nothing of a grant.
func (t *netTrial) closed(g rule) bool {
	if g.port == "" { // the ports of the web, one by one
		return t.closed(rule{host: g.host, port: "80"}) && t.closed(rule{host: g.host, port: "443"})
	}
	return slices.ContainsFunc(t.denies, func(d rule) bool {
		if d.port != "" && d.port != g.port {
			return false
		}
		if d.host == g.host || d.matches(g.host) {
			return true
		}
		suffix, ok := strings.CutPrefix(d.host, "*")
		return ok && strings.HasSuffix(strings.TrimPrefix(g.host, "*"), suffix)
	})
}
