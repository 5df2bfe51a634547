package policy

import (
	"cmp"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// The run's own addresses in a restricted network. They lie in a range that is set aside
// for tests of networks (RFC 2544): nothing on the internet has one.
var (
	// OwnNet is the range; a granted name has an address of its own in it.
	OwnNet = netip.MustParsePrefix("198.18.0.1/15")

	proxyAddr = netip.AddrPortFrom(OwnNet.Addr(), 61080) // above the ephemeral ports (ip(7))
	namesAddr = netip.AddrPortFrom(OwnNet.Addr(), 53)
)

// proxyVariables are set in a restricted network, as far as the profile does not set them.
// ALL_PROXY is not among them: some clients fail on a scheme that they do not know.
var proxyVariables = []EnvVar{
	{Name: "HTTP_PROXY", Value: "http://" + proxyAddr.String()}, {Name: "http_proxy", Value: "http://" + proxyAddr.String()},
	{Name: "HTTPS_PROXY", Value: "http://" + proxyAddr.String()}, {Name: "https_proxy", Value: "http://" + proxyAddr.String()},
	{Name: "NO_PROXY", Value: "localhost,127.0.0.1,::1"}, {Name: "no_proxy", Value: "localhost,127.0.0.1,::1"},
}

func (c *compiler) proxyVariables() {
	if c.plan.Network.Mode != NetworkRestricted {
		return
	}
	for _, v := range proxyVariables {
		if !slices.ContainsFunc(c.req.Env, func(e EnvVar) bool { return e.Name == v.Name && !e.Missing }) {
			c.plan.Env = append(c.plan.Env, v.Name+"="+v.Value)
		}
	}
}

// DropProxy takes the proxy variables away again: nothing serves the proxy in a run that is
// not sealed.
func (p *Plan) DropProxy() {
	p.Env = slices.DeleteFunc(p.Env, func(kv string) bool {
		return slices.ContainsFunc(proxyVariables, func(v EnvVar) bool { return kv == v.Name+"="+v.Value })
	})
}

// maxListeners bounds the ports that are listened on for programs that ignore the proxy:
// the descriptors travel in one message (unix(7), SCM_MAX_FD).
const maxListeners = 200

// network decides about hosts.
func (c *compiler) network() {
	n := &c.plan.Network
	n.Mode, n.Direct = cmp.Or(c.req.Network, NetworkNone), c.req.Direct
	for _, w := range c.req.HostDenies {
		target := "connect " + w.String()
		if n.Mode == NetworkOpen {
			c.drop(KindDeny, target, w.From, "network.mode is open: nothing keeps it")
			continue
		}
		n.Denies = append(n.Denies, HostRule{Host: w.Host, Item: c.keep(KindDeny, target, w.From, byNamespace, byEgress)})
	}
	for _, w := range c.req.Hosts {
		reason := c.hostRefusal(w.Host)
		if reason == "" {
			reason = w.Refused
		}
		if reason == "" && w.Own {
			reason = "protected: " + OwnControlPlane
		}
		if reason != "" {
			c.drop(KindHost, w.String(), w.From, reason)
			continue
		}
		item := c.keep(KindHost, w.String(), w.From, byNamespace, byEgress)
		c.caveat(item, hostCaveat(w.Host))
		if w.Private {
			c.caveat(item, "its address may be one of a private network")
		}
		n.Grants = append(n.Grants, HostRule{Host: w.Host, Item: item, Private: w.Private})
	}
	if n.Mode == NetworkRestricted {
		c.listen()
		c.ownNames()
	}
}

// caveat adds a caveat to an item, once.
func (c *compiler) caveat(item int, text string) {
	it := &c.plan.Items[item]
	switch {
	case text == "" || strings.Contains(it.Caveat, text):
	case it.Caveat == "":
		it.Caveat = text
	default:
		it.Caveat += "; " + text
	}
}

// hostRefusal returns why a host grant has no effect, or "".
func (c *compiler) hostRefusal(h Host) string {
	switch c.plan.Network.Mode {
	case NetworkOpen:
		return "network.mode is open: it is reachable anyway"
	case NetworkNone:
		return "network.mode is none"
	case NetworkRestricted:
	}
	if h.isOwn() {
		return "protected: " + OwnControlPlane
	}
	by := ""
	for _, port := range h.Ports() {
		i := slices.IndexFunc(c.plan.Network.Denies, func(d HostRule) bool { return d.closes(h, port) })
		if i < 0 {
			return ""
		}
		by = c.plan.Network.Denies[i].Host.String()
	}
	return "denied by " + by
}

// isOwn reports whether a grant is for Bourn's own control plane and nothing else.
func (h Host) isOwn() bool {
	return h.Port == ControlPort && (h.Name == Localhost && !h.Suffix || h.Addr.IsLoopback())
}

// ProtectedHost returns why a host can never be granted, or "".
func ProtectedHost(h Host) string {
	if h.isOwn() {
		return OwnControlPlane
	}
	return ""
}

// closes reports whether nothing is left of a grant of h on a port.
func (d HostRule) closes(h Host, port uint16) bool {
	switch {
	case d.Port != 0 && d.Port != port:
		return false
	case h.Suffix:
		return d.Suffix && (h.Name == d.Name || strings.HasSuffix(h.Name, "."+d.Name))
	}
	return d.names(Target{Name: h.Name, Addr: h.Addr, Port: port})
}

func hostCaveat(h Host) string {
	switch {
	case h.loopback():
		return "the host's own service; a program in the run cannot listen on that port"
	case h.Port == 0:
		return "ports 80 and 443"
	}
	return ""
}

func (h Host) loopback() bool { return h.Name == Localhost && !h.Suffix || h.Addr.IsLoopback() }

// listen lists the listeners, and the addresses that lead to them.
func (c *compiler) listen() {
	p := &c.plan
	p.Listen = append(p.Listen, Listen{ListenProxy, proxyAddr})
	if !p.Network.Direct {
		for _, g := range p.Network.Grants {
			c.caveat(g.Item, "only through the proxy that HTTP_PROXY names: sandbox.transparent_network is false")
		}
		return
	}
	p.Listen = append(p.Listen, Listen{ListenNames, namesAddr}, Listen{ListenNames2, namesAddr})
	wild := map[bool]netip.Addr{true: netip.IPv4Unspecified(), false: netip.IPv6Unspecified()}
	everywhere := map[Listen]bool{} // what is listened on for all addresses of a family
	for _, g := range p.Network.Grants {
		for _, port := range g.Ports() {
			if !g.loopback() && !OwnNet.Contains(g.Addr) {
				everywhere[Listen{ListenDirect, netip.AddrPortFrom(wild[!g.Addr.Is6()], port)}] = true
			}
		}
	}
	add := func(g HostRule, addr netip.Addr, port uint16) {
		l := Listen{ListenDirect, netip.AddrPortFrom(addr, port)}
		over := Listen{ListenDirect, netip.AddrPortFrom(wild[addr.Is4()], port)}
		switch {
		case slices.Contains(p.Listen, l), everywhere[over] && over != l: // one on all addresses is there
		case port == proxyAddr.Port() || port == namesAddr.Port() || len(p.Listen) >= maxListeners:
			c.caveat(g.Item, "only through the proxy that HTTP_PROXY names")
		default:
			p.Listen = append(p.Listen, l)
		}
	}
	for _, g := range p.Network.Grants {
		var at []netip.Addr
		switch {
		case OwnNet.Contains(g.Addr):
			c.caveat(g.Item, "only through the proxy that HTTP_PROXY names")
		case g.loopback() && g.Addr.IsValid():
			at = []netip.Addr{g.Addr}
		case g.loopback():
			at = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
		case g.Addr.Is6():
			at = []netip.Addr{netip.IPv6Unspecified()}
		default:
			at = []netip.Addr{netip.IPv4Unspecified()}
		}
		for _, addr := range at {
			for _, port := range g.Ports() {
				add(g, addr, port)
			}
		}
		if g.Addr.IsValid() && len(at) > 0 && !g.loopback() && !slices.Contains(p.Local, g.Addr) {
			p.Local = append(p.Local, g.Addr)
		}
	}
}

// ownNames gives the run a resolver of its own, and no names from the host's /etc/hosts,
// which lead to addresses that do not exist inside.
func (c *compiler) ownNames() {
	resolver := "# names are resolved by the proxy alone: sandbox.transparent_network is false\n"
	if c.plan.Network.Direct {
		resolver = "nameserver " + namesAddr.Addr().String() + "\noptions timeout:5 attempts:2\n"
	}
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	if c.req.Hostname != "" && c.req.Hostname != Localhost {
		hosts += "127.0.1.1\t" + c.req.Hostname + "\n"
	}
	for _, f := range []File{{"/etc/hosts", hosts}, {"/etc/resolv.conf", resolver}} {
		c.plan.Copies = slices.DeleteFunc(c.plan.Copies, func(at string) bool { return at == f.Path })
		denied := slices.ContainsFunc(c.req.Denies, func(d Deny) bool { _, closes := d.Closes(f.Path); return closes })
		if !denied {
			c.plan.Files = append(c.plan.Files, f)
		}
	}
}

// networkDefault says what becomes of every connection that no grant is for.
func (c *compiler) networkDefault() {
	switch c.plan.Network.Mode {
	case NetworkOpen:
		item := c.keep(KindDefault, "network: the host's, as it is", "default", byLauncher)
		c.plan.Items[item].Caveat = "nothing of it is restricted, bourn's own control plane included"
	case NetworkRestricted:
		c.keep(KindDefault, "network: everything else is refused but the run's own loopback", "default", byNamespace, bySeccomp)
	default:
		c.keep(KindDefault, "network: everything is refused but the run's own loopback", "default", byNamespace, bySeccomp)
	}
}

// unixSockets shows the sockets that are granted one by one.
func (c *compiler) unixSockets() {
	for _, g := range c.req.Unix {
		reason := c.refusal(g)
		if reason == "" && !g.Socket {
			reason = "it is not a socket"
		}
		if reason != "" {
			c.drop(KindUnix, g.Path, g.From, reason)
			continue
		}
		item := c.keep(KindUnix, g.Real, g.From, byNamespace)
		c.plan.Items[item].Caveat = cmp.Or(g.Gives, socketCaveat(g.Real))
		if c.shown(g.Real, true, false) || slices.ContainsFunc(c.plan.Binds, func(b Bind) bool { return b.Path == path.Dir(g.Real) && b.Source == "" }) {
			continue
		}
		c.plan.Binds = append(c.plan.Binds, Bind{Path: g.Real, Write: true, NoExec: true, Object: g.Object, Item: item})
	}
}

func socketCaveat(at string) string {
	for _, row := range mightySockets {
		if strings.HasSuffix(at, row.end) {
			return row.what
		}
	}
	return "when the host replaces the socket, the run keeps the old one until its next start"
}
