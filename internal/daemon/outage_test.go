package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/store/storetest"
)

// A child is a control plane with a cluster of its own, in a process of its own.
type child struct {
	t      *testing.T
	home   string
	cmd    *exec.Cmd
	stderr *said
	ended  chan error
	api    *api.Client
	socket *http.Client
}

// startChild starts a control plane of a home and waits until it answers.
func startChild(t *testing.T, home string, env ...string) *child {
	t.Helper()
	storetest.Need(t)
	if err := os.Chmod(home, 0o711); err != nil { // the database's user passes through
		t.Fatal(err)
	}
	c := &child{t: t, home: home, stderr: &said{}, ended: make(chan error, 1)}
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = append(os.Environ(), append(env, roleVariable+"=daemon", saidVariable+"="+home)...)
	c.cmd.Stderr = c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	go func() { c.ended <- c.cmd.Wait() }()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		c.wait()
	})
	if !strings.HasPrefix(line, "ready") {
		t.Fatalf("it did not start: %q %s", line, c.stderr)
	}
	socket := filepath.Join(home, SocketName)
	c.api, c.socket = api.NewSocketClient(socket), socketClient(t, socket)
	return c
}

// wait waits until the process has ended.
func (c *child) wait() error {
	err := <-c.ended
	c.ended <- err
	return err
}

// postgres is the pid of the server, as its own file says.
func (c *child) postgres() int {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.home, "postgres", "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// When PostgreSQL is killed under load, requests are refused with a hint, the control plane
// starts it again and works on by itself, and nothing is half done.
func TestDatabaseKilled(t *testing.T) {
	t.Parallel()
	c := startChild(t, testHome(t))
	pid := c.postgres()
	if pid == 0 {
		t.Fatal("no server")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	var made int64
	for i := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				method, path, body := "POST", "/v1/diagnostics-tokens", fmt.Sprintf(`{"name":"%d-%d"}`, i, n)
				if i%3 == 0 {
					method, path, body = "GET", "/v1/log?most=5&newest=true", ""
				}
				a := ask(t, c.socket, method, "http://x"+path, body, nil)
				mu.Lock()
				statuses[a.status]++
				if a.status == 200 && method == "POST" {
					made++
				}
				mu.Unlock()
				if a.status != 200 {
					if p := a.problem(t); a.status != 503 || p.Hint == "" || p.Code != "unavailable" {
						t.Errorf("%d %s", a.status, a.body)
					}
				}
			}
		})
	}
	until(t, 20*time.Second, "it is busy", func() bool { mu.Lock(); defer mu.Unlock(); return statuses[200] > 30 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "requests are refused", func() bool { mu.Lock(); defer mu.Unlock(); return statuses[503] > 0 })
	until(t, 60*time.Second, "it is well again", func() bool {
		h, err := c.api.Health(t.Context())
		if err != nil {
			t.Fatalf("health itself is not answered: %v", err)
		}
		// The old server's processes answer for a moment after it was killed.
		now := c.postgres()
		_, err = c.api.Boundaries(t.Context()) // who is a member is read again
		return h.Status == "ok" && now != 0 && now != pid && err == nil
	})
	close(stop)
	wg.Wait()
	t.Logf("answers: %v", statuses)
	// What was answered as made is there, and what is there is in the log.
	tokens, err := c.api.DiagnosticsTokens(t.Context())
	if err != nil || int64(len(tokens.Tokens)) < made {
		t.Errorf("%d tokens of %d that were made, %v", len(tokens.Tokens), made, err)
	}
	until(t, 20*time.Second, "the log is chained again and verifies", func() bool {
		v, err := c.api.VerifyLog(t.Context(), api.VerifyLog{})
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Problems) > 0 {
			t.Fatalf("%+v", v.Problems)
		}
		return v.Unchained == 0
	})
	log, err := c.api.Log(t.Context(), map[string][]string{"kind": {"change"}, "most": {"10000"}})
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, l := range log.Lines {
		if bytes.Contains(l.Entry, []byte("diagnostics token made")) {
			said++
		}
	}
	if said < len(tokens.Tokens) {
		t.Errorf("%d tokens are there, and the log knows %d", len(tokens.Tokens), said)
	}
}

