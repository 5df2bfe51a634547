package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// ownerRole is the environment variable that makes this program the owner of a cluster,
// to be killed by a test.
const ownerRole = "BOURN_TEST_CLUSTER"

func TestMain(m *testing.M) {
	if said := os.Getenv(ownerRole); said != "" {
		os.Exit(own(said))
	}
	os.Exit(m.Run())
}

// own starts the cluster that its argument describes, prints the server's pid and waits
// to be killed.
func own(said string) int {
	var config cluster.Config
	if err := json.Unmarshal([]byte(said), &config); err != nil {
		return 2
	}
	c, err := cluster.Start(context.Background(), config)
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	os.Stdout.WriteString(strconv.Itoa(c.Pid()) + "\n")
	<-c.Done()
	return 0
}

// ownedElsewhere starts a process that owns the cluster, and returns it and the server's pid.
func ownedElsewhere(t *testing.T, config cluster.Config) (*exec.Cmd, int) {
	t.Helper()
	said, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), ownerRole+"="+string(said))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the owner did not start: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, pid
}

func query(t *testing.T, c *cluster.Cluster, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.ConnString(cluster.Admin, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var said string
	if err := conn.QueryRow(t.Context(), sql).Scan(&said); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return said
}

func TestStartStopStart(t *testing.T) {
	config := storetest.ClusterConfig(t)
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if got := query(t, c, "select current_setting('listen_addresses')"); got != "" {
		t.Errorf("the server listens on %q", got)
	}
	if got := query(t, c, "select current_setting('server_version')"); !strings.HasPrefix(got, c.Version().String()) {
		t.Errorf("the server says it is %s, and its programs said %s", got, c.Version())
	}
	query(t, c, "with made as (select set_config('x.y', 'z', false)) select pg_create_restore_point('here')::text")
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Stop(t.Context()), again.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// What was committed is there after the owner was killed, and the server of the killed
// owner neither stays nor meets the next one.
func TestOwnerKilled(t *testing.T) {
	config := storetest.ClusterConfig(t)
	owner, server := ownedElsewhere(t, config)
	conn, err := pgx.Connect(t.Context(), cluster.ConnString(config.SocketDir, cluster.Admin, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "create table kept as select 42 as answer"); err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()

	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(context.WithoutCancel(t.Context()))
	if c.Pid() == server {
		t.Error("the server of the killed owner was taken over")
	}
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(server) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the server of the killed owner is still there: %s", stat)
	}
	if got := query(t, c, "select answer::text from kept"); got != "42" {
		t.Errorf("kept = %q", got)
	}
}

// A server that was killed itself recovers.
func TestServerKilled(t *testing.T) {
	config := storetest.ClusterConfig(t)
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	again, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A cluster that another process owns is refused, after the time that a server on its
// way out is given; a caller that gives less time waits less.
func TestTwoOwners(t *testing.T) {
	config := storetest.ClusterConfig(t)
	ownedElsewhere(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := cluster.Start(ctx, config)
	if bourn.CodeOf(err) != bourn.CodeConflict || bourn.HintOf(err) == "" {
		t.Errorf("got %v, want a conflict with a hint", err)
	}
}

// A cluster whose making was cut short is made anew.
func TestCutShort(t *testing.T) {
	config := storetest.ClusterConfig(t)
	if err := os.MkdirAll(filepath.Join(config.Dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	storetest.Own(t, config, config.Dir)
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRefused(t *testing.T) {
	t.Run("another's directory", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root: makes a directory that is another's")
		}
		config := storetest.ClusterConfig(t)
		if err := os.Mkdir(config.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(config.Dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Start(t.Context(), config); bourn.CodeOf(err) != bourn.CodeConflict {
			t.Errorf("got %v, want a conflict", err)
		}
	})
	t.Run("a link for the directory", func(t *testing.T) {
		config := storetest.ClusterConfig(t)
		if err := os.Symlink(t.TempDir(), config.Dir); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Start(t.Context(), config); err == nil {
			t.Error("a link was followed")
		}
	})
	t.Run("as root", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("is about root")
		}
		config := storetest.ClusterConfig(t)
		config.User = nil
		if _, err := cluster.Start(t.Context(), config); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("got %v, want invalid", err)
		}
	})
	t.Run("a long path", func(t *testing.T) {
		config := storetest.ClusterConfig(t)
		config.SocketDir = "/" + strings.Repeat("x", 100)
		if _, err := cluster.Start(t.Context(), config); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("got %v, want invalid", err)
		}
	})
	t.Run("no server", func(t *testing.T) {
		config := storetest.ClusterConfig(t)
		config.Programs = []string{t.TempDir()}
		if _, err := cluster.Start(t.Context(), config); bourn.CodeOf(err) != bourn.CodeWeakHost || bourn.HintOf(err) == "" {
			t.Errorf("got %v, want a weak host with a hint", err)
		}
	})
	t.Run("an old server", func(t *testing.T) {
		config := storetest.ClusterConfig(t)
		config.Programs = []string{pretend(t, "postgres (PostgreSQL) 15.17")}
		if _, err := cluster.Start(t.Context(), config); bourn.CodeOf(err) != bourn.CodeWeakHost || !strings.Contains(err.Error(), "15.18") {
			t.Errorf("got %v, want a weak host that names 15.18", err)
		}
	})
	t.Run("another major", func(t *testing.T) {
		config := storetest.ClusterConfig(t)
		if err := os.MkdirAll(filepath.Join(config.Dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(config.Dir, "data", "PG_VERSION"), []byte("77\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Start(t.Context(), config); bourn.CodeOf(err) != bourn.CodeWeakHost || !strings.Contains(err.Error(), "77") {
			t.Errorf("got %v, want a weak host that names 77", err)
		}
	})
	t.Run("a setting that the server does not take", func(t *testing.T) {
		config := storetest.ClusterConfig(t)
		config.Set = map[string]string{"shared_buffers": "none"}
		_, err := cluster.Start(t.Context(), config)
		if bourn.CodeOf(err) != bourn.CodeUnavailable || !strings.Contains(err.Error(), "shared_buffers") {
			t.Errorf("got %v, want the server's own words", err)
		}
	})
}

// What another user could replace is executed by nobody, not even to ask for its version.
func TestOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: gives files away")
	}
	dir := pretend(t, "postgres (PostgreSQL) 99.1")
	ran := filepath.Join(t.TempDir(), "ran")
	text := "#!/bin/sh\n: >" + ran + "\necho 'postgres (PostgreSQL) 99.1'\n"
	if err := os.WriteFile(filepath.Join(dir, "postgres"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	own := pretend(t, "postgres (PostgreSQL) 98.1")
	if p, err := cluster.Find(t.Context(), []string{dir, own}, 0); err != nil || p.Dir != dir {
		t.Fatalf("before: %v, %v", p, err)
	}
	if err := errors.Join(os.Remove(ran), os.Chown(filepath.Join(dir, "initdb"), 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Find(t.Context(), []string{dir}, 0); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
		t.Errorf("got %v, want denied with a hint", err)
	}
	if p, err := cluster.Find(t.Context(), []string{dir, own}, 0); err != nil || p.Dir != own {
		t.Errorf("beside another: %v, %v", p, err)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("it was executed")
	}
}

// pretend makes an installation that says what it is and cannot do anything.
func pretend(t *testing.T, says string) string {
	dir := t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		said string
		want cluster.Version
		ok   bool
	}{
		{"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", cluster.Version{Major: 15, Minor: 18}, true},
		{"postgres (PostgreSQL) 15.17", cluster.Version{Major: 15, Minor: 17}, false},
		{"postgres (PostgreSQL) 14.30", cluster.Version{Major: 14, Minor: 30}, false},
		{"18.4", cluster.Version{Major: 18, Minor: 4}, true},
		{"18.3", cluster.Version{Major: 18, Minor: 3}, false},
		{"postgres (PostgreSQL) 19beta2", cluster.Version{Major: 19}, true},
		{"18rc1", cluster.Version{Major: 18}, false},
	} {
		got, err := cluster.ParseVersion(c.said)
		if err != nil || got != c.want {
			t.Errorf("%q: got %v, %v", c.said, got, err)
		}
		if err := got.Check(); (err == nil) != c.ok {
			t.Errorf("%q: checked as %v", c.said, err)
		}
	}
	for _, said := range []string{"", "postgres", "15.x", "1" + strings.Repeat("0", 30)} {
		if got, err := cluster.ParseVersion(said); err == nil {
			t.Errorf("%q: got %v", said, got)
		}
	}
}
