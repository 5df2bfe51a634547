package posix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"bourn"
)

// maxDepth bounds a walk: each level holds a descriptor, and people choose how deep it goes.
const maxDepth = 200

// statMask asks for the mount as well: device numbers do not tell bind mounts apart.
const statMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID

// A walk goes through a tree by descriptor. It follows no link and crosses no mount.
type walk struct {
	mount uint64
	// visit is called for everything but the top, a directory before what is in it. fd is a
	// directory's own descriptor, else -1.
	visit func(parent int, name, at string, st unix.Statx_t, fd int) error
	left  []Left
}

func (w *walk) leave(at, why string) { w.left = append(w.left, Left{at, why}) }

func statAt(dir int, name string, flags int) (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statMask, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = fmt.Errorf("%w: this kernel does not number mounts (Linux 5.8)", bourn.ErrWeakHost)
	}
	return st, err
}

// top begins a walk at a directory.
func (w *walk) top(fd int, at string) error {
	st, err := statAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	w.mount = st.Mnt_id
	return w.down(fd, at, 0)
}

func (w *walk) down(fd int, at string, depth int) error {
	if depth == maxDepth {
		w.leave(at, "is too deep")
		return nil
	}
	dup, err := unix.Openat(fd, ".", openDirectory, 0)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(dup), at)
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := w.entry(fd, name, path.Join(at, name), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || gone(err) { // ENOENT: it was removed meanwhile (getdents(2))
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", bourn.Printable(at), err)
		}
	}
}

func (w *walk) entry(dir int, name, at string, depth int) error {
	st, err := statAt(dir, name, 0)
	if err != nil {
		return w.skip(at, err)
	}
	if st.Mnt_id != w.mount {
		w.leave(at, "is another mount")
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return w.visit(dir, name, at, st, -1)
	}
	fd, err := unix.Openat(dir, name, openDirectory, 0)
	if err != nil {
		return w.skip(at, err)
	}
	defer unix.Close(fd)
	if st, err = statAt(fd, "", unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	if st.Mnt_id != w.mount {
		w.leave(at, "is another mount")
		return nil
	}
	if err := w.visit(dir, name, at, st, fd); err != nil {
		return err
	}
	return w.down(fd, at, depth+1)
}

// skip goes on behind what cannot be looked at, as with a person's own FUSE mount, which even
// root may not enter: nobody may keep a plan from being made. It is named.
func (w *walk) skip(at string, err error) error {
	if errors.Is(err, bourn.ErrWeakHost) {
		return err
	}
	if !gone(err) {
		w.leave(at, fmt.Sprintf("cannot be looked at: %v", err))
	}
	return nil
}

// gone reports whether somebody exchanged or removed what was just there.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
}

// elsewhere reports whether a file has another name and is not the circle's: then it is not
// the circle's to take. One that is, is taken under all of its names.
func elsewhere(st unix.Statx_t, circle uint32) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 && st.Gid != circle
}

