//go:build amd64 || arm64

package notify

import (
	"fmt"
	"hash/maphash"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctls that x/sys/unix does not name, from linux/seccomp.h. ID_VALID was defined with the
// wrong direction before 5.8; newer kernels take both numbers.
const (
	ioctlIDValid  = 0x40082102
	ioctlSetFlags = 0x40082104
	ioctlOldValid = 0x80082102
)

// notification is struct seccomp_notif, response struct seccomp_notif_resp.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// sizes is struct seccomp_notif_sizes: a newer kernel's structs may be longer.
type sizes struct{ notification, response, data uint16 }

// words returns zeroed memory for a struct of size bytes, aligned.
func words(size uint16, least uintptr) []uint64 {
	return make([]uint64, (max(uintptr(size), least)+7)/8)
}

// A reader answers one listener. It is used by one goroutine: with several, the kernel
// wakes them all for each call, which costs more than it gains.
type reader struct {
	fd       int
	each     func(Event)
	proc     int // /proc
	byNumber []call

	notification []uint64
	response     []uint64

	name  [pathMax]byte // what the call's path is
	base  [pathMax]byte // the directory that it is relative to
	link  [linkMax]byte // the name of the directory's link, below /proc
	whole []byte        // the path that is reported
	seen  [1024]string  // by hash, so that a repeated path is not allocated again
	seed  maphash.Seed
}

func serve(fd int, each func(Event)) error {
	// Closed on panics as well: what is watched must not wait for ever.
	defer unix.Close(fd)
	r, err := newReader(fd, each)
	if err != nil {
		return fmt.Errorf("cannot read notifications: %w", err)
	}
	defer unix.Close(r.proc)
	if err := r.run(); err != nil {
		return fmt.Errorf("cannot read notifications: %w", err)
	}
	return nil
}

func newReader(fd int, each func(Event)) (*reader, error) {
	var s sizes
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&s))); errno != 0 {
		return nil, errno
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	// Wakes the reader on the caller's CPU, since Linux 6.6. Where it is not known nothing
	// is lost but speed.
	_, _, _ = unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), ioctlSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	r := &reader{
		fd: fd, each: each, proc: proc, byNumber: byNumber(), seed: maphash.MakeSeed(),
		notification: words(s.notification, unsafe.Sizeof(notification{})),
		response:     words(s.response, unsafe.Sizeof(response{})),
		whole:        make([]byte, 0, 2*pathMax),
	}
	return r, nil
}

// byNumber returns the tables indexed by number; a call without a name is not in them.
func byNumber() []call {
	out := make([]call, 512)
	for _, c := range table {
		out[c.nr] = c
	}
	for _, c := range archTable {
		out[c.nr] = c
	}
	return out
}

// run answers calls until nobody is left who could make one.
func (r *reader) run() error {
	wait := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	for {
		// RECV alone does not return when everybody has ended, before Linux 6.11.
		if _, err := unix.Poll(wait, -1); err != nil {
			if err == unix.EINTR || err == unix.ENOMEM {
				continue
			}
			return err
		}
		switch {
		case wait[0].Revents&unix.POLLIN != 0:
			if err := r.receive(); err != nil {
				return err
			}
		case wait[0].Revents&unix.POLLHUP != 0:
			return nil
		default:
			return fmt.Errorf("poll returned %#x", wait[0].Revents)
		}
	}
}

// receive takes one call, reports it and lets it go on.
func (r *reader) receive() error {
	clear(r.notification) // the kernel demands it
	n := (*notification)(unsafe.Pointer(&r.notification[0]))
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(r.fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	switch errno {
	case 0:
	case unix.EINTR, unix.ENOENT: // the caller was killed meanwhile, or a signal called it off
		return nil
	default:
		return errno
	}
	r.look(n)
	return r.proceed(n.id)
}

// valid says whether the call still waits, so that what was read is the caller's.
func (r *reader) valid(id *uint64) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(r.fd), ioctlIDValid, uintptr(unsafe.Pointer(id)))
	if errno == unix.EINVAL {
		_, _, errno = unix.RawSyscall(unix.SYS_IOCTL, uintptr(r.fd), ioctlOldValid, uintptr(unsafe.Pointer(id)))
	}
	return errno == 0
}

func (r *reader) proceed(id uint64) error {
	answer := (*response)(unsafe.Pointer(&r.response[0]))
	*answer = response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(r.fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(answer)))
		switch errno {
		case unix.EINTR:
		case 0, unix.ENOENT: // the caller was killed meanwhile, or a signal called it off
			return nil
		default:
			return errno
		}
	}
}
