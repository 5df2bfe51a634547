package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn/api"
	"bourn/internal/review"
	"bourn/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		os.Exit(role())
	}
	if len(os.Args) == 2 && os.Args[1] == HelperRole {
		os.Exit(HelperRunner())
	}
	storetest.Main(m)
}

// roleVariable is the environment variable that makes this program something else.
const roleVariable = "BOURN_TEST_DAEMON_ROLE"

// A said is what a daemon logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A plane is a control plane in this process, on databases of the test's own.
type plane struct {
	*control
	t      testing.TB
	db     *storetest.Database
	socket *http.Client
	base   string // of HTTP
	said   *said
	stop   func() error
}

// testHome is a home with a path short enough for sockets.
func testHome(t testing.TB) string {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "bourn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	return home
}

// begin starts a control plane, which ends with the test.
func begin(t testing.TB) *plane {
	t.Helper()
	return beginOn(t, testHome(t), storetest.New(t))
}

// beginOn starts a control plane of a home on databases.
func beginOn(t testing.TB, home string, db *storetest.Database) *plane {
	t.Helper()
	p := &plane{t: t, db: db, said: &said{}}
	ready := make(chan Started, 1)
	config := Config{Home: home, Version: "test", Listen: "localhost:0", Ready: func(s Started) { ready <- s },
		Log: slog.New(slog.NewTextHandler(p.said, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	id, err := loadIdentity(home)
	if err != nil {
		t.Fatal(err)
	}
	if p.control, err = openOn(t.Context(), config, id, &database{login: db.URL}); err != nil {
		t.Fatal(err)
	}
	p.control.signEvery = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case s := <-ready:
		p.base = "http://" + s.HTTP
		p.socket = socketClient(t, s.Socket)
	case err := <-done:
		done <- err
		t.Fatalf("the control plane ended: %v\n%s", err, p.said)
	}
	return p
}

// socketClient returns a client of a local socket.
func socketClient(t testing.TB, path string) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// An asked is an answer, read whole.
type asked struct {
	status int
	header http.Header
	body   string
}

// problem reads an answer as an error.
func (a asked) problem(t testing.TB) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Status != a.status || p.Code == "" {
		t.Errorf("%d with a body that is no problem: %s", a.status, a.body)
	}
	return p
}

// ask asks at the local socket.
func (p *plane) ask(method, path, body string) asked {
	p.t.Helper()
	return ask(p.t, p.socket, method, "http://bourn"+path, body, nil)
}

func ask(t testing.TB, client *http.Client, method, url, body string, change func(*http.Request)) asked {
	t.Helper()
	var sent io.Reader
	if body != "" {
		sent = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, sent)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{resp.StatusCode, resp.Header, string(text)}
}

// get reads an answer into v.
func (p *plane) get(path string, v any) {
	p.t.Helper()
	a := p.ask("GET", path, "")
	if a.status != 200 {
		p.t.Fatalf("%s: %d %s", path, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		p.t.Fatal(err)
	}
}

// admin runs statements behind Bourn's back.
func (p *plane) admin(database string, statements ...string) {
	p.t.Helper()
	p.db.Admin(p.t, database, statements...)
}

// until waits for something to become true, and fails where it does not in time.
func until(t testing.TB, within time.Duration, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// verified asks for a verification.
func (p *plane) verified() api.VerifiedLog {
	p.t.Helper()
	a := p.ask("POST", "/v1/log/verify", "{}")
	var v api.VerifiedLog
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.status != 200 {
		p.t.Fatalf("%d %s", a.status, a.body)
	}
	return v
}

// chained waits until all that is in the log now is chained and signed.
func (p *plane) chained() api.VerifiedLog {
	p.t.Helper()
	var v api.VerifiedLog
	until(p.t, 20*time.Second, "all is chained", func() bool {
		v = p.verified()
		return v.Unchained == 0 && v.Covered == v.Last && v.Last > 0
	})
	return v
}

// published reads what the control plane published for runs.
func (p *plane) published() (review.Boundaries, int64, error) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.config.Home, review.SnapshotName))
	if err != nil {
		p.t.Fatal(err)
	}
	return review.Published(p.public, text, review.Base{Root: "/"})
}
