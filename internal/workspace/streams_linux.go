package workspace

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// streams are where a program's output goes.
type streams struct {
	out, errs output
	ours      []*os.File // the ends that are read, of out and errs
	theirs    []*os.File
	copying   sync.WaitGroup
	ended     atomic.Bool
}

// connect gives a program its output, and nothing to read.
func (s *streams) connect(cmd *exec.Cmd, pty bool) error {
	if pty {
		master, slave, err := openPty()
		if err != nil {
			return err
		}
		s.ours, s.theirs = []*os.File{master}, []*os.File{slave}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr.Setctty = true
		return nil
	}
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.ours, s.theirs = append(s.ours, r), append(s.theirs, w)
	}
	cmd.Stdout, cmd.Stderr = s.theirs[0], s.theirs[1]
	return nil
}

// copy reads what the program prints until nobody has the other end any more.
func (s *streams) copy() {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
	for i, to := range []*output{&s.out, &s.errs}[:len(s.ours)] {
		from := s.ours[i]
		s.copying.Go(func() {
			buffer := make([]byte, 32<<10)
			for {
				if s.ended.Load() {
					_ = from.SetReadDeadline(time.Now().Add(endWithin))
				}
				n, err := from.Read(buffer)
				if n > 0 {
					_, _ = to.Write(buffer[:n])
				}
				if err != nil { // of a terminal that all have left: EIO
					return
				}
			}
		})
	}
}

// finish waits until everything that was printed is read, the program having ended. What
// could not be ended with it may keep the other end open: it is not waited for.
func (s *streams) finish(ctx context.Context) {
	s.ended.Store(true)
	within := time.Now().Add(endWithin)
	if ctx.Err() != nil {
		within = time.Now()
	}
	for _, f := range s.ours {
		_ = f.SetReadDeadline(within)
	}
	s.copying.Wait()
	s.close()
}

func (s *streams) close() {
	for _, f := range append(s.ours, s.theirs...) {
		f.Close()
	}
}

// openPty opens a terminal that gives an end of file to who reads from it first: nobody
// types. The other side comes from the master itself, wherever /dev/pts is mounted.
func openPty() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err == nil {
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno == 0 {
			const endOfFile = 4
			_, err = master.Write([]byte{endOfFile})
			return master, os.NewFile(peer, "terminal"), err
		}
		err = errno
	}
	master.Close()
	return nil, nil, err
}
