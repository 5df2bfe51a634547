package workspace

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A socket is an end of a connection between an actor and its owner, taken out of Go's poller:
// that wakes a thread when what was sent has been read, too, and one more for each answer,
// which together take as long as a small read. Read is for one at a time, and so is Write.
//
// An actor that does not take what is written within within is given up, and the connection
// ends: what a command has stopped would take nothing ever, or little now and then, while who
// asks has gone and what they sent is kept.
type socket struct {
	fd     int
	within time.Duration // takenWithin
	ready  chan struct{} // gets one when something has come
	known  bool          // to who says so
	actor  bool          // the end of one
	soon   bool          // of an actor: the last request came soon

	mu     sync.Mutex
	users  int // of the descriptor; the last one closes it
	closed bool
}

// forever is as long as there is.
const forever = time.Duration(1<<63 - 1)

// takenWithin is how long an actor may take for what it is sent.
const takenWithin = 30 * time.Second

// take makes a socket of a connection where it is one; the connection is closed then, and so it
// is with an error.
func take(conn io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return conn, nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s := &socket{within: takenWithin, ready: make(chan struct{}, 1)}
	var dup error
	err = raw.Control(func(fd uintptr) { s.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dup); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.Close(); err != nil { // whoever closed it meanwhile had the connection end
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Standard returns an actor's end, which is its standard input and output.
func Standard() io.ReadWriteCloser {
	return actorSocket(0)
}

func actorSocket(fd int) *socket {
	return &socket{fd: fd, within: forever, ready: make(chan struct{}, 1), actor: true}
}

// enter and leave are around each use of the descriptor.
func (s *socket) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.users++
	return nil
}

func (s *socket) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.closed && s.users == 0 {
		unix.Close(s.fd)
	}
}

// Close ends the connection, and what reads or writes.
func (s *socket) Close() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // it has gone already
	return nil
}

// Read implements io.Reader. An owner that has gone is io.EOF.
func (s *socket) Read(p []byte) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if s.actor {
		if err := s.request(); err != nil {
			return 0, err
		}
	}
	for {
		n, _, err := unix.Recvfrom(s.fd, p, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if err := s.park(); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, os.NewSyscallError("recv", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// request waits for something to come to an actor: with its thread, where the last did so soon,
// by poll(2), since one that waits in recv(2) is woken when what was sent has been read, too.
// A thread that waits for longer costs Go's runtime more than it saves.
func (s *socket) request() error {
	if s.soon {
		n, err := poll(s.fd, unix.POLLIN, patience)
		if n > 0 || err != nil {
			return err
		}
	}
	began := time.Now()
	err := s.park()
	s.soon = time.Since(began) < patience
	return err
}

// Write implements io.Writer.
func (s *socket) Write(p []byte) (n int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	var full time.Time // when there was no room first
	for n < len(p) {
		sent, err := unix.SendmsgN(s.fd, p[n:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if full.IsZero() {
				full = time.Now()
			}
			if err := s.taken(full); err != nil {
				_ = s.Close() // what was begun is not gone on with; so that who reads knows
				return n, err
			}
		case err != nil:
			return n, os.NewSyscallError("send", err)
		}
		n += max(sent, 0)
	}
	return n, nil
}

// taken waits until there is room for more, and gives an actor up that has made too little since
// began.
func (s *socket) taken(began time.Time) error {
	for {
		left := s.within - time.Since(began)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		n, err := poll(s.fd, unix.POLLOUT, left)
		if n > 0 || err != nil {
			return err
		}
	}
}

// patience is how long who waits for an answer blocks its thread.
const patience = 3 * time.Millisecond

// patient counts who does that in this process. A processor at least is left to others.
var patient atomic.Int32

// expect waits a moment for something to come: an answer that comes soon is had soonest by
// who has its thread wait in the kernel.
func (s *socket) expect() {
	defer patient.Add(-1)
	if int(patient.Add(1)) >= runtime.GOMAXPROCS(0) || s.enter() != nil {
		return
	}
	defer s.leave()
	_, _ = poll(s.fd, unix.POLLIN, patience) // who reads sees what it is
}

// poll is poll(2) for one descriptor, as long as within. It returns 0 where nothing came, or a signal did.
func poll(fd int, events int16, within time.Duration) (int, error) {
	wait := unix.NsecToTimespec(within.Nanoseconds())
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: events}}, &wait, nil)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, os.NewSyscallError("poll", err)
}

// park waits until something comes, or the other side goes, with no thread.
func (s *socket) park() error {
	p, err := theParked()
	if err != nil {
		return err
	}
	op := unix.EPOLL_CTL_MOD
	if !s.known {
		op, s.known = unix.EPOLL_CTL_ADD, true
	}
	p.mu.Lock()
	p.waiting[int32(s.fd)] = s.ready
	p.mu.Unlock()
	if err := unix.EpollCtl(p.fd, op, s.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(s.fd)}); err != nil {
		p.mu.Lock()
		delete(p.waiting, int32(s.fd))
		p.mu.Unlock()
		return os.NewSyscallError("epoll_ctl", err)
	}
	<-s.ready
	return nil
}

// parked are the sockets that are waited for. A descriptor is in waiting while one reads, so
// that it is not another's meanwhile.
type parked struct {
	fd      int
	mu      sync.Mutex
	waiting map[int32]chan struct{}
}

// parking has one parked, made when the first socket waits. An error is not kept: that no
// descriptor was left is over a moment later.
type parking struct {
	mu   sync.Mutex
	made *parked
}

var theParked = new(parking).get

func (k *parking) get() (*parked, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made != nil {
		return k.made, nil
	}
	var err error
	k.made, err = newParked()
	return k.made, err
}

func newParked() (*parked, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Go's poller waits for it
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "sockets")
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{}) // it is Go's poller's, or waiting for it would not wait
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := &parked{fd: fd, waiting: map[int32]chan struct{}{}}
	go func() {
		for {
			_ = raw.Read(p.wake) // nobody closes it
		}
	}()
	return p, nil
}

// wake wakes who waits for what has come; false where nothing has.
func (p *parked) wake(fd uintptr) bool {
	var events [64]unix.EpollEvent
	n, _ := unix.EpollWait(int(fd), events[:], 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events[:max(n, 0)] {
		if ready := p.waiting[e.Fd]; ready != nil {
			delete(p.waiting, e.Fd)
			select {
			case ready <- struct{}{}:
			default: // it has been told
			}
		}
	}
	return n > 0
}
