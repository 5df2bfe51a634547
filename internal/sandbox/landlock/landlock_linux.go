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

type ruleset struct {
	fd     int
	result Result
}

func makeRuleset(rules []Rule, opt Options) (*Ruleset, error) {
	res, err := plan(opt)
	if err != nil {
		return nil, err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: uint64(res.FS), Scoped: uint64(res.Scopes)}
	if res.TCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	fd, errno := call(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("cannot create a Landlock ruleset: %w", errno)
	}
	r := &Ruleset{ruleset{fd: fd, result: res}}
	if err := r.fill(rules, opt); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return r, nil
}

func (r *ruleset) fill(rules []Rule, opt Options) error {
	for _, rule := range rules {
		added, err := addPath(r.fd, rule, r.result.FS)
		if err != nil {
			return err
		}
		if added {
			r.result.Rules++
		}
	}
	for _, o := range opt.Open {
		if err := addOpen(r.fd, o, r.result.FS); err != nil {
			return err
		}
	}
	if r.result.TCP {
		return addPorts(r.fd, opt.TCP)
	}
	return nil
}

func (r *ruleset) restrict() (Result, error) {
	runtime.LockOSThread()
	err := r.restrictThread()
	unix.Close(r.fd)
	if err != nil {
		runtime.UnlockOSThread()
		return Result{}, err
	}
	return r.result, nil
}

func (r *ruleset) restrictThread() error {
	// The kernel would let CAP_SYS_ADMIN pass without it, and set-id programs would then
	// run inside a seal that they do not expect.
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || nnp != 1 {
		return errors.New("cannot restrict a thread that has not set no_new_privs")
	}
	if _, errno := call(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot restrict the thread with Landlock: %w", errno)
	}
	return nil
}

// addOpen adds a rule for the file that a descriptor refers to. The kernel refuses files
// that lie on no file system a path can reach (EBADFD): there is nothing to open again.
func addOpen(ruleset int, o Open, handled Access) error {
	var st unix.Stat_t
	if err := unix.Fstat(o.FD, &st); err != nil {
		return fmt.Errorf("cannot grant access to descriptor %d: %w", o.FD, err)
	}
	access := granted(o.Access, handled, false)
	if kind := st.Mode & unix.S_IFMT; access == 0 || kind != unix.S_IFREG && kind != unix.S_IFCHR {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: uint64(access), Parent_fd: int32(o.FD)}
	_, errno := call(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0)
	if errno != 0 && errno != unix.EBADFD {
		return fmt.Errorf("cannot grant access to descriptor %d: %w", o.FD, errno)
	}
	return nil
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
