//go:build amd64 || arm64

package notify

import (
	"bytes"
	"errors"
	"hash/maphash"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pathMax = 4096 // PATH_MAX, the final zero included
	linkMax = 64
	// chunk divides every page size, so that a read of an aligned chunk is of one page.
	chunk = 4096
)

// A finding is what came of looking for a path.
type finding uint8

const (
	found  finding = iota
	none           // the kernel cannot find one either: the call fails
	hidden         // there is one that the reader may not see
)

// look reports a call. It must not change anything, nor wait for the caller.
func (r *reader) look(n *notification) {
	if n.nr < 0 || int(n.nr) >= len(r.byNumber) || n.arch != auditArch {
		return
	}
	c := &r.byNumber[n.nr]
	if c.name == "" {
		return
	}
	op, rooted, ok := r.op(c, n)
	if !ok {
		return
	}
	var events [2]Event
	count := 0
	find := func(p place, op Op, rooted, self bool) {
		path, result := r.find(n, p, rooted, self)
		if result != none {
			events[count] = Event{Pid: int(n.pid), Call: c.name, Op: op, Path: path}
			count++
		}
	}
	if c.from.path != 0 {
		fromOp := Read
		if c.fromHow == writes {
			fromOp = Write
		}
		find(c.from, fromOp, false, false)
	}
	find(c.place, op, rooted, c.how == execs && c.arg != 0 && arg(n, c.arg)&unix.AT_EMPTY_PATH != 0)
	if count > 0 && r.valid(&n.id) {
		for _, e := range events[:count] {
			r.each(e)
		}
	}
}

// arg returns an argument, counted from 1, as the kernel takes flags and descriptors.
func arg(n *notification, at uint8) uint32 { return uint32(n.args[at-1]) }

// op returns what a call asks for, and whether its directory is a root to it. It is false
// where the kernel cannot find that out either.
func (r *reader) op(c *call, n *notification) (op Op, rooted, ok bool) {
	switch c.how {
	case reads:
		return Read, false, true
	case writes:
		return Write, false, true
	case execs:
		return Exec, false, true
	case byFlags:
		return opOfFlags(arg(n, c.arg)), false, true
	case byHow:
		var how unix.OpenHow
		raw := unsafe.Slice((*byte)(unsafe.Pointer(&how)), unsafe.Sizeof(how))
		got, err := readMemory(r.proc, n.pid, n.args[c.arg-1], raw)
		if err != nil || got != len(raw) {
			return Read, false, err != nil && !errors.Is(err, unix.EFAULT) // hidden: the path will be too
		}
		return opOfFlags(uint32(how.Flags)), how.Resolve&unix.RESOLVE_IN_ROOT != 0, true
	case byMode:
		switch mode := arg(n, c.arg); {
		case mode&unix.W_OK != 0:
			return Write, false, true
		case mode&unix.X_OK != 0:
			return Exec, false, true
		}
		return Read, false, true
	}
	return Read, false, true
}

func opOfFlags(flags uint32) Op {
	if flags&unix.O_PATH == 0 && flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC) != 0 {
		return Write
	}
	return Read
}

// find returns the path at a place. Where rooted, the directory is the root of it; where
// self, an empty path is the descriptor's own file.
func (r *reader) find(n *notification, p place, rooted, self bool) (string, finding) {
	name, result := r.readPath(n.pid, n.args[p.path-1])
	if result != found {
		return "", result
	}
	if len(name) == 0 && !self {
		return "", none
	}
	var base []byte
	if len(name) == 0 || name[0] != '/' || rooted {
		dir := int32(unix.AT_FDCWD)
		if p.dir != 0 {
			dir = int32(arg(n, p.dir))
		}
		if base, result = r.directory(n.pid, dir); result != found {
			return "", result
		}
	}
	if rooted {
		name = join(make([]byte, 0, len(name)+1), nil, name)[1:]
	}
	return r.text(join(r.whole[:0], base, name)), found
}

// text returns the path as a string that is shared with the last equal one.
func (r *reader) text(path []byte) string {
	slot := &r.seen[maphash.Bytes(r.seed, path)%uint64(len(r.seen))]
	if *slot != string(path) {
		*slot = string(path)
	}
	return *slot
}

// directory returns where a relative path begins.
func (r *reader) directory(pid uint32, fd int32) ([]byte, finding) {
	link := strconv.AppendUint(r.link[:0], uint64(pid), 10)
	if fd == unix.AT_FDCWD {
		link = append(link, "/cwd\x00"...)
	} else if fd < 0 {
		return nil, none
	} else {
		link = append(strconv.AppendInt(append(link, "/fd/"...), int64(fd), 10), 0)
	}
	size, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(r.proc), uintptr(unsafe.Pointer(&link[0])),
		uintptr(unsafe.Pointer(&r.base[0])), uintptr(len(r.base)), 0, 0)
	switch {
	case errno == unix.ENOENT:
		return nil, none
	case errno != 0:
		return nil, hidden
	case size == 0 || r.base[0] != '/': // a socket, a pipe
		return nil, none
	}
	return r.base[:size], found
}

// readPath reads a string as the kernel would.
func (r *reader) readPath(pid uint32, address uint64) ([]byte, finding) {
	if address == 0 {
		return nil, none
	}
	for have := 0; have < len(r.name); {
		from := address + uint64(have)
		size := min(chunk-int(from%chunk), len(r.name)-have)
		got, err := readMemory(r.proc, pid, from, r.name[have:have+size])
		if i := bytes.IndexByte(r.name[have:have+got], 0); i >= 0 {
			return r.name[:have+i], found
		}
		if errors.Is(err, unix.EFAULT) || errors.Is(err, unix.ESRCH) {
			return nil, none
		}
		if err != nil {
			return nil, hidden
		}
		have += got
	}
	return nil, none
}

// readMemory reads from one page of a process: into gets what lies there, or less. An
// address that is not there is EFAULT.
func readMemory(proc int, pid uint32, address uint64, into []byte) (int, error) {
	local := unix.Iovec{Base: &into[0]}
	local.SetLen(len(into))
	remote := unix.RemoteIovec{Base: uintptr(address), Len: len(into)}
	// Not raw: the page may have to come from a disk.
	got, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	switch errno {
	case 0:
		if got == 0 {
			return 0, unix.EFAULT
		}
		return int(got), nil
	case unix.ENOSYS, unix.EPERM: // not built in, or refused by a filter of the reader's own
		return readMemoryFile(proc, pid, address, into)
	default:
		return 0, errno
	}
}

// readMemoryFile does the same through /proc/PID/mem.
func readMemoryFile(proc int, pid uint32, address uint64, into []byte) (int, error) {
	if int64(address) < 0 {
		return 0, unix.EFAULT
	}
	fd, err := unix.Openat(proc, strconv.Itoa(int(pid))+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return 0, unix.ESRCH
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	got, err := unix.Pread(fd, into, int64(address))
	if err == unix.EIO || err == nil && got == 0 {
		return 0, unix.EFAULT
	}
	return max(got, 0), err
}
