package workspace

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// taken is a socket and its other end.
func taken(t *testing.T) (*socket, *os.File) {
	t.Helper()
	conn, theirs := socketpair(t)
	s, err := take(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		theirs.Close()
	})
	return s.(*socket), theirs
}

// parkedNow waits until n sockets of this process are waited for.
func parkedNow(t *testing.T, n int) {
	t.Helper()
	p, err := theParked()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "all wait", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) == n
	})
}

// threads is how many this process has.
func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestSocketParked: each of many that wait with no thread gets what is its own, again and
// again, and who is not sent anything goes on waiting.
func TestSocketParked(t *testing.T) {
	const many = 100
	before := threads(t)
	var all sync.WaitGroup
	var ends [many]*os.File
	got := make(chan bool, many)
	quiet, _ := taken(t)
	all.Go(func() {
		if n, err := quiet.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("who was sent nothing reads %d, %v", n, err)
		}
	})
	for i := range ends {
		var s *socket
		s, ends[i] = taken(t)
		all.Go(func() {
			for round := range byte(3) {
				var b [8]byte
				if n, err := s.Read(b[:]); err != nil || n != 2 || b[0] != byte(i) || b[1] != round {
					t.Errorf("%d reads %v, %v in round %d", i, b[:n], err, round)
				}
				got <- true
			}
		})
	}
	for round := range byte(3) {
		left := many + 1
		parkedNow(t, left)
		if round == 0 {
			if more := threads(t) - before; more > many/2 {
				t.Errorf("%d more threads for %d that wait", more, left)
			}
		}
		for i := range ends {
			if _, err := ends[i].Write([]byte{byte(i), round}); err != nil {
				t.Error(err)
			}
		}
		for range ends {
			<-got
		}
	}
	parkedNow(t, 1)
	if err := quiet.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
}

// TestSocketEnds: a read ends when either side goes, however it waits; a descriptor is closed
// once, when nobody uses it any more.
func TestSocketEnds(t *testing.T) {
	for name, end := range map[string]func(s *socket, theirs *os.File) error{
		"this side closes":  func(s *socket, _ *os.File) error { return s.Close() },
		"the other does":    func(_ *socket, theirs *os.File) error { return theirs.Close() },
		"the other is done": func(_ *socket, theirs *os.File) error { return unix.Shutdown(int(theirs.Fd()), unix.SHUT_WR) },
	} {
		t.Run(name, func(t *testing.T) {
			for range rounds(50) {
				s, theirs := taken(t)
				fd := s.fd
				read := make(chan error, 1)
				go func() {
					s.expect()
					_, err := s.Read(make([]byte, 1))
					read <- err
				}()
				if err := end(s, theirs); err != nil {
					t.Fatal(err)
				}
				if err := <-read; !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					t.Fatalf("it reads %v", err)
				}
				_ = s.Close()
				if err := s.Close(); !errors.Is(err, net.ErrClosed) {
					t.Fatalf("closed again: %v", err)
				}
				if _, err := s.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
					t.Fatalf("written to when closed: %v", err)
				}
				var st unix.Stat_t
				if err := unix.Fstat(fd, &st); !errors.Is(err, unix.EBADF) {
					t.Fatalf("descriptor %d is not closed: %v", fd, err)
				}
			}
		})
	}
}

// TestSocketWrites: what is longer than a socket holds arrives whole while the other side
// reads, and a write ends when this side is closed meanwhile.
func TestSocketWrites(t *testing.T) {
	s, theirs := taken(t)
	const long = 8 << 20
	got := make(chan int64, 1)
	go func() {
		n, _ := io.CopyN(io.Discard, theirs, long)
		got <- n
	}()
	if n, err := s.Write(make([]byte, long)); n != long || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n := <-got; n != long {
		t.Errorf("%d bytes came of %d", n, long)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := s.Write(make([]byte, long))
		wrote <- err
	}()
	if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err == nil {
		t.Error("a write to nobody succeeds")
	}
}

// noDescriptors is what f does where the process can open nothing more.
func noDescriptors(t *testing.T, f func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}

// TestSocketNone: a connection that cannot be taken over ends, and the other side knows.
func TestSocketNone(t *testing.T) {
	conn, theirs := socketpair(t)
	defer theirs.Close()
	var err error
	noDescriptors(t, func() { _, err = Dial(t.Context(), conn) })
	if reasonOf(err) != "actor_runtime_unavailable" {
		t.Fatal(err)
	}
	if n, err := poll(int(theirs.Fd()), unix.POLLIN, 20*time.Second); n != 1 || err != nil {
		t.Errorf("the other side waits for ever: %v", err)
	}
}

// TestSocketTakenAndClosed: nothing is left of a connection that is closed while it is taken over.
func TestSocketTakenAndClosed(t *testing.T) {
	for range rounds(20_000) {
		conn, theirs := socketpair(t)
		go conn.Close()
		if s, err := take(conn); err == nil {
			_ = s.Close()
		}
		if n, err := poll(int(theirs.Fd()), unix.POLLIN, 20*time.Second); n != 1 {
			t.Fatalf("the other side waits for ever: %v", err)
		}
		theirs.Close()
	}
}

// TestParkingAgain: that no descriptor was left when a socket first waits is over a moment later.
func TestParkingAgain(t *testing.T) {
	var k parking
	var err error
	noDescriptors(t, func() { _, err = k.get() })
	if !errors.Is(err, unix.EMFILE) {
		t.Fatalf("with no descriptor left: %v", err)
	}
	if _, err := k.get(); err != nil {
		t.Errorf("a moment later: %v", err)
	}
}

// TestSocketDrips: who takes a little now and then is given up, too, when all is not taken in time.
func TestSocketDrips(t *testing.T) {
	s, theirs := taken(t)
	s.within = 200 * time.Millisecond
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		some := make([]byte, 256<<10)
		for {
			select {
			case <-tick.C:
				_, _ = theirs.Read(some)
			case <-stop:
				return
			}
		}
	}()
	n, err := s.Write(make([]byte, 24<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if n == 0 {
		t.Error("nothing was taken")
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("who reads does not know")
	}
}

// TestSocketReused: many that are made and end at once, whose descriptors are others' a moment
// later, read what is their own, and all end.
func TestSocketReused(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range byte(rounds(200)) {
				if err := onceOf(t, i); err != nil {
					t.Errorf("round %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	parkedNow(t, 0)
}

// onceOf has a socket read, and ends it in one of four ways.
func onceOf(t *testing.T, i byte) error {
	conn, theirs := socketpair(t)
	defer theirs.Close()
	s, err := take(conn)
	if err != nil {
		return err
	}
	defer s.Close()
	got := make(chan error, 1)
	go func() {
		if i%3 == 0 {
			s.(*socket).expect()
		}
		var b [1]byte
		_, err := s.Read(b[:])
		if err == nil && b[0] != i {
			err = errors.New("what it reads is another's")
		}
		got <- err
	}()
	switch i % 4 {
	case 0:
		if _, err := theirs.Write([]byte{i}); err != nil {
			return err
		}
		return <-got
	case 1:
		_ = s.Close()
	case 2:
		theirs.Close()
	case 3:
		go s.Close()
		go s.Close()
	}
	if err := <-got; !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("it reads %w", err)
	}
	return nil
}
