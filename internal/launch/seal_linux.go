package launch

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"

	"bourn/internal/policy"
	"bourn/internal/sandbox/landlock"
	"bourn/internal/sandbox/notify"
	"bourn/internal/sandbox/seccomp"

	"golang.org/x/sys/unix"
)

// sealAndStart runs on a goroutine of its own, which stays locked to its thread for
// good: the thread ends with it. It reports twice on started: once sealed, and after
// release once executed.
func (c *child) sealAndStart(started chan<- error, release <-chan struct{}) {
	runtime.LockOSThread()
	result, err := c.seal()
	if err == nil {
		err = hide()
	}
	if err == nil {
		err = c.link.send(message{Kind: kindSealed, Number: result.ABI})
	}
	started <- err
	if err != nil {
		return
	}
	<-release
	started <- c.start()
}

// seal installs the thread's boundary. Each step says what it must follow and precede;
// capabilities, no_new_privs, Landlock and seccomp are per thread (credentials(7)), so
// that pid 1's other threads keep what they need to renew masks.
func (c *child) seal() (landlock.Result, error) {
	var result landlock.Result
	var ruleset *landlock.Ruleset
	plan := c.order.Plan
	steps := []struct {
		name string
		do   func() error
	}{
		// Before the privileges go: a directory of the person's own may have a mode that
		// only CAP_DAC_OVERRIDE gets past.
		{stepLandlock, func() (err error) {
			ruleset, err = landlock.Make(rules(plan), landlock.Options{Open: openStreams()})
			return err
		}},
		// Before the privileges go: a limit may only be lowered without them.
		{stepLimits, func() error { return setLimits(plan.Limits) }},
		// Before no_new_privs and everything else: needs CAP_SETPCAP.
		{stepPrivileges, func() error { return dropPrivileges(plan.User) }},
		// After the last mount (Landlock refuses mounts), before seccomp, which refuses
		// nothing that Landlock needs but is cheapest to add last.
		{stepLandlock, func() (err error) { result, err = ruleset.Restrict(); return err }},
		// Before the filter that refuses: what that refuses is not reported.
		{stepWatch, c.watch},
		{stepSeccomp, func() error { return installSeccomp(seccomp.Options{Nested: plan.Nested}) }},
		// After all of them: what was installed is tried.
		{stepProbe, func() error { return probe(plan) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return result, stepError(s.name, err)
		}
	}
	return result, nil
}

func installSeccomp(opt seccomp.Options) error {
	filter, err := seccomp.Filter(opt)
	if err != nil {
		return err
	}
	return seccomp.Install(filter)
}

// rules translates the plan: reading everywhere (the root shows nothing that may not be
// read but what is masked), writing and executing where the plan says.
func rules(plan *policy.Plan) []landlock.Rule {
	rs := []landlock.Rule{
		{Path: "/", Access: landlock.Read | landlock.Connect},
		{Path: "/dev", Access: landlock.DevIO},
		{Path: "/run/bourn/bourn", Access: landlock.Exec},
	}
	if plan.Nested {
		// /proc/PID/uid_map and the like; what in /proc changes the host is read-only by
		// mounts of its own.
		rs = append(rs, landlock.Rule{Path: "/proc", Access: landlock.WriteFile})
	}
	place := func(path string, write, exec bool) {
		// Reading is granted by / already; here as well, since the kernel walks up from the
		// opened file only until every right that is asked for has been granted.
		access := landlock.Read | landlock.Connect
		if write {
			access |= landlock.Write
		}
		if exec {
			access |= landlock.Exec
		}
		rs = append(rs, landlock.Rule{Path: path, Access: access})
	}
	masked := func(path string) bool {
		return slices.ContainsFunc(plan.Masks, func(m policy.Mask) bool { return policy.Under(path, m.Path) })
	}
	for _, b := range plan.Binds {
		if !masked(b.Path) {
			place(b.Path, b.Write, !b.NoExec)
		}
	}
	for _, p := range plan.Private {
		if !masked(p.Path) {
			place(p.Path, true, !p.NoExec)
		}
	}
	return rs
}

// openStreams lets the command open its standard streams by name (/dev/stdin), as far as
// they are open: their files lie outside the root.
func openStreams() []landlock.Open {
	var out []landlock.Open
	for fd := range 3 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		access := landlock.ReadFile
		switch flags & unix.O_ACCMODE {
		case unix.O_WRONLY:
			access = landlock.WriteFile | landlock.Truncate
		case unix.O_RDWR:
			access |= landlock.WriteFile | landlock.Truncate
		}
		out = append(out, landlock.Open{FD: fd, Access: access})
	}
	return out
}

