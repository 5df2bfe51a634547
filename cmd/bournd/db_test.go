package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bourn/internal/archive"
	"bourn/internal/daemon/instance"
	"bourn/internal/operation"
	"bourn/internal/run/runtest"
)

// kill ends a process at once and waits until it is gone.
func (h host) kill(i *instance.Instance) {
	h.t.Helper()
	if err := syscall.Kill(i.Pid, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	if _, err := i.Stop(20 * time.Second); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) instance() *instance.Instance {
	h.t.Helper()
	i, err := instance.Find(h.Home + "/.bourn")
	if err != nil || i == nil {
		h.t.Fatalf("the control plane: %v, %v", i, err)
	}
	h.t.Cleanup(func() { i.Close() })
	return i
}

// TestLife is a control plane's life: started, killed, started again, its database killed,
// backed up, ended, and restored.
func TestLife(t *testing.T) {
	users(t, func(t *testing.T, h host) {
		h.refused(1, "no control plane runs", "serve", "--status")
		h.refused(1, "there is no private database", "db", "backup", "b.tar")
		if s := h.status(); s.State != "absent" || !s.Private || s.Installed == "" || s.Mend != "" {
			t.Errorf("before anything: %+v", s)
		}
		if out := h.serve(); !strings.Contains(out, "runs in the background (process ") || !strings.Contains(out, "next: bourn serve --status") {
			t.Errorf("serve says %s", out)
		}
		if out := h.serve(); !strings.Contains(out, "runs already (process ") {
			t.Errorf("a second serve says %s", out)
		}
		// As bourn serve in the foreground it is refused.
		h.refused(1, "a control plane runs already", append([]string{"serve", "--no-http"}, h.DatabaseUser()...)...)
		if out := h.ok("serve", "--status"); !strings.Contains(out, "the control plane is ok (process ") || !strings.Contains(out, "private PostgreSQL") {
			t.Errorf("status says %s", out)
		}
		if s := h.status(); s.State != "running" || len(s.Databases) != 2 || s.Databases[0].Migrations[0].At < 1 || s.MaxConnections == 0 || s.User == "" || s.User == "root" {
			t.Errorf("while it runs: %+v", s)
		}
		h.psql("control", "create table public.kept as select 'one' as word")

		// kill -9 of the control plane, and it is brought up again.
		h.kill(h.instance())
		h.serve()
		if got := h.psql("control", "select word from public.kept"); got != "one" {
			t.Errorf("after a kill the table holds %q", got)
		}
		// kill -9 of PostgreSQL, which the control plane starts again.
		s := h.status()
		pid := postmaster(t, s.Directory)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		h.until("another PostgreSQL answers", func() bool {
			text, err := os.ReadFile(filepath.Join(s.Directory, "data", "postmaster.pid"))
			return err == nil && !strings.HasPrefix(string(text), strconv.Itoa(pid)+"\n") && h.Bourn("serve", "--status").Status == 0
		})
		if got := h.psql("control", "select word from public.kept"); got != "one" {
			t.Errorf("after a kill of PostgreSQL the table holds %q", got)
		}
		backUpAndRestore(t, h)
	})
}

func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func backUpAndRestore(t *testing.T, h host) {
	file := filepath.Join(h.Work, "b.tar")
	h.ok("db", "backup", "b.tar")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v: %v", info.Mode(), err)
	}
	h.refused(1, "is not written over anything", "db", "backup", "b.tar")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(h.Home + "/.bourn/identity.key")
	if err != nil {
		t.Fatal(err)
	}
	if line := bytes.Split(key, []byte("\n"))[1]; bytes.Contains(whole, line) {
		t.Error("the host's key is in the backup")
	}
	h.psql("control", "insert into public.kept values ('two')")
	h.refused(1, "a control plane runs", "db", "restore", "b.tar")
	if out := h.ok("serve", "--stop"); !strings.Contains(out, "is stopped (process ") {
		t.Errorf("stop says %s", out)
	}
	if out := h.ok("serve", "--stop"); out != "no control plane runs\n" {
		t.Errorf("a second stop says %s", out)
	}

	// While none runs.
	if s := h.status(); s.State != "stopped" || s.DirectoryBytes == 0 || len(s.Databases) != 0 {
		t.Errorf("while it is stopped: %+v", s)
	}
	if got := h.psql("control", "select count(*) from public.kept"); got != "2" {
		t.Errorf("the table has %q rows", got)
	}
	if r := h.Bourn("db", "psql", "--", "-c", "no such statement"); r.Status != 1 || !strings.Contains(r.Err, "row security does not bind it") {
		t.Errorf("psql that fails: status %d\n%s", r.Status, r.Err)
	}
	h.refused(1, "is not empty", "db", "restore", "b.tar")

	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	h.Write("damaged.tar", string(damaged))
	h.refused(2, "is no whole backup", "db", "restore", "--replace", "damaged.tar")
	h.refused(1, "there is no backup", "db", "restore", "--replace", "other.tar")
	if got := h.psql("control", "select count(*) from public.kept"); got != "2" {
		t.Errorf("after a refused restore the table has %q rows", got)
	}

	var out struct {
		Aside    string
		Entries  int
		Problems []string
	}
	if err := json.Unmarshal([]byte(h.ok("db", "restore", "--replace", "--json", "b.tar")), &out); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out.Aside); err != nil || !info.IsDir() || out.Entries == 0 || len(out.Problems) > 0 {
		t.Errorf("the restore: %+v; aside: %v", out, err)
	}
	if got := h.psql("control", "select string_agg(word, ' ') from public.kept"); got != "one" {
		t.Errorf("after the restore the table holds %q", got)
	}
	if got := h.psql("control", "select count(*) from log.entry where body->>'what' = 'database restored'"); got != "1" {
		t.Errorf("the log says %s times that it was restored", got)
	}
	h.serve()
	h.ok("serve", "--status")
	h.ok("serve", "--stop")
	restoreElsewhere(t, h, file)
}

