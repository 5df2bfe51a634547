package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait to be accepted.
const backlog = 512

// listen makes the listeners of a plan in the run's network namespace. Only the parent
// serves them; here they are made, since a socket belongs to the namespace that it was
// made in.
//
// Where the host has no IPv6 its addresses are left out: the result has -1 in the place of
// such a listener.
func listen(plan *policy.Plan) ([]int, error) {
	if len(plan.Listen) == 0 {
		return nil, nil
	}
	if err := addAddress(policy.OwnNet); err != nil {
		return nil, fmt.Errorf("add %s: %w", policy.OwnNet, err)
	}
	for _, a := range plan.Local {
		if err := addAddress(netip.PrefixFrom(a, a.BitLen())); err != nil && !(a.Is6() && withoutIPv6(err)) {
			return nil, fmt.Errorf("add %s: %w", a, err)
		}
	}
	var fds []int
	for _, l := range plan.Listen {
		fd, err := listenOn(l)
		if l.Addr.Addr().Is6() && withoutIPv6(err) {
			fd, err = -1, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", l.Addr, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// withoutIPv6 reports whether an error says that the host has no IPv6, or that it is
// switched off.
func withoutIPv6(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EACCES)
}

// madeMark is what the ready message has for a listener.
func madeMark(fd int) rune {
	if fd < 0 {
		return notMade
	}
	return made
}

const (
	made    = '+'
	notMade = '-'
)

func listenOn(l policy.Listen) (int, error) {
	kind := unix.SOCK_STREAM
	if l.Use == policy.ListenNames {
		kind = unix.SOCK_DGRAM
	}
	family := unix.AF_INET
	var at unix.Sockaddr = &unix.SockaddrInet4{Port: int(l.Addr.Port()), Addr: as4(l.Addr.Addr())}
	if l.Addr.Addr().Is6() {
		family = unix.AF_INET6
		at = &unix.SockaddrInet6{Port: int(l.Addr.Port()), Addr: l.Addr.Addr().As16()}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if family == unix.AF_INET6 {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	}
	if err = errors.Join(err, unix.Bind(fd, at)); err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// loopback is the index of a new namespace's first interface.
const loopback = 1

// addAddress gives the loopback interface an address: on it, all of a prefix is local
// (rtnetlink(7), RTM_NEWADDR).
func addAddress(p netip.Prefix) error {
	family, flags := byte(unix.AF_INET), byte(0)
	if p.Addr().Is6() {
		family, flags = unix.AF_INET6, unix.IFA_F_NODAD
	}
	body := []byte{family, byte(p.Bits()), flags, unix.RT_SCOPE_UNIVERSE} // struct ifaddrmsg
	body = binary.NativeEndian.AppendUint32(body, loopback)
	body = attribute(body, unix.IFA_LOCAL, p.Addr().AsSlice())
	body = attribute(body, unix.IFA_ADDRESS, p.Addr().AsSlice())
	if err := netlink(unix.RTM_NEWADDR, body); err != nil || p.Addr().Is4() {
		return err
	}
	return addRoute(p)
}

// addRoute makes an IPv6 address local at once: the kernel does so by itself, but from a
// work queue, after it has answered (addrconf_dad_work in net/ipv6/addrconf.c).
func addRoute(p netip.Prefix) error {
	body := []byte{unix.AF_INET6, byte(p.Bits()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT,
		unix.RT_SCOPE_UNIVERSE, unix.RTN_LOCAL, 0, 0, 0, 0} // struct rtmsg
	body = attribute(body, unix.RTA_DST, p.Addr().AsSlice())
	body = attribute(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
	return netlink(unix.RTM_NEWROUTE, body)
}

func attribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(unix.SizeofRtAttr+len(value)))
	return append(binary.NativeEndian.AppendUint16(to, kind), value...)
}

// netlink makes one request and returns what the kernel says to it.
func netlink(kind uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	head := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE, Seq: 1}
	msg := append((*[unix.SizeofNlMsghdr]byte)(unsafe.Pointer(&head))[:], body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	return acknowledged(fd)
}

// acknowledged reads the answer to one netlink request (struct nlmsgerr).
func acknowledged(fd int) error {
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(buf[4:]) != unix.NLMSG_ERROR {
		return errors.New("the kernel gave no answer")
	}
	if code := int32(binary.NativeEndian.Uint32(buf[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// as4 returns an IPv4 address, and zeros for an IPv6 one.
func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}
