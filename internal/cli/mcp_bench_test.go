package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"bourn/internal/run/runtest"
	"bourn/internal/store/storetest"
)

// BenchmarkTools measures calls through the gate beside the bare operation, each call a
// client's own: what a second agent does meanwhile is in agents=50.
func BenchmarkTools(b *testing.B) {
	storetest.Need(b)
	u := runtest.NewUser(b, os.Getuid())
	u.Serves()
	u.Env = append(u.Env, "PATH="+filepath.Dir(runtest.Binary(b))+":"+os.Getenv("PATH"))
	at := u.Write("a.txt", "hello\n")
	for _, line := range [][]string{append([]string{"serve", "-d", "--no-http"}, u.DatabaseUser()...), {"agent", "create", "mur", "--write", ".", "--", "true"}} {
		if r := u.Bourn(line...); r.Status != 0 {
			b.Fatal(r.Err)
		}
	}
	const read, shell = `{"path":"a.txt"}`, `{"command":"true"}`
	b.Run("bare/read", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(at); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare/shell", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("sh", "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, agents := range []int{1, 50} {
		clients := make([]*toolClient, agents)
		for i := range clients {
			clients[i] = toolServer(b, u, "mcp", "serve", "--agent", "mur")
		}
		for _, kind := range []struct{ name, tool, arguments string }{{"read", "files_read", read}, {"shell", "shell_exec", shell}} {
			b.Run(fmt.Sprintf("agents=%d/%s", agents, kind.name), func(b *testing.B) { callsOf(b, clients, kind.tool, kind.arguments) })
		}
		for _, c := range clients {
			c.leaves()
		}
	}
}

// callsOf has each client make b.N calls, one after another, all at once.
func callsOf(b *testing.B, clients []*toolClient, tool, arguments string) {
	took := make([][]time.Duration, len(clients))
	var calling sync.WaitGroup
	b.ResetTimer()
	for i, c := range clients {
		calling.Go(func() {
			for range b.N {
				began := time.Now()
				c.call(tool, arguments)
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	calling.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
}
