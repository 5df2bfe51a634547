package main

import (
	"bytes"
	"errors"
	"io"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

const (
	lockWait  = 2 * time.Second
	lockPause = 20 * time.Millisecond
	// newRegistry is where the registry is written before it takes its name. Under the lock it is only
	// this process's; one that was left is of a helper that was ended.
	newRegistry = ".people.json-revoke"
)

// prepareRevoke narrows the registry as root. What is left to do, as the person, is ending what they run:
// a process keeps its groups for life.
func prepareRevoke(o order) (func() error, error) {
	// Before the registry's: whoever waits for others to end processes holds up no sync.
	if err := takeTurn(); err != nil {
		return nil, err
	}
	dir, err := openDirectory(path.Dir(registryPath), false)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Read again: what was judged by may be older than the lock.
	registry, read, err := readRegistry()
	if err != nil {
		return nil, err
	}
	read.close()
	narrower, err := registry.Revoke(posix.Revocation{Person: o.Person, Circle: o.Circle})
	if err != nil {
		return nil, err
	}
	now, err := judge(o.Request, narrower, 0)
	if err != nil {
		return nil, err
	}
	if now.uid != o.uid || now.shield != o.shield {
		return nil, refuse(posix.RuntimeUnavailable, "the registry changed meanwhile")
	}
	after, err := narrower.Encode()
	if err != nil {
		return nil, refuse(posix.RuntimeUnavailable, "cannot write the registry: %v", err)
	}
	if !bytes.Equal(read.data, after) {
		if err := replaceRegistry(dir, after); err != nil {
			return nil, refuse(posix.RuntimeUnavailable, "cannot write the registry: %v", err)
		}
	}
	return func() error { return killAll(o) }, nil
}

// lock takes the registry's lock as internal/posix does: a record lock on a file of its own, held for
// as long as the registry is read and written anew.
func lock(dir int) (unlock func(), err error) {
	fd, err := unix.Openat(dir, posix.RegistryLock, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, refuse(posix.RuntimeUnavailable, "cannot open the lock of the registry: %v", err)
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for until := time.Now().Add(lockWait); ; time.Sleep(lockPause) {
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole)
		if err == nil {
			return func() { unix.Close(fd) }, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) || time.Now().After(until) {
			unix.Close(fd)
			return nil, refuse(posix.RuntimeUnavailable, "cannot lock the registry: %v", err)
		}
	}
}

// replaceRegistry writes the registry's file anew, whole or not at all, with the owner and mode it has.
func replaceRegistry(dir int, data []byte) error {
	old, err := openFile(dir, registryPath, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(old)
	var st unix.Stat_t
	if err := unix.Fstat(old, &st); err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, newRegistry, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(dir, newRegistry, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = fill(fd, data, st)
	if err == nil {
		err = unix.Renameat(dir, newRegistry, dir, path.Base(registryPath))
	}
	if err != nil {
		_ = unix.Unlinkat(dir, newRegistry, 0)
		return err
	}
	return syncDirectory(dir)
}

// fill gives a new file its content, and the owner and mode of st.
func fill(fd int, data []byte, st unix.Stat_t) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		data = data[max(n, 0):]
	}
	if err := unix.Fchown(fd, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	// After chown, which may clear bits.
	if err := unix.Fchmod(fd, st.Mode&0o7777); err != nil {
		return err
	}
	return unix.Fsync(fd)
}

// syncDirectory makes a rename last. The directory is open as a path only, which cannot be synced.
func syncDirectory(dir int) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}
