package landlock

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ruleNetPort is LANDLOCK_RULE_NET_PORT, which x/sys/unix lacks.
const ruleNetPort = 2

// netPortAttr is struct landlock_net_port_attr, which x/sys/unix lacks.
type netPortAttr struct {
	access uint64
	port   uint64
}

func abi() (int, error) {
	n, errno := call(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION, 0)
	switch errno {
	case 0:
		return n, nil
	case unix.ENOSYS:
		return 0, fmt.Errorf("%w: it is not built in", ErrAbsent)
	case unix.EOPNOTSUPP:
		return 0, fmt.Errorf("%w: it is disabled at boot", ErrAbsent)
	}
	return 0, fmt.Errorf("cannot tell the Landlock version: %w", errno)
}

func restrict(rules []Rule, opt Options) (Result, error) {
	runtime.LockOSThread()
	res, err := restrictThread(rules, opt)
	if err != nil {
		runtime.UnlockOSThread()
		return Result{}, err
	}
	return res, nil
}

func restrictThread(rules []Rule, opt Options) (Result, error) {
	res, err := plan(opt)
	if err != nil {
		return res, err
	}
	// The kernel would let CAP_SYS_ADMIN pass without it, and set-id programs would then
	// run inside a seal that they do not expect.
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || nnp != 1 {
		return res, errors.New("cannot restrict a thread that has not set no_new_privs")
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: uint64(res.FS), Scoped: uint64(res.Scopes)}
	if res.TCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	ruleset, errno := call(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0)
	if errno != 0 {
		return res, fmt.Errorf("cannot create a Landlock ruleset: %w", errno)
	}
	defer unix.Close(ruleset)

	for _, r := range rules {
		added, err := addPath(ruleset, r, res.FS)
		if err != nil {
			return res, err
		}
		if added {
			res.Rules++
		}
	}
	if res.TCP {
		if err := addPorts(ruleset, opt.TCP); err != nil {
			return res, err
		}
	}
	if _, errno := call(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0, 0); errno != 0 {
		return res, fmt.Errorf("cannot restrict the thread with Landlock: %w", errno)
	}
	return res, nil
}

// plan decides what to handle on the running kernel.
func plan(opt Options) (Result, error) {
	n, err := abi()
	if err != nil {
		return Result{}, err
	}
	if opt.maxABI != 0 {
		n = min(n, opt.maxABI)
	}
	res := handled(n)
	if opt.TCP != nil && !res.TCP {
		return res, fmt.Errorf("cannot restrict TCP: the kernel has Landlock ABI %d, and 4 is needed", n)
	}
	res.TCP = opt.TCP != nil
	return res, nil
}

// addPath adds a rule and reports whether it granted anything that is handled.
func addPath(ruleset int, r Rule, handled Access) (bool, error) {
	if r.Access == 0 || r.Access&^allAccess != 0 {
		return false, fmt.Errorf("cannot grant access %#x to %q: no such access", uint64(r.Access), r.Path)
	}
	fd, err := openPath(r.Path)
	if err != nil {
		return false, fmt.Errorf("cannot grant access to %q: %w", r.Path, err)
	}
	defer unix.Close(fd)

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, fmt.Errorf("cannot grant access to %q: %w", r.Path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK {
		// A rule on the link itself would be accepted and grant nothing.
		return false, fmt.Errorf("cannot grant access to %q: it is a symbolic link", r.Path)
	}
	access := granted(r.Access, handled, kind == unix.S_IFDIR)
	if access == 0 {
		return false, nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: uint64(access), Parent_fd: int32(fd)}
	_, errno := call(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0)
	if errno != 0 {
		return false, fmt.Errorf("cannot grant access to %q: %w", r.Path, errno)
	}
	return true, nil
}

func openPath(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func addPorts(ruleset int, ports *Ports) error {
	for _, set := range [...]struct {
		access uint64
		ports  []uint16
	}{
		{unix.LANDLOCK_ACCESS_NET_BIND_TCP, ports.Bind},
		{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, ports.Connect},
	} {
		for _, port := range set.ports {
			attr := netPortAttr{access: set.access, port: uint64(port)}
			_, errno := call(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleNetPort, uintptr(unsafe.Pointer(&attr)), 0)
			if errno != 0 {
				return fmt.Errorf("cannot grant TCP port %d: %w", port, errno)
			}
		}
	}
	return nil
}

// call makes a Landlock system call on this thread, again when a signal interrupts it.
//
//go:uintptrescapes
func call(nr, a, b, c, d uintptr) (int, unix.Errno) {
	for {
		r, _, errno := unix.Syscall6(nr, a, b, c, d, 0, 0)
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}
