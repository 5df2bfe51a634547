package nettest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// stage says in the environment how far a world is made: "enter", then "inside". outer
// names the namespaces of the process that has begun it.
const (
	stage = "BOURN_NETTEST_STAGE"
	outer = "BOURN_NETTEST_OUTER"
)

// From linux/prctl.h and linux/capability.h; package syscall lacks them.
const (
	prCapAmbient         = 47
	prCapAmbientClearAll = 4
	capNetAdmin          = 12
	capSysAdmin          = 21
)

// Command returns a command that runs this test binary again in a world of its own, with
// further arguments. Env is added to its environment. It dies with the calling thread's
// process.
func Command(ctx context.Context, env []string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own, err := namespaces()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(append(os.Environ(), env...), stage+"=enter", outer+"="+strings.Join(own, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: idMap(os.Getuid()), GidMappings: idMap(os.Getgid()),
		GidMappingsEnableSetgroups: os.Getuid() == 0,
		AmbientCaps:                []uintptr{capNetAdmin, capSysAdmin},
	}
	return cmd, nil
}

// idMap maps what the caller may map to itself: root every id, so that tests can act as
// an ordinary user.
func idMap(id int) []syscall.SysProcIDMap {
	if id == 0 {
		return []syscall.SysProcIDMap{{Size: 1 << 16}}
	}
	return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
}

// Possible returns why this host cannot make a world, or nil.
func Possible(ctx context.Context) error {
	cmd, err := Command(ctx, nil, "-test.run=^$")
	if err != nil {
		return err
	}
	for _, at := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if _, err := os.Stat(at); err != nil {
			return err
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Inside reports whether the process is in a world already, or is to Enter one.
func Inside() bool { return os.Getenv(stage) != "" }

// Enter finishes the world that Command has begun, and executes the program again, without
// capabilities for an ordinary user. In a finished world it returns nil.
func Enter() error {
	if err := alone(); err != nil {
		return err
	}
	if os.Getenv(stage) == "inside" {
		return nil
	}
	runtime.LockOSThread() // the ambient set is a thread's own (capabilities(7))
	for _, do := range []func() error{ownFiles, loopbackUp, everywhere, anyPort, noAmbient} {
		if err := do(); err != nil {
			return err
		}
	}
	if err := os.Setenv(stage, "inside"); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// namespaces returns the names of those that the process is in, of three kinds.
func namespaces() ([]string, error) {
	var out []string
	for _, kind := range []string{"user", "net", "mnt"} {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

// alone asserts that the process has namespaces of its own, before anything is changed.
func alone() error {
	own, err := namespaces()
	if err != nil {
		return err
	}
	before := strings.Fields(os.Getenv(outer))
	if len(before) != len(own) {
		return errors.New("it is not known in which namespaces this world was begun")
	}
	for i := range own {
		if own[i] == before[i] {
			return fmt.Errorf("%s is not this process's own", own[i])
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(links) != 1 || links[0].Flags&net.FlagLoopback == 0 {
		return errors.New("the network has more than a loopback interface")
	}
	return nil
}

// ownFiles binds files over those of the host's that say where names are resolved.
func ownFiles() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	dir, err := os.MkdirTemp("", "bourn-world-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what is bound stays
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n",
		"hosts":       "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
	} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return err
		}
		real, err := filepath.EvalSymlinks("/etc/" + name)
		if err != nil {
			return err
		}
		if err := syscall.Mount(at, real, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot bind a file over %s: %w", real, err)
		}
	}
	return nil
}

// loopbackUp sets IFF_UP (netdevice(7)).
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var request struct { // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_LOOPBACK | syscall.IFF_RUNNING
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); code != 0 {
		return fmt.Errorf("cannot bring the loopback interface up: %w", code)
	}
	return nil
}

// everywhere makes every address local: what is sent anywhere arrives in this world
// (rtnetlink(7), RTM_NEWROUTE; the table is named local).
func everywhere() error {
	const loopback = 1 // the index of a new namespace's first interface
	for _, family := range []byte{syscall.AF_INET, syscall.AF_INET6} {
		body := []byte{family, 0, 0, 0, syscall.RT_TABLE_LOCAL, syscall.RTPROT_BOOT, // struct rtmsg
			syscall.RT_SCOPE_HOST, syscall.RTN_LOCAL, 0, 0, 0, 0}
		body = attribute(body, syscall.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
		if err := netlink(syscall.RTM_NEWROUTE, body); err != nil {
			return fmt.Errorf("cannot make every address local: %w", err)
		}
	}
	own := netip.MustParseAddr(OwnAddress)
	body := []byte{syscall.AF_INET, 32, 0, syscall.RT_SCOPE_UNIVERSE} // struct ifaddrmsg
	body = binary.NativeEndian.AppendUint32(body, loopback)
	body = attribute(body, syscall.IFA_LOCAL, own.AsSlice())
	if err := netlink(syscall.RTM_NEWADDR, body); err != nil {
		return fmt.Errorf("cannot add %s: %w", own, err)
	}
	return nil
}

func attribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(syscall.SizeofRtAttr+len(value)))
	return append(binary.NativeEndian.AppendUint16(to, kind), value...)
}

// netlink sends one request and waits for its acknowledgement (netlink(7)).
func netlink(kind uint16, body []byte) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	msg := binary.NativeEndian.AppendUint32(nil, uint32(syscall.SizeofNlMsghdr+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	msg = binary.NativeEndian.AppendUint16(msg, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK|syscall.NLM_F_CREATE)
	msg = binary.NativeEndian.AppendUint32(msg, 1)
	msg = append(binary.NativeEndian.AppendUint32(msg, 0), body...)
	if err := syscall.Sendto(fd, msg, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < syscall.SizeofNlMsghdr+4 {
		return errors.New("the kernel gave no answer")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[syscall.SizeofNlMsghdr:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}

// anyPort lets everyone bind any port (ip(7), ip_unprivileged_port_start).
func anyPort() error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
}

// noAmbient keeps capabilities from what the process executes next, unless it is root's.
func noAmbient() error {
	if _, _, code := syscall.Syscall6(syscall.SYS_PRCTL, prCapAmbient, prCapAmbientClearAll, 0, 0, 0, 0); code != 0 {
		return fmt.Errorf("cannot give up capabilities: %w", code)
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err == nil && !strings.Contains(string(status), "CapAmb:\t0000000000000000") {
		return errors.New("capabilities were not given up")
	}
	return err
}
