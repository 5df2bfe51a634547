package workspace

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
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

// TestSocketParked: each of many that wait with no thread gets what is its own, again and
// again, and who is not sent anything goes on waiting.
func TestSocketParked(t *testing.T) {
	const many = 100
	before := runtime.NumGoroutine()
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
			threads, err := os.ReadDir("/proc/self/task")
			if err != nil || len(threads) > before+many/2 {
				t.Errorf("%d threads for %d that wait, %v", len(threads), left, err)
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