// restoreElsewhere restores into a home that has nothing, and another key.
func restoreElsewhere(t *testing.T, h host, file string) {
	other := newHost(t, h.UID)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other.Write("b.tar", string(text))
	r := other.Bourn(append([]string{"db", "restore", "b.tar"}, h.DatabaseUser()...)...)
	if r.Status != 0 || !strings.Contains(r.Err, "signed by another key") || !strings.Contains(r.Out, "is restored: ") {
		t.Fatalf("the restore: status %d\n%s%s", r.Status, r.Out, r.Err)
	}
	if got := other.psql("control", "select word from public.kept"); got != "one" {
		t.Errorf("elsewhere the table holds %q", got)
	}
}

// A log that was changed before it was backed up is found after the restore.
func TestRestoreOfAChangedLog(t *testing.T) {
	users(t, func(t *testing.T, h host) {
		h.serve()
		h.until("the log is chained", func() bool { return h.psql("control", "select count(*) > 0 from log.checkpoint") == "t" })
		h.psql("control", `alter table log.entry disable trigger user;
			update log.entry set body = replace(body::text, 'host', 'hots')::json where seq = (select min(seq) from log.link)`)
		h.ok("db", "backup", "b.tar")
		h.ok("serve", "--stop")
		r := h.Bourn("db", "restore", "--replace", "b.tar")
		if r.Status != 1 || !strings.Contains(r.Err, "its log is not as it was signed") || !strings.Contains(r.Err, "bourn: the log: at 1: ") {
			t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
		}
	})
}

// A restore that fails half-way brings back what was there.
func TestRestoreFails(t *testing.T) {
	users(t, func(t *testing.T, h host) {
		h.serve()
		h.psql("control", "create table public.kept as select 'one' as word")
		h.ok("db", "backup", "b.tar")
		h.ok("serve", "--stop")
		bad := filepath.Join(h.Work, "bad.tar")
		// A whole backup by its manifest, whose dump is none.
		rewrite(t, filepath.Join(h.Work, "b.tar"), bad)
		if err := os.Chown(bad, h.UID, -1); err != nil {
			t.Fatal(err)
		}
		h.refused(1, "cannot restore the database records", "db", "restore", "--replace", "bad.tar")
		if got := h.psql("control", "select word from public.kept"); got != "one" {
			t.Errorf("the table holds %q", got)
		}
		if left := glob(h.status().Directory + ".*"); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
	})
}

// rewrite copies a backup, with another dump of records in it.
func rewrite(t *testing.T, from, to string) {
	t.Helper()
	a, err := archive.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	w, err := archive.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, p := range a.Manifest.Parts {
		err := w.Add(p.Name, func(out io.Writer) error {
			if p.Name == archive.Records {
				_, err := out.Write([]byte("no dump"))
				return err
			}
			_, err := io.Copy(out, a.Part(p.Name))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(a.Manifest); err != nil {
		t.Fatal(err)
	}
}

// What a start cannot do it says where it was asked for, with its hint, in JSON too.
func TestStartFails(t *testing.T) {
	users(t, func(t *testing.T, h host) {
		h.refused(3, "is not an address of this host alone", append([]string{"serve", "-d", "--listen", "0.0.0.0:0"}, h.DatabaseUser()...)...)
		r := h.Bourn(append([]string{"serve", "-d", "--json", "--listen", "0.0.0.0:0"}, h.DatabaseUser()...)...)
		var f operation.Failure
		if err := json.Unmarshal([]byte(r.Out), &f); err != nil || f.Error.Code != "denied" || f.Error.Hint == "" || r.Status != 3 {
			t.Errorf("status %d: %v\n%s", r.Status, err, r.Out)
		}
		h.refused(1, "no control plane runs", "serve", "--status")
		h.refused(2, "no log format", "serve", "-d", "--log-format", "verse")
		h.refused(2, "one of --background, --status and --stop is given", "serve", "-d", "--stop")
	})
}

// In the foreground bourn becomes the control plane: the same process, which TERM ends.
func TestForeground(t *testing.T) {
	users(t, func(t *testing.T, h host) {
		cmd := h.Command(t.Context(), runtest.Binary(t), append([]string{"serve", "--json", "--no-http"}, h.DatabaseUser()...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var s operation.Started
		if err := json.NewDecoder(out).Decode(&s); err != nil || s.Pid != cmd.Process.Pid || s.Socket != h.Home+"/.bourn/bourn.sock" || s.HTTP != "" {
			t.Errorf("it says %+v, %v; it is process %d", s, err, cmd.Process.Pid)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}