// owners returns the numbers within r that own what re-owning would take, sorted.
func owners(root, at string, circle uint32, r Range) ([]uint32, error) {
	fd, err := unix.Open(root+at, openDirectory, 0)
	if errors.Is(err, unix.EACCES) {
		return nil, bourn.WithHint(fmt.Errorf("%w: only root can", bourn.ErrDenied), "run this as root")
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	seen := map[uint32]bool{}
	w := walk{visit: func(_ int, _, _ string, st unix.Statx_t, _ int) error {
		if r.contains(st.Uid) && !elsewhere(st, circle) && !device(st) {
			seen[st.Uid] = true
		}
		return nil
	}}
	if err := w.top(fd, at); err != nil {
		return nil, err
	}
	list := []uint32{}
	for uid := range seen {
		list = append(list, uid)
	}
	slices.Sort(list)
	return list, nil
}

func device(st unix.Statx_t) bool {
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFCHR || kind == unix.S_IFBLK
}

// reown takes what a leaver owns in a circle. It becomes root's, like the directory: nobody
// else in the circle could widen it otherwise. It only narrows: others lose their bits, access
// lists go, set-user-id goes before root is the owner; the group of what was the leaver's
// own becomes the circle's.
func (p *performer) reown(c Change) ([]Left, error) {
	parent, err := p.openParent(c.Path, false)
	if err != nil {
		return nil, err
	}
	defer unix.Close(parent)
	top, _, err := openAt(parent, path.Base(c.Path), c.Path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	w := walk{}
	w.visit = func(dir int, name, at string, st unix.Statx_t, fd int) error {
		if st.Uid != c.UID {
			return nil
		}
		if fd < 0 {
			return w.take(c, dir, name, at, st)
		}
		return takeOpen(c, fd, at, st)
	}
	err = w.top(top, c.Path)
	return w.left, err
}

// take re-owns what is no directory. The name may have been exchanged since st was read: what
// counts is what the descriptor is.
func (w *walk) take(c Change, dir int, name, at string, st unix.Statx_t) error {
	how := unix.O_PATH
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	}
	fd, err := unix.Openat(dir, name, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if gone(err) || errors.Is(err, unix.ENXIO) {
		return nil
	}
	if err != nil {
		w.leave(at, fmt.Sprintf("cannot be opened: %v", err))
		return nil
	}
	defer unix.Close(fd)
	now, err := statAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	switch {
	case now.Uid != c.UID || now.Mode&unix.S_IFMT != st.Mode&unix.S_IFMT:
		return nil
	case now.Mnt_id != w.mount:
		w.leave(at, "is another mount")
	case device(now):
		w.leave(at, "is a device")
	case elsewhere(now, c.GID):
		w.leave(at, fmt.Sprintf("has %d names and is not the circle's group's", now.Nlink))
	case how == unix.O_PATH:
		if err := unix.Fchownat(fd, "", 0, -1, unix.AT_EMPTY_PATH); err != nil {
			return fmt.Errorf("cannot re-own %s: %w", bourn.Printable(at), err)
		}
	default:
		return takeOpen(c, fd, at, now)
	}
	return nil
}

// takeOpen re-owns an open file or directory.
func takeOpen(c Change, fd int, at string, st unix.Statx_t) error {
	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	kept := uint32(0o770)
	if directory {
		kept = 0o3770
	}
	mode, err := withoutList(fd, uint32(st.Mode)&kept)
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	gid := -1
	if st.Gid == c.UID { // the leaver's own group
		gid = int(c.GID)
	}
	// The kernel clears set-user-id of a file that changes hands (chown(2)), whatever a
	// process of the leaver's set meanwhile; from here on only root can.
	if err == nil {
		err = unix.Fchown(fd, 0, gid)
	}
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err == nil {
		st, err = statAt(fd, "", unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("cannot re-own %s: %w", bourn.Printable(at), err)
	}
	if st.Uid != 0 || uint32(st.Mode)&0o7777 != mode {
		return fmt.Errorf("cannot re-own %s: %w: it is %d's with %04o", bourn.Printable(at), bourn.ErrConflict, st.Uid, st.Mode&0o7777)
	}
	return nil
}

// withoutList removes access lists, which could name the leaver, and returns the mode
// without what only they gave. With a list the group's bits of a mode are its mask (acl(5)).
func withoutList(fd int, mode uint32) (uint32, error) {
	var list []byte
	n, err := unix.Fgetxattr(fd, "system.posix_acl_access", nil)
	if err == nil {
		list = make([]byte, n)
		n, err = unix.Fgetxattr(fd, "system.posix_acl_access", list)
	}
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
	case err != nil:
		return 0, err
	default:
		mode = mode&^0o070 | mode&(groupOf(list[:n])<<3)
		if err := unix.Fremovexattr(fd, "system.posix_acl_access"); err != nil {
			return 0, err
		}
	}
	err = unix.Fremovexattr(fd, "system.posix_acl_default")
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES) { // EACCES: no directory
		err = nil
	}
	return mode, err
}

// groupOf returns what an access list gives to the owning group: after four bytes of version,
// entries of a tag, permissions (16 bits each) and an id (linux/posix_acl_xattr.h).
func groupOf(list []byte) uint32 {
	const ownGroup = 0x04
	for at := 4; at+8 <= len(list); at += 8 {
		if binary.LittleEndian.Uint16(list[at:]) == ownGroup {
			return uint32(binary.LittleEndian.Uint16(list[at+2:])) & 7
		}
	}
	return 0
}
