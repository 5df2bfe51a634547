package main

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// pipeFS is the type of the file system that only pipe(2) makes files in (statfs(2)).
const pipeFS = 0x50495045

// checkDescriptors holds 0, 1 and 2 to what the control plane gives. A closed one is /dev/null here, which
// Go's runtime opened in its place, and is none of these.
func checkDescriptors(service uint32) error {
	if err := checkSocket(0, service); err != nil {
		return err
	}
	var in, out, errs unix.Stat_t
	if err := unix.Fstat(0, &in); err != nil {
		return refuse(posix.OperationFailed, "descriptor 0: %v", err)
	}
	if err := unix.Fstat(1, &out); err != nil || out.Dev != in.Dev || out.Ino != in.Ino {
		return refuse(posix.OperationFailed, "descriptor 1 is not the socket that descriptor 0 is")
	}
	var fs unix.Statfs_t
	flags, err := unix.FcntlInt(2, unix.F_GETFL, 0)
	if err != nil || unix.Fstat(2, &errs) != nil || unix.Fstatfs(2, &fs) != nil ||
		errs.Mode&unix.S_IFMT != unix.S_IFIFO || int64(fs.Type) != pipeFS || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return refuse(posix.OperationFailed, "descriptor 2 is not the writing end of a pipe")
	}
	return nil
}

// checkSocket refuses what is not one end of a socketpair(2) that root or the service made.
func checkSocket(fd int, service uint32) error {
	wrong := func(why string) error { return refuse(posix.OperationFailed, "descriptor %d %s", fd, why) }
	for _, o := range []struct {
		name string
		opt  int
		want int
	}{{"unix", unix.SO_DOMAIN, unix.AF_UNIX}, {"stream", unix.SO_TYPE, unix.SOCK_STREAM}, {"connected", unix.SO_ACCEPTCONN, 0}} {
		if is, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.opt); err != nil || is != o.want {
			return wrong(fmt.Sprintf("is no %s socket", o.name))
		}
	}
	for _, name := range []uintptr{unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME} {
		// By its length: without a name an address has its family alone (unix(7)).
		var address unix.RawSockaddrAny
		size := uint32(unix.SizeofSockaddrAny)
		if _, _, errno := unix.RawSyscall(name, uintptr(fd), uintptr(unsafe.Pointer(&address)), uintptr(unsafe.Pointer(&size))); errno != 0 {
			return wrong("is not connected")
		}
		if size != uint32(unsafe.Sizeof(address.Addr.Family)) {
			return wrong("has a name or a peer with one: a socketpair is needed")
		}
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || peer.Uid != 0 && peer.Uid != service {
		return wrong("was made by somebody else than root and the service")
	}
	return nil
}

// closeInherited closes what the caller left open above 2: every descriptor that stays open over execve(2),
// since no other can have come through one. The runtime's own, for polling and for the limits of its control
// group, close on exec, like everything that this process opens; without them the runtime ends it.
func closeInherited() error {
	open, err := numbersIn("/proc/self/fd")
	if err != nil {
		return refuse(posix.RuntimeUnavailable, "cannot list descriptors: %v", err)
	}
	for _, fd := range open {
		if fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if errors.Is(err, unix.EBADF) {
			continue // that of the list itself
		}
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			err = unix.Close(fd)
		}
		if err != nil {
			return refuse(posix.RuntimeUnavailable, "cannot close descriptor %d: %v", fd, err)
		}
	}
	return nil
}
