package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/api"
	"bourn/internal/run/runtest"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"
)

// Users of a shared host that have names there, and a number that has none.
const (
	databaseUID = 64201 + iota
	controlUID
	annUID
	bobUID
	strangerUID
	namelessUID
)

var sharedUsers = []struct {
	uid  int
	name string
}{{databaseUID, "test-db"}, {controlUID, "test-control"}, {annUID, "bc_person_aaaaaaaaaa"}, {bobUID, "bc_person_bbbbbbbbbb"}, {strangerUID, "bc_person_"}}

// A sharedHost is a mount namespace with users of its own, in which a database is served. It
// ends with the test.
type sharedHost struct {
	t                         *testing.T
	pid, dir, psql            string
	data, socket, home, bourn string
}

func newSharedHost(t *testing.T) *sharedHost {
	t.Helper()
	runtest.Need(t, "root", os.Getuid() == 0)
	storetest.Need(t)
	runtest.Daemon(t)
	programs, err := cluster.Find(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "bourn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h := &sharedHost{t: t, dir: dir, psql: filepath.Join(programs.Dir, "psql"), bourn: runtest.Binary(t),
		data: dir + "/data", socket: dir + "/socket", home: dir + "/home"}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	host := string(passwd)
	for _, u := range sharedUsers {
		passwd = fmt.Appendf(passwd, "%s:x:%d:%d::%s:/usr/sbin/nologin\n", u.name, u.uid, u.uid, dir)
	}
	all := os.WriteFile(dir+"/passwd", passwd, 0o644)
	for _, own := range []struct {
		at   string
		mode os.FileMode
		uid  int
	}{{dir, 0o755, 0}, {h.data, 0o700, databaseUID}, {h.socket, 0o711, databaseUID}, {h.home, 0o700, controlUID}} {
		if err := os.Mkdir(own.at, 0o700); !errors.Is(err, os.ErrExist) {
			all = errors.Join(all, err)
		}
		all = errors.Join(all, os.Chmod(own.at, own.mode), os.Chown(own.at, own.uid, own.uid))
	}
	if all != nil {
		t.Fatal(all)
	}
	h.begin()
	t.Cleanup(func() {
		if now, err := os.ReadFile("/etc/passwd"); err != nil || string(now) != host {
			t.Errorf("the host's users are not as they were: %v", err)
		}
	})
	return h
}

// begin makes the namespace, and sees that it is another than the host's before it mounts.
func (h *sharedHost) begin() {
	h.t.Helper()
	outside, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "--propagation=private", "sh", "-ec",
		`[ "$(readlink /proc/self/ns/mnt)" != "$0" ]; mount --bind "$1/passwd" /etc/passwd; grep -c '^test-db:' /etc/passwd; exec cat`, outside, h.dir)
	cmd.Stderr = os.Stderr
	stay, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { stay.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "1\n" {
		h.t.Fatalf("the namespace: %q, %v", line, err)
	}
	h.pid = strconv.Itoa(cmd.Process.Pid)
}

