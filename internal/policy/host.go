package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bourn"

	"golang.org/x/net/idna"
)

// A Host is what a line of network.hosts or network.deny names: one name, every name
// below a suffix, or one address; with a port, or without one.
//
//	api.example.com      *.example.org:443      192.0.2.7:5432      [2001:db8::1]:22
//
// A grant without a port is for the ports of the web, a deny without one for all.
type Host struct {
	Name   string     // lower case, ASCII, no dot at the end; "" for an address
	Suffix bool       // every name that ends in .Name, and not Name itself
	Addr   netip.Addr // valid for an address; IPv4 is never mapped to IPv6
	Port   uint16     // 0 where none is named
}

// webPorts are what a grant without a port is for.
var webPorts = []uint16{80, 443}

// ControlPort is the TCP port of Bourn's own control plane, which no run may reach.
const ControlPort = 7720

// Localhost is the name of the host's own loopback addresses.
const Localhost = "localhost"

// ParseHost reads a line of network.hosts or network.deny. A URL, a pattern other than
// *.suffix, and an address in another than the usual spelling are ErrInvalid.
func ParseHost(text string) (Host, error) {
	fail := func(format string, args ...any) (Host, error) {
		return Host{}, fmt.Errorf("%w host \"%s\": %s", bourn.ErrInvalid, bourn.Printable(text), fmt.Sprintf(format, args...))
	}
	switch {
	case text == "":
		return fail("it is empty")
	case strings.Contains(text, "://"), strings.ContainsAny(text, "/?#@"):
		return fail("give a name with an optional port, not a URL")
	case text == "*":
		return fail("too broad: name a domain, as in *.example.com, or set network.mode to open")
	}
	name, port, err := splitPort(text)
	if err != nil {
		return fail("%v", err)
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return hostAddress(addr, port, fail)
	}
	h := Host{Port: port}
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		h.Suffix, name = true, rest
	}
	if h.Name, err = canonicalName(name); err != nil {
		return fail("%v", err)
	}
	if h.Suffix && !strings.Contains(h.Name, ".") {
		return fail("too broad: name a domain, as in *.example.com")
	}
	return h, nil
}

func hostAddress(addr netip.Addr, port uint16, fail func(string, ...any) (Host, error)) (Host, error) {
	switch addr = addr.Unmap(); {
	case addr.Zone() != "":
		return fail("an address with a zone cannot be granted")
	case addr.IsUnspecified(), addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fail("it is no address of one host")
	}
	return Host{Addr: addr, Port: port}, nil
}

// splitPort splits NAME, NAME:PORT, [ADDR]:PORT and a bare IPv6 address.
func splitPort(text string) (name string, port uint16, err error) {
	name, digits, found := text, "", false
	switch {
	case strings.HasPrefix(text, "["):
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", 0, fmt.Errorf("a bracket is not closed")
		}
		name, digits = text[1:end], text[end+1:]
		if digits, found = strings.CutPrefix(digits, ":"); !found && digits != "" {
			return "", 0, fmt.Errorf("%q follows the bracket", digits)
		}
		if addr, err := netip.ParseAddr(name); err != nil || !addr.Is6() {
			return "", 0, fmt.Errorf("only an IPv6 address stands in brackets")
		}
	case strings.Count(text, ":") == 1:
		name, digits, found = strings.Cut(text, ":")
	}
	if !found {
		return name, 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '+' {
		return "", 0, fmt.Errorf("the port must be a number from 1 to 65535")
	}
	return name, uint16(n), nil
}

// canonicalName returns a host name as it is compared: in ASCII (UTS 46), in lower case,
// without the dot at the end. What programs read as an address, as they do 127.1, 0x7f.1
// and 2130706433, is no name.
func canonicalName(name string) (string, error) {
	ascii := strings.TrimSuffix(name, ".")
	if !utf8.ValidString(ascii) {
		return "", fmt.Errorf("it is not a host name")
	}
	if strings.IndexFunc(ascii, func(r rune) bool { return r >= 0x80 }) >= 0 {
		var err error
		if ascii, err = international.ToASCII(ascii); err != nil {
			return "", fmt.Errorf("it is not a host name")
		}
	}
	if ascii = strings.ToLower(ascii); ascii == "" || len(ascii) > 253 {
		return "", fmt.Errorf("it is not a host name")
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if !validLabel(label) {
			return "", fmt.Errorf("it is not a host name")
		}
	}
	last := ascii[strings.LastIndexByte(ascii, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", fmt.Errorf("it is neither a host name nor an address in the usual spelling")
	}
	return ascii, nil
}

// international is for names that are not ASCII: what a browser does with them.
var international = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false))

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// String returns h as ParseHost reads it.
func (h Host) String() string {
	s := h.Name
	if h.Suffix {
		s = "*." + s
	}
	switch {
	case h.Addr.IsValid() && h.Port != 0:
		return netip.AddrPortFrom(h.Addr, h.Port).String()
	case h.Addr.IsValid():
		return h.Addr.String()
	case h.Port != 0:
		return s + ":" + strconv.Itoa(int(h.Port))
	}
	return s
}

// Ports returns the ports that a grant of h is for.
func (h Host) Ports() []uint16 {
	if h.Port == 0 {
		return webPorts
	}
	return []uint16{h.Port}
}

// names reports whether h names what t wants to reach, ports apart.
func (h Host) names(t Target) bool {
	switch {
	case h.Addr.IsValid():
		return t.Addr == h.Addr
	case t.Addr.IsValid():
		return h.Name == Localhost && !h.Suffix && t.Addr.IsLoopback()
	case h.Suffix:
		return strings.HasSuffix(t.Name, "."+h.Name)
	}
	return t.Name == h.Name
}

// A Target is one end that a program wants to reach: a name or an address, and a port.
type Target struct {
	Name string     // as in Host; "" for an address
	Addr netip.Addr // as in Host
	Port uint16
}

// ParseTarget reads the host and port of one connection. An address in any spelling but
// the usual one, and what is no host name, are ErrInvalid.
func ParseTarget(host string, port uint16) (Target, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return Target{}, fmt.Errorf("%w host \"%s\": an address with a zone cannot be granted", bourn.ErrInvalid, bourn.Printable(host))
		}
		return Target{Addr: addr.Unmap(), Port: port}, nil
	}
	name, err := canonicalName(host)
	if err != nil {
		return Target{}, fmt.Errorf("%w host \"%s\": %w", bourn.ErrInvalid, bourn.Printable(host), err)
	}
	return Target{Name: name, Port: port}, nil
}

// String returns t as HOST:PORT.
func (t Target) String() string {
	if t.Addr.IsValid() {
		return netip.AddrPortFrom(t.Addr, t.Port).String()
	}
	return t.Name + ":" + strconv.Itoa(int(t.Port))
}

// Host returns the grant that would be needed for t.
func (t Target) Host() Host {
	h := Host{Name: t.Name, Addr: t.Addr, Port: t.Port}
	if t.Port == 80 || t.Port == 443 {
		h.Port = 0
	}
	return h
}

// Within reports whether everything that a grant of g is for lies within a list of hosts.
// One without a port stands for every port.
func Within(list []Host, g Host) bool {
	for _, port := range g.Ports() {
		if !slices.ContainsFunc(list, func(h Host) bool { return HostRule{Host: h}.closes(g, port) }) {
			return false
		}
	}
	return true
}