// A control plane that was killed has lost nothing: the next one finds all, and the log
// verifies. One that is asked to end answers what it was asked, and leaves no process.
func TestDaemonKilledAndEnded(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	c := startChild(t, home)
	if _, err := c.api.SaveBoundaries(t.Context(), api.SaveBoundaries{Document: []byte(rules)}); err != nil {
		t.Fatal(err)
	}
	// A second control plane on the home is refused, and told which.
	second := exec.Command("/proc/self/exe")
	second.Env = append(os.Environ(), roleVariable+"=daemon", saidVariable+"="+home)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), fmt.Sprintf("process %d", c.cmd.Process.Pid)) {
		t.Errorf("a second one: %v %s", err, out)
	}
	old := c.postgres()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.wait()
	c = startChild(t, home)
	if alive(old) {
		t.Error("the server of the killed one is still there")
	}
	b, err := c.api.Boundaries(t.Context())
	if err != nil || b.Version != 1 || b.State != "ok" {
		t.Errorf("%+v, %v", b, err)
	}
	until(t, 20*time.Second, "the log verifies", func() bool {
		v, err := c.api.VerifyLog(t.Context(), api.VerifyLog{})
		if err != nil || len(v.Problems) > 0 {
			t.Fatalf("%+v, %v", v, err)
		}
		return v.Unchained == 0 && v.Entries > 3
	})

	// Busy, and asked to end.
	var wg sync.WaitGroup
	var started, answered, broken int
	var mu sync.Mutex
	begun := make(chan struct{}, 100)
	for range 8 {
		wg.Go(func() {
			for {
				mu.Lock()
				started++
				mu.Unlock()
				select {
				case begun <- struct{}{}:
				default:
				}
				resp, err := c.socket.Post("http://x/v1/log/verify", "application/json", strings.NewReader("{}"))
				if err != nil {
					return // it listens no more
				}
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				mu.Lock()
				answered++
				if err != nil {
					broken++
				}
				mu.Unlock()
			}
		})
	}
	<-begun
	until(t, 20*time.Second, "it is busy", func() bool { mu.Lock(); defer mu.Unlock(); return answered > 20 })
	pid := c.postgres()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, c.stderr)
	}
	wg.Wait()
	if broken > 0 {
		t.Errorf("%d of %d answers were broken off", broken, answered)
	}
	if alive(pid) {
		t.Error("PostgreSQL is still there")
	}
	if _, err := os.Lstat(filepath.Join(home, SocketName)); err == nil {
		t.Error("the socket is still there")
	}
	if strings.Contains(c.stderr.String(), "DATA RACE") {
		t.Error(c.stderr)
	}
}

// Nothing that the control plane started runs on when it has ended.
func TestNothingStays(t *testing.T) {
	db := storetest.New(t)
	settled := func() int { runtime.GC(); return runtime.NumGoroutine() }
	p := beginOn(t, testHome(t), db)
	p.note(5)
	p.chained()
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p.socket.CloseIdleConnections()
	buf := make([]byte, 1<<20)
	var left string
	until(t, 10*time.Second, "everything is still", func() bool {
		settled()
		left = ""
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "bourn/internal/daemon.(") || strings.Contains(stack, "net/http.(*Server)") || strings.Contains(stack, "net/http.(*conn)") {
				left = stack
			}
		}
		return left == ""
	})
	if left != "" {
		t.Errorf("still there: %s", left)
	}
}

// A password of the database, right or wrong, in a URL that can be read or not, is in no
// error and no log.
func TestDatabaseURL(t *testing.T) {
	const secret = "hunter2canary"
	for name, c := range map[string]struct{ url, passwords string }{
		"nobody there":       {"postgres://u:" + secret + "@127.0.0.1:1/?connect_timeout=1", `{"bourn_control":"` + secret + `"}`},
		"not to be read":     {"postgres://u:" + secret + "@[::1:x/", `{"bourn_control":"` + secret + `"}`},
		"a bad escape":       {"postgres://u:" + secret + "%zz@127.0.0.1:1/", `{}`},
		"keywords":           {"host=127.0.0.1 port=1 connect_timeout=1 password=" + secret, `{"bourn_control":"` + secret + `"}`},
		"bad keywords":       {"host='127.0.0.1 password=" + secret, `{}`},
		"no file":            {"postgres://u:" + secret + "@127.0.0.1:1/", ""},
		"passwords that are": {"postgres://u:" + secret + "@127.0.0.1:1/", secret},
	} {
		t.Run(name, func(t *testing.T) {
			home := testHome(t)
			if c.passwords != "" {
				if err := os.MkdirAll(filepath.Dir(PasswordFile(home)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(PasswordFile(home), []byte(c.passwords), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), roleVariable+"=daemon", saidVariable+"="+home, "BOURN_TEST_URL="+c.url)
			out, err := cmd.CombinedOutput()
			if err == nil || strings.Contains(string(out), secret) || !strings.Contains(string(out), "error: ") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// A home that others could change is refused.
func TestHomeOfOthers(t *testing.T) {
	home := testHome(t)
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Config{Home: home}); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}
