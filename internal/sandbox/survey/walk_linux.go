package survey

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A handle is a directory descriptor.
type handle struct{ fd int }

// Set by tests to walk as on a kernel without openat2, or a file system that tells no types.
var withoutOpenat2, withoutTypes atomic.Bool

func openDir(n *node) (handle, error) {
	flags := unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_RDONLY
	if n.byName {
		flags |= unix.O_PATH
	}
	at, name := unix.AT_FDCWD, n.name
	if n.anchor != nil {
		at, name = n.anchor.handle.fd, n.below(n.anchor.node)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := -1, error(unix.ENOSYS)
	if !withoutOpenat2.Load() {
		err = restart(func() (err error) { fd, err = unix.Openat2(at, name, &how); return err })
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENAMETOOLONG) {
		fd, err = openSteps(at, name, flags)
	}
	return handle{fd}, err
}

// openSteps opens name below the descriptor at without following a link, one component at a time.
func openSteps(at int, name string, flags int) (int, error) {
	if strings.HasPrefix(name, "/") {
		top, err := unix.Open("/", pathOnly|unix.O_DIRECTORY, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(top)
		if at, name = top, name[1:]; name == "" {
			name = "."
		}
	}
	held := -1
	for {
		part, rest, more := strings.Cut(name, "/")
		f := pathOnly | unix.O_DIRECTORY
		if !more {
			f = flags
		}
		next := -1
		err := restart(func() (err error) { next, err = unix.Openat(at, part, f, 0); return err })
		if held >= 0 {
			unix.Close(held)
		}
		if err != nil || !more {
			return next, err
		}
		held, at, name = next, next, rest
	}
}

func (h handle) close() { unix.Close(h.fd) }

func (h handle) stat(name, path string) (Object, error) { return statAt(h.fd, name, path) }

// Layout of struct linux_dirent64, getdents64(2).
const (
	direntIno  = 0
	direntSize = 16
	direntType = 18
	direntName = 19
)

func (h handle) each(_ *node, buf *[]byte, f func(entry)) error {
	if *buf == nil {
		*buf = make([]byte, readSize)
	}
	untyped := withoutTypes.Load()
	for {
		n := 0
		err := restart(func() (err error) { n, err = unix.Getdents(h.fd, *buf); return err })
		if errors.Is(err, unix.ENOENT) { // removed since it was opened
			return nil
		}
		if err != nil || n == 0 {
			return err
		}
		for b := (*buf)[:n]; len(b) > direntName; {
			size := int(binary.NativeEndian.Uint16(b[direntSize:]))
			name := b[direntName:size]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			if string(name) != "." && string(name) != ".." {
				e := entry{name: name, kind: typeOf(uint32(b[direntType]) << 12), ino: binary.NativeEndian.Uint64(b[direntIno:])}
				if untyped {
					e.kind = Unknown
				}
				f(e)
			}
			b = b[size:]
		}
	}
}

// swapped reports whether a directory that was listed is none any more.
func swapped(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// File systems whose directory entries carry the inode numbers that stat(2) gives, except at mount points. Not so overlayfs, FUSE, NFS.
var honest = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.TMPFS_MAGIC: true,
}

// device returns the device of the open directory.
func (h handle) device() (uint64, error) {
	var s unix.Stat_t
	err := unix.Fstat(h.fd, &s)
	return uint64(s.Dev), err
}

// honest reports whether entries of the directory carry the numbers that stat would give.
func (h handle) honest() bool {
	var s unix.Statfs_t
	return unix.Fstatfs(h.fd, &s) == nil && honest[int64(s.Type)]
}
