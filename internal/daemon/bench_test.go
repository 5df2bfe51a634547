package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"bourn/internal/audit"
	"bourn/internal/store"
	"bourn/internal/store/storetest"
)

// ownCluster starts the private cluster of a home as the control plane does, with all that
// keeps what was committed.
func ownCluster(b *testing.B, home string) (*database, time.Duration) {
	b.Helper()
	if err := os.Chmod(home, 0o711); err != nil { // the database's user passes through
		b.Fatal(err)
	}
	began := time.Now()
	db, err := openDatabase(b.Context(), Config{Home: home, DatabaseUser: "nobody"})
	if err != nil {
		b.Fatal(err)
	}
	return db, time.Since(began)
}

// BenchmarkClusterStart is from nothing to databases that are ready, and from a cluster that
// was stopped.
func BenchmarkClusterStart(b *testing.B) {
	storetest.Need(b)
	var cold, warm time.Duration
	for b.Loop() {
		home := testHome(b)
		for _, took := range []*time.Duration{&cold, &warm} {
			db, t := ownCluster(b, home)
			*took += t
			if err := db.stop(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(cold.Seconds()*1e3/float64(b.N), "cold-ms")
	b.ReportMetric(warm.Seconds()*1e3/float64(b.N), "warm-ms")
}

// BenchmarkLog commits 10,000 entries, asked for by 64 at once, each on disk when it is
// answered, while the chainer works: rows a second, and how long the last waited for its link.
func BenchmarkLog(b *testing.B) {
	storetest.Need(b)
	const rows, writers = 10_000, 64
	home := testHome(b)
	db, _ := ownCluster(b, home)
	defer db.stop(context.WithoutCancel(b.Context())) //nolint:errcheck // the process ends it otherwise
	s, err := store.Open(b.Context(), db.login)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	id, err := loadIdentity(home)
	if err != nil {
		b.Fatal(err)
	}
	w := newLogWriter(s, time.Now)
	chainer, err := s.Chainer(b.Context(), id.key, audit.Signed{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var chaining sync.WaitGroup
	var mu sync.Mutex
	var covered int64
	chaining.Go(func() {
		if err := chainer.Run(ctx, signEvery, func(s audit.Signed) {
			if st, err := s.Open(id.public); err == nil {
				mu.Lock()
				covered = st.Position
				mu.Unlock()
			}
		}); err != nil {
			b.Error(err)
		}
	})
	var committing, chained time.Duration
	for n := int64(1); b.Loop(); n++ {
		began := time.Now()
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for i := range rows / writers {
					e := audit.Entry{Kind: audit.KindAction, Who: "agent:bench", What: "files_write", Target: fmt.Sprint(i), Outcome: audit.Allowed}
					if err := w.Append(ctx, e); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		committing += time.Since(began)
		last := time.Now()
		until(b, time.Minute, "all is chained", func() bool { mu.Lock(); defer mu.Unlock(); return covered >= n*(rows/writers)*writers })
		chained += time.Since(last)
	}
	cancel()
	chaining.Wait()
	w.Close()
	b.ReportMetric(float64(b.N*(rows/writers)*writers)/committing.Seconds(), "rows/s")
	b.ReportMetric(chained.Seconds()*1e3/float64(b.N), "chained-after-ms")
}

// BenchmarkAPI asks at the local socket, beside a bare handler of net/http that answers as
// much: one after the other (p50), and by eight at once.
func BenchmarkAPI(b *testing.B) {
	p := begin(b)
	body := p.ask("GET", "/v1/boundaries", "").body
	at := filepath.Join(testHome(b), "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		b.Fatal(err)
	}
	bare := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}), ReadHeaderTimeout: time.Minute}
	go bare.Serve(l) //nolint:errcheck // Close ends it
	defer bare.Close()
	get := func(c *http.Client) time.Duration {
		began := time.Now()
		resp, err := c.Get("http://x/v1/boundaries")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.Status, err)
		}
		resp.Body.Close()
		return time.Since(began)
	}
	ours, theirs := p.socket, socketClient(b, at)
	for _, c := range []*http.Client{ours, theirs} {
		c.Transport.(*http.Transport).MaxIdleConnsPerHost = 16
	}
	var one, other []time.Duration
	rate := map[*http.Client]float64{}
	for b.Loop() {
		for range 2000 {
			one, other = append(one, get(ours)), append(other, get(theirs))
		}
		for _, c := range []*http.Client{ours, theirs} {
			began := time.Now()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 1000 {
						get(c)
					}
				})
			}
			wg.Wait()
			rate[c] = 8000 / time.Since(began).Seconds()
		}
	}
	slices.Sort(one)
	slices.Sort(other)
	b.ReportMetric(float64(one[len(one)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(other[len(other)/2].Nanoseconds())/1e3, "bare-p50-µs")
	b.ReportMetric(rate[ours], "req/s")
	b.ReportMetric(rate[theirs], "bare-req/s")
}
