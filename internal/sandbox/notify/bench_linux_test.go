//go:build amd64 || arm64

package notify

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opener opens and closes os.Args[1] os.Args[2] times in each of os.Args[3] threads, and
// prints the nanoseconds.
func opener() {
	n, _ := strconv.Atoi(os.Args[2])
	threads, _ := strconv.Atoi(os.Args[3])
	start := time.Now()
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for range n {
				fd, err := unix.Open(os.Args[1], unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				unix.Close(fd)
			}
		})
	}
	all.Wait()
	fmt.Println(time.Since(start).Nanoseconds())
}

// BenchmarkOpen is about a program that another process's threads watch, as pid 1 of a run
// does. ns/op is of one open and close,
// in each thread.
func BenchmarkOpen(b *testing.B) {
	needNotify(b)
	for _, bench := range []struct {
		name, path string
		plain      bool
		threads    int
	}{
		{"plain", "/etc/passwd", true, 1},
		{"watched", "/etc/passwd", false, 1},
		{"plain relative", "passwd", true, 1},
		{"watched relative", "passwd", false, 1},
		{"plain in two threads", "/etc/passwd", true, 2},
		{"watched in two threads", "/etc/passwd", false, 2},
	} {
		b.Run(bench.name, func(b *testing.B) {
			req := request{Do: "run", Plain: bench.plain, Forget: true, Dir: "/etc", Name: openerName, Argv: []string{"/proc/self/exe", bench.path, strconv.Itoa(b.N), strconv.Itoa(bench.threads)}}
			ans := watched(b, os.Getuid(), req)
			ns, err := strconv.Atoi(strings.TrimSpace(ans.Out))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(ns)/float64(b.N), "ns/op")
		})
	}
}
