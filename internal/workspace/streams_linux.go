package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// streams are where a program's output goes, and its input comes from.
type streams struct {
	input   *inlet   // nil: there is nothing to read
	into    *os.File // what the input is written to
	stop    chan struct{}
	feeding sync.WaitGroup

	out, errs output
	ours      []*os.File // the ends that are read, of out and errs
	theirs    []*os.File
	copying   sync.WaitGroup
	ended     atomic.Bool
}

func newStreams(spill string, input *inlet, emit func([]byte, bool)) *streams {
	s := &streams{input: input, stop: make(chan struct{})}
	to := func(errs bool) output {
		o := output{dir: spill, live: input != nil}
		if emit != nil {
			o.emit = func(b []byte) { emit(b, errs) }
		}
		return o
	}
	s.out, s.errs = to(false), to(true)
	return s
}

// connect gives a program its output, and what it reads.
func (s *streams) connect(cmd *exec.Cmd, pty bool, size Size) error {
	if pty {
		master, slave, err := openPty(size, s.input != nil)
		if err != nil {
			return err
		}
		s.ours, s.theirs, s.into = []*os.File{master}, []*os.File{slave}, master
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr.Setctty = true
		return nil
	}
	if s.input != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.into, s.theirs, cmd.Stdin = w, []*os.File{r}, r
	}
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.ours, s.theirs = append(s.ours, r), append(s.theirs, w)
	}
	cmd.Stdout, cmd.Stderr = s.theirs[len(s.theirs)-2], s.theirs[len(s.theirs)-1]
	return nil
}

// feed hands the program what comes for it to read. What it does not read any more is dropped.
func (s *streams) feed(terminal bool) {
	for into := s.into; ; {
		select {
		case <-s.stop:
			return
		case size := <-s.input.sizes:
			s.resize(size, terminal)
		case p := <-s.input.pieces:
			select { // what came before it
			case size := <-s.input.sizes:
				s.resize(size, terminal)
			default:
			}
			if p.end && terminal {
				p.bytes = []byte{endOfFile}
			}
			if into != nil {
				if _, err := into.Write(p.bytes); err != nil || p.end && !terminal {
					if !terminal {
						into.Close()
					}
					into = nil
				}
			}
			s.input.taken()
		}
	}
}

func (s *streams) resize(size Size, terminal bool) {
	if terminal {
		_ = resizeFile(s.into, size) // the command may have gone
	}
}

// copy reads what the program prints until nobody has the other end any more.
func (s *streams) copy() {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
	if s.input != nil {
		s.feeding.Go(func() { s.feed(len(s.ours) == 1) })
	}
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
	close(s.stop)
	if s.input != nil {
		_ = s.into.SetWriteDeadline(time.Now())
		s.feeding.Wait()
	}
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
	if s.into != nil {
		s.into.Close() // which it may be already
	}
}

// endOfFile is what a terminal takes for the end of what is typed.
const endOfFile = 4

// resizeFile is resize of a terminal whose deadlines go on working.
func resizeFile(terminal *os.File, s Size) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	err = raw.Control(func(fd uintptr) { done = resize(int(fd), s) })
	return errors.Join(err, done)
}

func resize(fd int, s Size) error {
	if s == (Size{}) {
		s = Size{Rows: 24, Cols: 80}
	}
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
}

// openPty opens a terminal. Where nobody types, it gives an end of file to who reads from it
// first. The other side comes from the master itself, wherever /dev/pts is mounted.
func openPty(size Size, input bool) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = resize(fd, size)
	}
	if err == nil {
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno == 0 {
			if !input {
				_, err = master.Write([]byte{endOfFile})
			}
			return master, os.NewFile(peer, "terminal"), err
		}
		err = errno
	}
	master.Close()
	return nil, nil, err
}