// setLimits lowers the process's limits; the command inherits them. They also bind pid
// 1, which needs a few descriptors and threads of its own.
func setLimits(l policy.Limits) error {
	const own = 16
	set := func(what int, n uint64) error {
		if n == 0 {
			return nil
		}
		var old unix.Rlimit
		if err := unix.Getrlimit(what, &old); err != nil {
			return err
		}
		n = min(n, old.Max)
		// syscall's own version: it makes ForkExec keep the value for NOFILE.
		return syscall.Setrlimit(what, &syscall.Rlimit{Cur: n, Max: n})
	}
	procs := uint64(l.Processes)
	if procs > 0 {
		procs += own
	}
	return errors.Join(set(unix.RLIMIT_DATA, uint64(l.Memory)), set(unix.RLIMIT_NPROC, procs),
		set(unix.RLIMIT_NOFILE, uint64(l.OpenFiles)))
}

// Bits of securebits.h that x/sys/unix does not name.
const (
	secureNoRoot        = 1 << 0
	secureNoRootLocked  = 1 << 1
	secureNoFixup       = 1 << 2
	secureNoFixupLocked = 1 << 3
	secureKeepLocked    = 1 << 5
	secureNoAmbient     = 1 << 6
	secureNoAmbientLock = 1 << 7
	secureBits          = secureNoRoot | secureNoRootLocked | secureNoFixup | secureNoFixupLocked | secureKeepLocked | secureNoAmbient | secureNoAmbientLock
	lastCapabilityOfAll = 63
)

// dropPrivileges leaves the thread without any capability, now and after any execve,
// also for uid 0, and asserts it. A user that the run is to be becomes it on the way.
func dropPrivileges(user *policy.User) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0); err != nil {
		return fmt.Errorf("set securebits: %w", err)
	}
	for c := uintptr(0); c <= lastCapabilityOfAll; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) && c > 0 {
				break // past the last capability that this kernel knows
			}
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	// After securebits, by which the change of uid keeps what capset takes away, and before
	// that.
	if err := become(user); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none, now [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Capget(&head, &now[0]); err != nil {
		return err
	}
	if now != none {
		return errors.New("capabilities are left")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return isUser(user)
}

// probe tries one denied read, one denied write and one denied connect on the sealed
// thread. Anything but a refusal means that the seal does not hold.
func probe(plan *policy.Plan) error {
	target := "/etc/shadow"
	if len(plan.Masks) > 0 {
		target = plan.Masks[0].Path
	}
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	if len(plan.Masks) > 0 && plan.Masks[0].Empty {
		flags = unix.O_RDWR | unix.O_CLOEXEC // an empty directory may be listed
	}
	fd, err := unix.Open(target, flags, 0)
	switch {
	case err == nil:
		unix.Close(fd)
		return fmt.Errorf("%q could be read", target)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%q could not be tried: %w", target, err)
	}
	switch err := unix.Mkdir("/.bourn", 0o700); {
	case err == nil:
		return errors.New("the root could be written")
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("the root could not be tried: %w", err)
	}
	if plan.Network.Mode == policy.NetworkOpen {
		return nil
	}
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil // no sockets at all
	}
	defer unix.Close(fd)
	// 192.0.2.1 is set aside for documentation (RFC 5737): nobody is there.
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 9})
	if err == nil || errors.Is(err, unix.EINPROGRESS) {
		return errors.New("the network outside could be reached")
	}
	return nil
}

// start executes the command from the sealed thread, which the child inherits.
func (c *child) start() error {
	plan := c.order.Plan
	if plan.User != nil {
		unix.Umask(c.umask)
	}
	program, err := lookPath(plan.Command[0], plan.Cwd, plan.Env)
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{
		Dir: plan.Cwd, Env: plan.Env, Files: c.streams(),
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	if c.terminal != nil && !c.order.Lazy {
		attr.Sys.Foreground, attr.Sys.Ctty = true, c.terminal.slave
	}
	execute := func() (err error) {
		c.pid, err = syscall.ForkExec(program, plan.Command, attr)
		if errors.Is(err, syscall.ENOEXEC) {
			// A script without #!: what execvp(3) does.
			c.pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", program}, plan.Command[1:]...), attr)
		}
		return err
	}
	if c.order.Watch {
		err = notify.Fork(execute)
	} else {
		err = execute()
	}
	if err != nil {
		return fmt.Errorf("cannot execute %q: %w", program, err)
	}
	return nil
}

// hide makes pid 1 unreadable to everything inside: /proc/1 shows nothing of it.
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
