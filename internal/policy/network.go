package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A NetworkMode says what of the network a run sees.
type NetworkMode string

const (
	NetworkNone       NetworkMode = "none"       // its own loopback
	NetworkRestricted NetworkMode = "restricted" // and what is granted, through the launcher
	NetworkOpen       NetworkMode = "open"       // the host's network as it is
)

// A Network is the part of a plan that decides about connections. The zero value refuses
// everything.
type Network struct {
	Mode NetworkMode
	// Direct says that programs which ignore proxy variables reach what is granted, too.
	Direct bool
	Grants []HostRule
	Denies []HostRule
}

// A HostRule is a host with the item that it stems from.
type HostRule struct {
	Host
	Item int
	// Private says that its name may lead to an address of a private network: the person's
	// own configuration names it.
	Private bool
}

// A Ruling is what a network says of one target.
type Ruling struct {
	Allowed bool
	Item    int    // the item that decides, -1 for the default
	Reason  string // why it is refused
}

// NotGranted is the reason of a refusal that no line of the declaration is about.
const NotGranted = "not granted"

// Judge decides about a target by its name alone: denies first, then Bourn's own, then
// grants. What a granted name resolves to is judged by [Network.JudgeAddress].
func (n *Network) Judge(t Target) Ruling {
	if r, denied := n.denied(t); denied {
		return r
	}
	if isOwn(t) {
		return Ruling{Item: -1, Reason: OwnControlPlane}
	}
	ports := false
	for _, g := range n.Grants {
		if !g.names(t) {
			continue
		}
		for _, p := range g.Ports() {
			if p == t.Port {
				return Ruling{Allowed: true, Item: g.Item}
			}
		}
		ports = true
	}
	if ports {
		return Ruling{Item: -1, Reason: fmt.Sprintf("port %d is not granted", t.Port)}
	}
	return Ruling{Item: -1, Reason: NotGranted}
}

// Names reports whether a name may be reached on some port.
func (n *Network) Names(name string) bool {
	t := Target{Name: name}
	for _, d := range n.Denies {
		if d.names(t) && d.Port == 0 {
			return false
		}
	}
	return slices.ContainsFunc(n.Grants, func(g HostRule) bool { return g.names(t) })
}

func (n *Network) denied(t Target) (Ruling, bool) {
	for _, d := range n.Denies {
		if d.names(t) && (d.Port == 0 || d.Port == t.Port) {
			return Ruling{Item: d.Item, Reason: "denied by " + d.Host.String()}, true
		}
	}
	return Ruling{}, false
}

// OwnControlPlane is the reason of a refusal that no grant changes.
const OwnControlPlane = "it is bourn's own control plane"

// isOwn reports whether a target is the control plane, as far as a name tells.
func isOwn(t Target) bool {
	return t.Port == ControlPort && (t.Name == Localhost || t.Addr.IsLoopback())
}

// JudgeAddress decides about an address that a granted name has resolved to, or that is
// itself the target. An address that is not of the public internet is refused unless that
// address is granted as such; localhost is granted with its loopback addresses.
func (n *Network) JudgeAddress(t Target, addr netip.Addr) Ruling {
	addr = addr.Unmap().WithZone("")
	at := Target{Addr: addr, Port: t.Port}
	if r, denied := n.denied(at); denied {
		return r
	}
	if inner, ok := embedded(addr); ok {
		if r, denied := n.denied(Target{Addr: inner, Port: t.Port}); denied {
			return r
		}
	}
	if isOwn(at) {
		return Ruling{Item: -1, Reason: OwnControlPlane}
	}
	byName := n.Judge(t)
	why := Special(addr)
	if !byName.Allowed || why == "" || t.Addr == addr || t.Name == Localhost && addr.IsLoopback() {
		return byName
	}
	for _, g := range n.Grants {
		if g.Addr != addr && !(g.Private && g.names(t) && strings.HasPrefix(why, "private")) {
			continue
		}
		for _, p := range g.Ports() {
			if p == t.Port {
				return Ruling{Allowed: true, Item: g.Item}
			}
		}
	}
	return Ruling{Item: -1, Reason: fmt.Sprintf("%s is %s, and it is not granted as an address", addr, why)}
}

// special are the ranges that are not of the public internet (IANA special-purpose address
// registries), and the metadata services of clouds that stand in public ranges. The first
// that holds an address names it.
var special = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "a metadata service"},
	{netip.MustParsePrefix("169.254.170.2/32"), "a metadata service"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata service"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"},
	{netip.MustParsePrefix("192.0.0.192/32"), "a metadata service"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a metadata service"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "a metadata service"},
	{netip.MustParsePrefix("0.0.0.0/8"), "of this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "private (carrier-grade NAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "reserved"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "of this host"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "reserved"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "private"},
	{netip.MustParsePrefix("100::/64"), "reserved"},
	{netip.MustParsePrefix("2001::/23"), "reserved"},
	{netip.MustParsePrefix("2001:db8::/32"), "reserved for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "reserved for documentation"},
	{netip.MustParsePrefix("5f00::/16"), "reserved"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// Special says what an address is that is not of the public internet, or "". An IPv4
// address that is written in an IPv6 one (NAT64, 6to4, IPv4-compatible) counts as itself.
func Special(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if inner, ok := embedded(addr); ok {
		if what := Special(inner); what != "" {
			return what + " (as " + inner.String() + ")"
		}
	}
	for _, row := range special {
		if row.prefix.Contains(addr) {
			return row.what
		}
	}
	return ""
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96")
)

// embedded returns the IPv4 address that an IPv6 address carries.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case !addr.Is6() || addr == netip.IPv6Unspecified() || addr == netip.IPv6Loopback():
		return netip.Addr{}, false
	case nat64.Contains(addr), compatible.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
