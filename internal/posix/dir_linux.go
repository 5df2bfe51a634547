package posix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bourn"
)

const openDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// lookAt returns what stands at a path. It only reads: what is performed is looked at again, by
// descriptor.
func lookAt(name string) (Dir, bool, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Dir{}, false, nil
	}
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.EIO) {
		return Dir{Kind: "something that cannot be looked at"}, true, nil // a FUSE mount of a person's, say
	}
	if err != nil {
		return Dir{}, false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Dir{}, false, errors.New("it has no owner")
	}
	return Dir{st.Uid, st.Gid, st.Mode & 0o7777, kindOf(st.Mode)}, true, nil
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFREG:
		return "a file"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFIFO:
		return "a fifo"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

// denied is what somebody planted or could exchange.
func denied(at, format string, args ...any) error {
	return bourn.WithHint(fmt.Errorf("%w: %s %s", bourn.ErrDenied, bourn.Printable(at), fmt.Sprintf(format, args...)), "look who put it there, and move it away")
}

// openAt opens a directory below another without following a link, and names what else
// stands there.
func openAt(dir int, name, at string) (int, unix.Stat_t, error) {
	fd, err := unix.Openat(dir, name, openDirectory, 0)
	var st unix.Stat_t
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		kind := "something else"
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			kind = kindOf(st.Mode)
		}
		return -1, st, denied(at, "is not a directory but %s", kind)
	case err != nil:
		return -1, st, fmt.Errorf("cannot open %s: %w", at, err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, fmt.Errorf("cannot look at %s: %w", at, err)
	}
	return fd, st, nil
}

// openParent opens the directory above a path. Nobody but root may be able to exchange what
// is on the way; with movable the last one may be a person's.
func (p *performer) openParent(name string, movable bool) (int, error) {
	dir, err := unix.Dup(p.root)
	if err != nil {
		return -1, err
	}
	parts := strings.Split(strings.Trim(path.Dir(name), "/"), "/")
	at := ""
	for i, part := range parts {
		if part == "" {
			break
		}
		at += "/" + part
		next, st, err := openAt(dir, part, at)
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		others := uint32(0o022)
		if movable && i == len(parts)-1 {
			others = 0o002
		}
		if st.Uid != p.self || st.Mode&others != 0 {
			unix.Close(next)
			return -1, denied(at, "can be changed by others than root (%d:%d %04o), so nothing is made below it", st.Uid, st.Gid, st.Mode&0o7777)
		}
		dir = next
	}
	return dir, nil
}

// directory makes or mends a directory. A new one is closed until its owner is right.
func (p *performer) directory(c Change) error {
	parent, err := p.openParent(c.Path, c.Movable != 0)
	if errors.Is(err, unix.ENOENT) && c.Do == MakeDirectory {
		if err := p.above(c.Path); err != nil {
			return err
		}
		parent, err = p.openParent(c.Path, c.Movable != 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	name := path.Base(c.Path)
	if c.Do == MakeDirectory {
		if err := unix.Mkdirat(parent, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot make %s: %w", c.Path, err)
		}
	}
	fd, st, err := openAt(parent, name, c.Path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if c.Movable != 0 && (st.Uid != 0 && st.Uid != c.Movable || st.Gid != c.GID) {
		return denied(c.Path, "belongs to %d:%d and is not touched", st.Uid, st.Gid)
	}
	// The mode comes last: chown may clear bits of it, and the directory is open to nobody new before.
	if err := unix.Fchown(fd, int(c.UID), int(c.GID)); err != nil {
		return fmt.Errorf("cannot give %s to %d:%d: %w", c.Path, c.UID, c.GID, err)
	}
	if err := unix.Fchmod(fd, c.Mode); err != nil {
		return fmt.Errorf("cannot set the mode of %s: %w", c.Path, err)
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Uid != c.UID || st.Gid != c.GID || st.Mode&0o7777 != c.Mode {
		return fmt.Errorf("cannot keep %s: %w: it is %d:%d %04o", c.Path, bourn.ErrConflict, st.Uid, st.Gid, st.Mode&0o7777)
	}
	return nil
}

// above makes the directory above the workspace where it is missing; nothing higher.
func (p *performer) above(name string) error {
	parent, err := p.openParent(path.Dir(name), false)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	base := path.Base(path.Dir(name))
	if base == "/" {
		return nil
	}
	if err := unix.Mkdirat(parent, base, 0o711); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return fmt.Errorf("cannot make %s: %w", path.Dir(name), err)
	}
	fd, _, err := openAt(parent, base, path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, 0o711) // whatever the umask
}
