// Package nettest makes a world with an internet of its own for tests: the test binary
// executes itself again in user, network and mount namespaces, in which every address
// leads to the same loopback interface, a name server answers on 127.0.0.1:53 and servers
// stand behind every address. What they see is recorded.
//
//	test process (outside)                 the same binary, in a world
//	──────────────────────                 ──────────────────────────────────────
//	  Command(test) ─────────────────────→ Enter: assert that it is alone, make mounts
//	                                       private, own /etc/resolv.conf and /etc/hosts,
//	                                       lo up, 0.0.0.0/0 and ::/0 local, any port
//	                                       bindable; give up privileges, execute again
//	                                       New: servers ←──→ bourn run, tools
//	  ←───────────────── its output, status
//
// # What it upholds
//
// Nothing of the host is changed: Enter refuses unless it is in namespaces other than those
// of the process that called Command, and sees a loopback interface alone. All load stays on the world's own loopback.
//
// # Needs
//
// Linux with user namespaces, and /etc/resolv.conf and /etc/hosts to stand in the place of.
package nettest

import (
	"net/netip"
	"strings"
)

// OwnAddress is a private address of a world's own interface; all others only lead there.
const OwnAddress = "10.0.0.5"

// A Visit is a connection that a server has accepted, or what came over one.
type Visit struct {
	At   netip.AddrPort // the address that was connected to
	Host string         // of an HTTP request
	SNI  string         // of a TLS connection
	Said string         // the path of an HTTP request, or the first line said to an echo server
}

// Answers returns the addresses of a name when it is asked for the nth time, from 0 on,
// and whether the name exists.
type Answers func(n int) ([]netip.Addr, bool)

// Always answers with the same addresses.
func Always(addrs ...string) Answers {
	return func(int) ([]netip.Addr, bool) { return parseAll(addrs), true }
}

// InTurn answers each time with the next of several lists of addresses, which are
// separated by spaces, and with the last one from then on.
func InTurn(lists ...string) Answers {
	return func(n int) ([]netip.Addr, bool) {
		return parseAll(strings.Fields(lists[min(n, len(lists)-1)])), true
	}
}

// Turning answers in turn without end.
func Turning(lists ...string) Answers {
	return func(n int) ([]netip.Addr, bool) { return parseAll(strings.Fields(lists[n%len(lists)])), true }
}

func parseAll(texts []string) (out []netip.Addr) {
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
