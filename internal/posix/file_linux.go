package posix

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"bourn"
)

// readTrusted reads a file that only root, or who runs this program, can have written.
func readTrusted(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%w: %s", bourn.ErrNotFound, name)
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%w: %s is a symbolic link", bourn.ErrDenied, name)
	case errors.Is(err, unix.EACCES):
		return nil, bourn.WithHint(fmt.Errorf("%w: %s is root's", bourn.ErrDenied, name), "run this as root")
	case err != nil:
		return nil, fmt.Errorf("cannot open %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != 0 && int(st.Uid) != unix.Geteuid() || st.Mode&0o022 != 0 {
		return nil, denied(name, "is %s of %d with mode %04o; it must be root's, and changeable by nobody else", kindOf(st.Mode), st.Uid, st.Mode&0o7777)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return data, nil
}

// replace writes a file anew within an open directory: complete under another name, then
// renamed. With old it keeps that file's owner, mode and SELinux label, else it has mode.
func replace(dir int, name string, data []byte, old *os.File, mode uint32) error {
	temp := "." + name + "-" + rand.Text()
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), temp)
	_, err = file.Write(data)
	if err == nil && old != nil {
		mode, err = keepOwner(fd, int(old.Fd()))
	}
	if err == nil {
		err = unix.Fchmod(fd, mode) // after chown, which may clear bits
	}
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
		return err
	}
	return unix.Fsync(dir)
}

// keepOwner gives a new file what an old one has, and returns the old one's mode.
func keepOwner(fd, old int) (uint32, error) {
	var st, now unix.Stat_t
	if err := unix.Fstat(old, &st); err != nil {
		return 0, err
	}
	if err := unix.Fstat(fd, &now); err != nil {
		return 0, err
	}
	if st.Uid != now.Uid || st.Gid != now.Gid {
		if err := unix.Fchown(fd, int(st.Uid), int(st.Gid)); err != nil {
			return 0, err
		}
	}
	label := make([]byte, 4096)
	n, err := unix.Fgetxattr(old, "security.selinux", label)
	if err == nil && n > 0 {
		err = unix.Fsetxattr(fd, "security.selinux", label[:n], 0)
	}
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	return st.Mode & 0o7777, err
}

// lockWait is how long lckpwdf(3) waits.
const lockWait = 15 * time.Second

// lockAt takes a lock file as lckpwdf(3) does: a record lock on the whole file. The kernel's
// own descriptor locks exclude those of processes and belong to no thread.
func lockAt(dir int, name string, wait time.Duration) (unlock func(), err error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock %s: %w", name, err)
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for until := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole)
		if err == nil {
			return func() { unix.Close(fd) }, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) || time.Now().After(until) {
			break
		}
	}
	unix.Close(fd)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("cannot lock %s: %w: another program holds it", name, bourn.ErrUnavailable)
	}
	return nil, fmt.Errorf("cannot lock %s: %w", name, err)
}

// update reads a state's file under its lock, and writes what f made of it.
func update(name string, fresh State, f func(*State) error) error {
	if err := unix.Mkdir(path.Dir(name), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("cannot make %s: %w", path.Dir(name), err)
	}
	dir, err := unix.Open(path.Dir(name), openDirectory, 0)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", path.Dir(name), err)
	}
	defer unix.Close(dir)
	// A directory above may be somebody else's, as with a root that is not the machine's.
	if is, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir)); err != nil || is != path.Dir(name) {
		return denied(path.Dir(name), "is reached through a link, and is %s", bourn.Printable(is))
	}
	unlock, err := lockAt(dir, "."+path.Base(name)+".lock", lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := LoadState(name)
	isNew := errors.Is(err, bourn.ErrNotFound)
	if isNew {
		state, err = fresh, nil
	}
	if err != nil {
		return err
	}
	before, err := state.Encode()
	if err != nil {
		return err
	}
	if err := f(&state); err != nil {
		return err
	}
	data, err := state.Encode()
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	if !isNew && string(before) == string(data) {
		return nil
	}
	if err := replace(dir, path.Base(name), data, nil, 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}
