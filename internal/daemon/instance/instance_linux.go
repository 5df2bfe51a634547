package instance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

func find(home string) (*Instance, error) {
	lock, err := os.OpenFile(filepath.Join(home, LockName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look for the control plane: %w", err)
	}
	defer lock.Close()
	said, err := io.ReadAll(io.LimitReader(lock, 20))
	if err != nil {
		return nil, fmt.Errorf("cannot look for the control plane: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil || pid <= 0 || pid == os.Getpid() {
		return nil, nil // it is being written, or the number is this process's by now
	}
	// The handle before the look: what is seen then is the process of the handle, unless
	// that has ended.
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look for the control plane: pidfd_open: %w", err)
	}
	i := &Instance{Pid: pid, handle: os.NewFile(uintptr(fd), "pidfd")}
	holds, err := holdsOpen(pid, lock)
	if err != nil || !holds || i.ended(0) {
		i.handle.Close()
		return nil, err
	}
	return i, nil
}

// holdsOpen reports whether a process has the file open. Of another user's it is not told,
// and no control plane of this home is another user's.
func holdsOpen(pid int, file *os.File) (bool, error) {
	want, err := file.Stat()
	if err != nil {
		return false, err
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	for _, fd := range fds {
		if has, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(has, want) {
			return true, nil
		}
	}
	return false, nil
}

func held(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot look for the control plane: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot look for the control plane: %w", err)
	}
	return false, nil
}

func hold(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the home: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, bourn.WithHint(fmt.Errorf("%w: a control plane runs, or another bourn db command", bourn.ErrConflict), "bourn serve --stop ends it")
	}
	if err == nil {
		err = f.Truncate(0) // no pid: who holds it is no control plane
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock the home: %w", err)
	}
	return func() { f.Close() }, nil
}

func (i *Instance) runs(path string) bool {
	has, err := os.Stat(fmt.Sprintf("/proc/%d/exe", i.Pid))
	if err != nil {
		return true // it cannot be told, or the process is ending
	}
	want, err := os.Stat(path)
	return err != nil || os.SameFile(has, want)
}

func (i *Instance) stop(grace time.Duration) (killed bool, err error) {
	if err := i.signal(unix.SIGTERM); err != nil {
		return false, err
	}
	if i.ended(grace) {
		return false, nil
	}
	if err := i.signal(unix.SIGKILL); err != nil {
		return true, err
	}
	if !i.ended(grace) {
		return true, bourn.WithHint(fmt.Errorf("%w: process %d was killed and does not end", bourn.ErrUnavailable, i.Pid),
			"the kernel waits for something on its behalf, a disk perhaps: see dmesg")
	}
	return true, nil
}

func (i *Instance) signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(int(i.handle.Fd()), sig, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot end process %d: %w", i.Pid, err)
	}
	return nil
}

// ended reports whether the process ends within a time: its handle is readable then.
func (i *Instance) ended(within time.Duration) bool {
	end := time.Now().Add(within)
	for {
		fds := []unix.PollFd{{Fd: int32(i.handle.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(0, time.Until(end)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}

func execute(program string, argv, environ []string) error {
	return syscall.Exec(program, argv, environ)
}

func inherited(fd int) *os.File {
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "inherited")
}

func ownerOf(info os.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
