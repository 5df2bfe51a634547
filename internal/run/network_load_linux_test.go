package run_test

import (
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/internal/run/nettest"
	"bourn/internal/run/runtest"
)

// gigabyte is what goes each way.
const gigabyte = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// source says a gigabyte, of which every block differs, and ends.
func source(c net.Conn) {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 5 >> 2)
	}
	for i := range gigabyte / len(block) {
		copy(block, strconv.Itoa(i)+" ")
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

// sink reads to the end and says how much it was.
func sink(c net.Conn) {
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{c}, make([]byte, 1<<20))
	if err == nil {
		fmt.Fprintf(c, "%d %08x ", n, sum.Sum32())
	}
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// transferred runs the netprobe's transfer sealed.
func transferred(t *testing.T, u *runtest.User, host string, args ...string) string {
	t.Helper()
	r := u.Bourn(append([]string{"run", "-q", "--read", netprobe(t), "--host", host, "--", netprobe(t)}, args...)...)
	if r.Status != 0 {
		t.Fatalf("%q: status %d, out %q, err %q", args, r.Status, r.Out, r.Err)
	}
	return strings.TrimSpace(r.Out)
}

// TestNetworkLoad moves a gigabyte each way, and makes 200 connections at once.
func TestNetworkLoad(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		w.Serve(source, "9001")
		w.Serve(sink, "9002")
		w.Serve(echo, "9003")
		said := &summed{}
		source(said)
		want := fmt.Sprintf("%d %08x", gigabyte, said.sum)
		u := runtest.NewUser(t, ordinary())
		for _, via := range []string{"direct", "connect"} {
			t.Run(via, func(t *testing.T) {
				if got := transferred(t, u, "good.example:9001", "down", via, "good.example", "9001"); got != want {
					t.Errorf("down: %q, want %q", got, want)
				}
				got := strings.Fields(transferred(t, u, "good.example:9002", "up", via, "good.example", "9002", strconv.Itoa(gigabyte)))
				if len(got) != 3 || got[0] != strconv.Itoa(gigabyte) || got[1] != got[2] {
					t.Errorf("up: %q", got)
				}
				if got := transferred(t, u, "good.example:9003", "many", via, "good.example", "9003", "200"); got != "all 200" {
					t.Errorf("200 connections at once: %q", got)
				}
				eventually(t, "every connection has ended", func() bool { return w.Open() == 0 })
			})
		}
	})
}

// ordinary is the uid of a user who is not root, and can be acted as.
func ordinary() int {
	if uid := syscall.Getuid(); uid != 0 {
		return uid
	}
	return runtest.OrdinaryUID
}

// summed is a connection that only sums up what is said.
type summed struct {
	net.Conn
	sum uint32
}

func (s *summed) Write(p []byte) (int, error) {
	s.sum = crc32.Update(s.sum, castagnoli, p)
	return len(p), nil
}

// TestNetworkHostilePeers has servers that never answer, that dribble and that talk without
// end, a name that nobody answers for, and clients that say nothing: others are served meanwhile, and the run ends at once.
func TestNetworkHostilePeers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		w.ServeWeb("80", "443")
		w.Serve(nettest.Hold, "9001")
		w.Serve(dribble, "9002")
		w.Serve(babble, "9003")
		w.Serve(echo, "9004")
		runtest.Users(t, func(t *testing.T, u *runtest.User) {
			args := append([]string{"run", "--read", netprobe(t), "--write", "."}, hosts("silent.example:9001", "hostile.example:9001", "hostile.example:9002", "hostile.example:9003", "good.example", "good.example:9004")...)
			l := startBourn(t, u, append(args, "--", "bash", "-c", `
for port in 9001 9002 9003; do "$1" hold connect hostile.example $port 40 & "$1" hold direct hostile.example $port 40 & done
for i in $(seq 100); do exec {fd}<> /dev/tcp/198.18.0.1/61080; printf 'CONNECT silent.example:9001 HTTP/1.1\r\n\r\n' >&$fd; done
for i in $(seq 40); do exec {fd}<> /dev/tcp/198.18.0.1/61080; done
for i in $(seq 40); do exec {fd}<> /dev/tcp/198.18.0.1/53; printf '\xff' >&$fd; done
for i in $(seq 40); do exec {fd}<> /dev/tcp/198.18.0.1/61080; printf 'GET http://good.example/ HTTP/1.1\r\nX: ' >&$fd; done
for i in $(seq 40); do exec {fd}<> /dev/tcp/198.18.0.1/61080; printf '\x05\x01' >&$fd; done
for i in $(seq 40); do exec {fd}<> /dev/tcp/good.example/443; printf '\x16\x03\x01\x02' >&$fd; done
echo open; read -r line
"$1" many connect good.example 9004 50; "$1" many direct good.example 9004 50; echo served
read -r line; exit 7`, "bash", netprobe(t))...)
			for range 7 { // one that it is open, six that they hold, in any order
				l.wait("")
			}
			began := time.Now()
			fmt.Fprintln(l.in)
			l.wait("served")
			fmt.Fprintln(l.in)
			if ws := l.end(); ws.ExitStatus() != 7 {
				t.Errorf("status %d, err %s", ws.ExitStatus(), l.err.String())
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("it took %v", took)
			}
			eventually(t, "every connection has ended", func() bool { return w.Open() == 0 })
		})
	})
}

// dribble says a byte now and then.
func dribble(c net.Conn) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

// babble talks as long as anyone takes it.
func babble(c net.Conn) {
	block := make([]byte, 1<<16)
	for {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

// TestNetworkDeath kills bourn: the command ends, and every connection with it.
func TestNetworkDeath(t *testing.T) {
	inWorld(t, func(t *testing.T, w *nettest.World) {
		w.Serve(nettest.Hold, "9001")
		w.Serve(babble, "9003")
		runtest.Users(t, func(t *testing.T, u *runtest.User) {
			for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
				t.Run(end.String(), func(t *testing.T) {
					l := startBourn(t, u, append(append([]string{"run", "-q", "--read", netprobe(t)}, hosts("good.example:9001", "good.example:9003", "localhost:9001")...), "--", "sh", "-c", `
"$1" hold connect good.example 9001 10 & "$1" hold direct good.example 9001 10 & "$1" hold direct localhost 9001 10 & "$1" hold connect good.example 9003 10 & wait`, "sh", netprobe(t))...)
					for range 4 {
						l.wait("holding")
					}
					eventually(t, "forty connections are open", func() bool { return w.Open() == 40 })
					inside := descendants(l.cmd.Process.Pid)
					if len(inside) < 6 {
						t.Errorf("the run is %v", inside)
					}
					must(t, l.cmd.Process.Signal(end))
					eventually(t, "every connection has ended", func() bool { return w.Open() == 0 })
					for _, pid := range inside {
						eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !alive(pid) })
					}
					l.end()
				})
			}
		})
	})
}

// program skips the test unless a program is there, and returns its path.
func program(t *testing.T, name string) string {
	t.Helper()
	at, err := exec.LookPath(name)
	runtest.Need(t, name, err == nil)
	return at
}