// command is a program in the namespace as a user.
func (h *sharedHost) command(uid int, argv ...string) *exec.Cmd {
	id := strconv.Itoa(uid)
	cmd := exec.Command("nsenter", append([]string{"--target", h.pid, "--mount", "--",
		"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "env", "--chdir=/"}, argv...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + h.home, "BOURN_HOME=" + h.home + "/.bourn", "BOURN_DATABASE_SOCKET=" + h.socket}
	return cmd
}

func (h *sharedHost) do(uid int, argv ...string) (said string, status int) {
	h.t.Helper()
	cmd := h.command(uid, argv...)
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // it serves, where it should not
	defer late.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

func (h *sharedHost) serveArgs() []string {
	return []string{h.bourn, "db", "serve", "--directory", h.data, "--socket-directory", h.socket, "--control-user", "test-control"}
}

// query asks as a user who wants to be a role, and returns what the database says.
func (h *sharedHost) query(uid int, role, database, sql string) (string, int) {
	h.t.Helper()
	return h.do(uid, h.psql, "-XAt", "-h", h.socket, "-U", role, "-d", database, "-c", sql)
}

// A service is a program that tells a service manager how it is.
type service struct {
	t    *testing.T
	cmd  *exec.Cmd
	said *bytes.Buffer
	tell *net.UnixConn
}

// start starts one, and waits until it is ready.
func (h *sharedHost) start(uid int, argv ...string) *service {
	h.t.Helper()
	dir, err := os.MkdirTemp(h.dir, "n")
	if err != nil {
		h.t.Fatal(err)
	}
	s := &service{t: h.t, cmd: h.command(uid, argv...), said: &bytes.Buffer{}}
	if s.tell, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/s", Net: "unixgram"}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.tell.Close() })
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chmod(dir+"/s", 0o666)); err != nil {
		h.t.Fatal(err)
	}
	s.cmd.Env = append(s.cmd.Env, "NOTIFY_SOCKET="+dir+"/s")
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	s.hear("READY=1")
	return s
}

// hear waits for a state that the service tells.
func (s *service) hear(state string) {
	s.t.Helper()
	if err := s.tell.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := s.tell.Read(buf); err != nil || string(buf[:n]) != state {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // so that all that it said is there
		s.t.Fatalf("it tells %q, %v, not %s\n%s", buf[:n], err, state, s.said)
	}
}

// end lets the service end in order.
func (s *service) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	s.hear("STOPPING=1")
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("it ends with %v\n%s", err, s.said)
	}
}

// TestSharedDatabase is the life of a shared host's database: who may be whom there, a
// control plane of another user on it, kill -9, and the end.
func TestSharedDatabase(t *testing.T) {
	h := newSharedHost(t)
	h.refusals()
	db := h.start(databaseUID, h.serveArgs()...)
	for _, role := range []string{"bc_m_aaaaaaaaaa", "bc_m_bbbbbbbbbb", "bc_m_"} {
		if said, status := h.query(databaseUID, "postgres", "postgres", "create role "+role+" login in role bc_person"); status != 0 {
			t.Fatal(said)
		}
	}
	h.whoMayBe()

	plane := h.start(controlUID, h.bourn, "serve", "--no-http")
	h.healthy()
	if err := db.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = db.cmd.Wait()
	db = h.start(databaseUID, h.serveArgs()...)
	h.healthy()
	if said, status := h.query(databaseUID, "postgres", "postgres", "select count(*) from pg_roles where rolname ~ '^bc_m_'"); said != "3" || status != 0 {
		t.Errorf("after a kill it holds %s", said)
	}

	// PostgreSQL alone is killed: the service ends, for its manager to start it again.
	if err := syscall.Kill(postmaster(t, h.data), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	db.hear("STOPPING=1")
	if err := db.cmd.Wait(); err == nil || !strings.Contains(db.said.String(), "PostgreSQL ended") {
		t.Errorf("it ends with %v\n%s", err, db.said)
	}
	db = h.start(databaseUID, h.serveArgs()...)
	h.healthy()
	plane.end()
	db.end()
	if left := glob(h.data + "/data/postmaster.pid"); len(left) > 0 {
		t.Error("PostgreSQL still runs")
	}
}

// healthy asks the control plane how it is until it is well: its connections were cut.
func (h *sharedHost) healthy() {
	h.t.Helper()
	var s api.Status
	for end := time.Now().Add(20 * time.Second); ; {
		out, err := h.command(controlUID, h.bourn, "serve", "--status", "--json").Output()
		if err == nil && json.Unmarshal(out, &s) == nil && s.Status == "ok" {
			break
		}
		if time.Now().After(end) {
			h.t.Fatalf("the control plane: %v\n%s", err, out)
		}
	}
	if s.Database.Socket != h.socket || s.Database.Embedded {
		h.t.Errorf("its database is %+v", s.Database)
	}
}

// refusals are who may not serve a database, and what it is not served for.
func (h *sharedHost) refusals() {
	h.t.Helper()
	with := func(flag, value string) []string {
		args := h.serveArgs()
		for i := range args {
			if args[i] == flag {
				args[i+1] = value
			}
		}
		return args
	}
	for what, c := range map[string]struct {
		uid    int
		args   []string
		status int
		says   string
	}{
		"root":                          {0, h.serveArgs(), 3, "does not run as root"},
		"another user":                  {strangerUID, h.serveArgs(), 3, "belongs to another user"},
		"another's socket":              {databaseUID, with("--socket-directory", h.home), 3, "belongs to another user"},
		"a relative path":               {databaseUID, with("--directory", "data"), 2, "no absolute path"},
		"no directory":                  {databaseUID, with("--directory", ""), 2, "needs --directory"},
		"a control plane that is root":  {databaseUID, with("--control-user", "root"), 2, "is the database's or root"},
		"one that is the same user":     {databaseUID, with("--control-user", "test-db"), 2, "is the database's or root"},
		"one that is nobody":            {databaseUID, with("--control-user", "/^.*$"), 2, "there is no user"},
		"one that is none of this host": {databaseUID, with("--control-user", "all"), 2, "there is no user"},
	} {
		if said, status := h.do(c.uid, c.args...); status != c.status || !strings.Contains(said, c.says) || !strings.Contains(said, "hint: ") {
			h.t.Errorf("%s: status %d\n%s", what, status, said)
		}
	}
}

// whoMayBe tries each user as each role.
func (h *sharedHost) whoMayBe() {
	h.t.Helper()
	may := map[string]bool{
		"0 postgres postgres": true, "0 postgres control": true, "0 postgres records": true,
		"64201 postgres postgres": true, "64201 postgres control": true, "64201 postgres records": true,
		"64202 bourn_control control": true, "64202 bourn_control records": true, "64202 bourn_member control": true, "64202 bourn_app records": true,
		"64203 bc_m_aaaaaaaaaa records": true,
		"64204 bc_m_bbbbbbbbbb records": true,
	}
	for _, uid := range []int{0, databaseUID, controlUID, annUID, bobUID, strangerUID, namelessUID} {
		for _, role := range []string{"postgres", "bourn_control", "bourn_member", "bourn_app", "bourn_owner", "bc_person", "bc_m_", "bc_m_aaaaaaaaaa", "bc_m_bbbbbbbbbb"} {
			for _, database := range []string{"postgres", "control", "records"} {
				key := fmt.Sprint(uid, " ", role, " ", database)
				said, status := h.query(uid, role, database, "select current_user")
				if in := status == 0 && said == role; in != may[key] {
					h.t.Errorf("%s: %t, %s", key, in, said)
				}
			}
		}
	}
}
