package main

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"bourn"
	"bourn/internal/posix"
)

const openPath = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

// A trusted file is one that nobody but root can have written. It is open, so that no other file gets
// its number.
type trusted struct {
	dir, fd int
	data    []byte
}

func (t trusted) close() {
	unix.Close(t.fd)
	unix.Close(t.dir)
}

// readRegistry returns the registry, and its file.
func readRegistry() (posix.Registry, trusted, error) {
	file, err := openTrusted(registryPath, posix.MaxRegistry)
	if err != nil {
		return posix.Registry{}, trusted{}, refuse(posix.RuntimeUnavailable, "cannot use the registry: %v", err)
	}
	r, err := posix.ParseRegistry(file.data)
	if err != nil {
		file.close()
		return posix.Registry{}, trusted{}, refuse(posix.RuntimeUnavailable, "cannot use the registry %s: %v", registryPath, err)
	}
	return r, file, nil
}

// stillSo looks at the registry once more, as the person, and refuses unless it still says what the
// order says. Who takes something from a person writes the registry first and ends what they run
// then. So either this has read what was written, or it is among what is ended: it cannot have been
// stopped before it became the person and go on with what they had.
func stillSo(o order, read trusted) error {
	var was, is unix.Stat_t
	if unix.Fstat(read.fd, &was) == nil && unix.Fstatat(read.dir, path.Base(registryPath), &is, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		was.Dev == is.Dev && was.Ino == is.Ino && was.Size == is.Size && was.Mtim == is.Mtim {
		return nil
	}
	registry, again, err := readRegistry()
	if err != nil {
		return err
	}
	again.close()
	now, err := judge(o.Request, registry, 0)
	if err != nil {
		return err
	}
	if now.uid != o.uid || now.gid != o.gid || now.home != o.home || now.service != o.service || !slices.Equal(now.groups, o.groups) {
		return bourn.WithHint(refuse(posix.RuntimeUnavailable, "what the registry says of %s has changed meanwhile", o.Person), "ask again")
	}
	return nil
}

// readTrusted returns the content of a file that nobody but root can have written, at most limit bytes.
func readTrusted(name string, limit int) ([]byte, error) {
	file, err := openTrusted(name, limit)
	if err == nil {
		file.close()
	}
	return file.data, err
}

func openTrusted(name string, limit int) (trusted, error) {
	dir, err := openDirectory(path.Dir(name), false)
	if err != nil {
		return trusted{}, err
	}
	fd, err := openFile(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		unix.Close(dir)
		return trusted{}, err
	}
	file := trusted{dir: dir, fd: fd}
	if file.data, err = readAll(fd, limit); err != nil {
		file.close()
		return trusted{}, refuseFile(name, "cannot be read: %v", err)
	}
	return file, nil
}

// openDirectory opens a directory from / on, following no link. Each one on the way, / and itself
// included, must be root's and writable by nobody else. With sticky, those above the last may be sticky and writable:
// what root owns in them is exchanged by nobody else (inode(7)), and what is not root's is refused.
func openDirectory(name string, sticky bool) (int, error) {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return -1, refuseFile(name, "is no clean absolute path")
	}
	dir, err := unix.Open("/", openPath|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, refuseFile("/", "cannot be opened: %v", err)
	}
	parts := strings.Split(strings.Trim(name, "/"), "/")
	if name == "/" {
		parts = nil
	}
	at := "/"
	for i := 0; ; i++ {
		if err := checkTrusted(dir, at, unix.S_IFDIR, sticky && i < len(parts)); err != nil {
			unix.Close(dir)
			return -1, err
		}
		if i == len(parts) {
			return dir, nil
		}
		at = path.Join(at, parts[i])
		next, err := unix.Openat(dir, parts[i], openPath|unix.O_DIRECTORY, 0)
		unix.Close(dir)
		if err != nil {
			return -1, refuseFile(at, "cannot be opened: %v", unlinked(err))
		}
		dir = next
	}
}

// openFile opens a file in an open directory.
func openFile(dir int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dir, path.Base(name), flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, refuseFile(name, "cannot be opened: %v", unlinked(err))
	}
	if err := checkTrusted(fd, name, unix.S_IFREG, false); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// unlinked names the usual reason for two errors of opening without following links.
func unlinked(err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return errors.New("it is a symbolic link, or not what it should be")
	}
	return err
}

// checkTrusted refuses what is of another kind, or not root's, or writable by others. Write permission by
// an access list shows in the mode's group bits (acl(5)).
func checkTrusted(fd int, name string, kind uint32, sticky bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return refuseFile(name, "cannot be looked at: %v", err)
	}
	if st.Mode&unix.S_IFMT != kind {
		return refuseFile(name, "is a symbolic link, or not what it should be")
	}
	if st.Uid != 0 || st.Mode&0o022 != 0 && (!sticky || st.Mode&unix.S_ISVTX == 0) {
		return refuseFile(name, "is of %d:%d with mode %04o; it must be root's, and writable by nobody else", st.Uid, st.Gid, st.Mode&0o7777)
	}
	return nil
}

func refuseFile(name, format string, args ...any) error {
	return refuse(posix.RuntimeUnavailable, name+" "+format, args...)
}
