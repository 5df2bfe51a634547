package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// TestSeparation has one person's actor reach for another's process and files.
func TestSeparation(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		write(t, "/mnt/secret", []byte("root only"), 0, 0, 0o600)
		write(t, homes+"bob/diary", []byte("bob's"), bobUID, bobUID, 0o660)
		other := start(t, bobUID, "hold")
		say := fmt.Sprintf(`{"Pid":%d,"Shadow":true}`+"\n", other.Process.Pid)
		tried := asking{say: say}.ask(t, "actor", ann).acted(t).Tried
		if len(tried) != 12 {
			t.Errorf("it tried only %v", tried)
		}
		for what, came := range tried {
			if !strings.HasSuffix(came, "permission denied") && !strings.HasSuffix(came, "not permitted") {
				t.Errorf("%s: %s", what, came)
			}
		}
		if ended(other) { // it ignores SIGTERM: no answer above came of its end
			t.Error("bob's process has ended")
		}
		// Bob's own may.
		own := asking{say: say}.ask(t, "actor", bob).acted(t).Tried
		if own["private"] != "done" || own["signal"] != "done" || own["secret"] == "done" {
			t.Errorf("bob: %v", own)
		}
	})
}

func TestKill(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		other, service := start(t, bobUID, "hold"), start(t, serviceUID, "hold")
		theirs := []*exec.Cmd{start(t, annUID, "hold"), start(t, annUID, "hold", "apart"), start(t, annUID, "hold", "stopped")}
		got := asking{}.ask(t, "kill", ann)
		if got.status != 0 || got.text != "" {
			t.Errorf("%+v", got)
		}
		for _, p := range theirs {
			if !ended(p) {
				t.Errorf("process %d of ann runs on", p.Process.Pid)
			}
		}
		if ended(other) || ended(service) {
			t.Error("another's process has ended")
		}
		if got := (asking{}).ask(t, "kill", ann); got.status != 0 {
			t.Errorf("with nothing to end: %+v", got)
		}
		// Who is not active any more may still run something.
		left := start(t, goneUID, "hold")
		if got := (asking{}).ask(t, "kill", gone); got.status != 0 || !ended(left) {
			t.Errorf("%+v", got)
		}
		// One process ends every other of its person, over and over: the helper is none of them.
		for range 20 {
			spinning := start(t, annUID, "spin")
			if got := (asking{}).ask(t, "kill", ann); got.status != 0 || !ended(spinning) {
				t.Fatalf("%+v", got)
			}
		}
		// One that starts others without end. It has a limit of its own, so that a defect stays here.
		forking := start(t, annUID, "sh", "-c", "ulimit -u 40; echo; while :; do sleep 1000 & done 2>/dev/null")
		if got := (asking{}).ask(t, "kill", ann); got.status != 0 || !ended(forking) {
			t.Errorf("%+v", got)
		}
		if left, err := running(annUID); err != nil || len(left) > 0 {
			t.Errorf("%v runs on: %v", left, err)
		}
	})
}

func TestRevoke(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		write(t, registryPath, encoded(t, people()), 0, sharedGID, 0o640)
		write(t, "/etc/bourn/"+newRegistry, []byte("of one that was ended"), 0, 0, 0o600)
		old, err := os.Open(registryPath)
		must(t, err)
		defer old.Close()
		mine, others := start(t, annUID, "hold"), start(t, bobUID, "hold")
		if got := (asking{}).ask(t, "revoke", ann, sales); got.status != 0 || got.text != "" {
			t.Fatalf("%+v", got)
		}
		if !ended(mine) || ended(others) {
			t.Errorf("ann's process has ended: %v, bob's: %v", ended(mine), ended(others))
		}
		// Who reads the old one while the new one is written reads it whole.
		if data, err := io.ReadAll(old); err != nil || !bytes.Equal(data, encoded(t, people())) {
			t.Errorf("the old registry reads %q, %v", data, err)
		}
		want := people()
		want.People[0].Groups = []uint32{sharedGID}
		want.Revoked = []posix.Revocation{{Person: ann, Circle: sales}}
		checkRegistry(t, want, 0o640)
		if groups := (asking{}).ask(t, "actor", ann).acted(t).Status["Groups"]; groups != fmt.Sprint(sharedGID) {
			t.Errorf("groups %s", groups)
		}
		if got := (asking{}).ask(t, "revoke", ann); got.status != 0 {
			t.Fatalf("%+v", got)
		}
		want.People[0].Active, want.People[0].Groups = false, []uint32{}
		want.Revoked = append(want.Revoked, posix.Revocation{Person: ann})
		checkRegistry(t, want, 0o640)
		asking{}.ask(t, "actor", ann).refused(t, posix.PermissionDenied, "is not active")
		asking{}.ask(t, "actor", bob).acted(t)
		// Once more changes nothing, and still ends what runs.
		mine = start(t, annUID, "hold")
		before, err := os.Stat(registryPath)
		must(t, err)
		if got := (asking{}).ask(t, "revoke", ann); got.status != 0 || !ended(mine) {
			t.Errorf("%+v", got)
		}
		after, err := os.Stat(registryPath)
		must(t, err)
		if !os.SameFile(before, after) {
			t.Error("the same registry was written again")
		}
	})
}

// checkRegistry compares what stands in /etc/bourn with what must.
func checkRegistry(t testing.TB, want posix.Registry, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(registryPath)
	must(t, err)
	if diff := cmp.Diff(string(encoded(t, want)), string(data)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(registryPath)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	if info.Mode() != mode || st.Uid != 0 || st.Gid != sharedGID { // no group of who asked
		t.Errorf("%v of %d:%d", info.Mode(), st.Uid, st.Gid)
	}
	entries, err := filepath.Glob("/etc/bourn/.*")
	must(t, err)
	if !slices.Equal(entries, []string{"/etc/bourn/" + posix.RegistryLock}) {
		t.Errorf("besides it there are %v", entries)
	}
}

// TestLock has a revocation wait for whoever changes the registry, and keep what they did.
func TestLock(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		dir, err := unix.Open("/etc/bourn", unix.O_PATH|unix.O_CLOEXEC, 0)
		must(t, err)
		unlock, err := lock(dir)
		must(t, err)
		mine := start(t, annUID, "hold")
		changed := people()
		changed.People[1].Groups = []uint32{sharedGID}
		got := asking{during: func(pid int) {
			waitFor(t, pid, "/etc/bourn/"+posix.RegistryLock)
			// Who asked can neither end nor stop it now.
			for _, s := range []string{"KILL", "STOP", "TERM"} {
				cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("kill -%s %d", s, pid))
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(0, nil)}
				if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not permitted") {
					t.Errorf("the service may send it %s: %s", s, out)
				}
			}
			if ended(mine) {
				t.Error("it did not wait")
			}
			write(t, registryPath, encoded(t, changed), 0, sharedGID, 0o644)
			unlock()
		}}.ask(t, "revoke", ann)
		if got.status != 0 || !ended(mine) {
			t.Errorf("%+v", got)
		}
		changed.People[0].Active, changed.People[0].Groups = false, []uint32{}
		changed.Revoked = []posix.Revocation{{Person: ann}}
		checkRegistry(t, changed, 0o644)
	})
}

// waitFor returns once a process has a file open.
func waitFor(t testing.TB, pid int, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for ctx.Err() == nil {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && to == name {
				return
			}
		}
	}
	t.Fatalf("process %d does not open %s", pid, name)
}

// TestEnded ends and stops the helper anywhere on its way.
func TestEnded(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		before := encoded(t, people())
		revoked, err := people().Revoke(posix.Revocation{Person: ann})
		must(t, err)
		after := encoded(t, revoked)
		seen := map[bool]int{}
		for i := range 150 {
			write(t, registryPath, before, 0, 0, 0o644)
			verb := []string{"revoke", "actor", "kill"}[i%3]
			got := asking{during: func(pid int) {
				for range i * i { // a little later each time
					_, _ = unix.Getpgid(pid)
				}
				_ = unix.Kill(pid, unix.SIGKILL)
			}}.ask(t, verb, ann)
			data, err := os.ReadFile(registryPath)
			must(t, err)
			if !bytes.Equal(data, before) && (verb != "revoke" || !bytes.Equal(data, after)) {
				t.Fatalf("%s, ended, left the registry as\n%s", verb, data)
			}
			if got.status == 0 && verb == "revoke" && bytes.Equal(data, before) {
				t.Error("it says that it revoked, and did not")
			}
			if verb == "revoke" {
				seen[bytes.Equal(data, after)]++
			}
			if left, err := running(annUID); err != nil || len(left) > 0 {
				t.Fatalf("%v is left: %v", left, err)
			}
		}
		t.Logf("revoked before the end: %d, not: %d", seen[true], seen[false])
		write(t, registryPath, before, 0, 0, 0o644)
		for i := range 20 {
			got := asking{during: func(pid int) {
				for range i * i * 4 {
					_, _ = unix.Getpgid(pid)
				}
				if unix.Kill(pid, unix.SIGSTOP) == nil {
					_ = unix.Kill(pid, unix.SIGCONT)
				}
			}}.ask(t, "actor", ann)
			checkState(t, got.acted(t), annUID, "ann", ann)
		}
	})
}

func TestDial(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		asking{}.ask(t, "dial", ann).refused(t, posix.RuntimeUnavailable, "cannot connect to the database")
		listening := listen(t, databaseSocket)
		checkDial(t, listening)
		// The administrator's word about where it stands.
		other := listen(t, "/run/other")
		write(t, databasePath, []byte("/run/other\n"), 0, 0, 0o644)
		checkDial(t, other)
		write(t, databasePath, []byte("/run/other\n"), serviceUID, 0, 0o644)
		asking{}.ask(t, "dial", ann).refused(t, posix.RuntimeUnavailable, "must be root's")
		write(t, databasePath, []byte("run/other\n"), 0, 0, 0o644)
		asking{}.ask(t, "dial", ann).refused(t, posix.RuntimeUnavailable, "does not say where a socket stands")
		write(t, databasePath, bytes.Repeat([]byte("/x"), maxDatabase), 0, 0, 0o644)
		asking{}.ask(t, "dial", ann).refused(t, posix.RuntimeUnavailable, "too large")
		must(t, os.Remove(databasePath))
		must(t, os.Symlink("/mnt/x", databasePath))
		asking{}.ask(t, "dial", ann).refused(t, posix.RuntimeUnavailable, "")
		// It connects as the person, who must be let in.
		must(t, os.Remove(databasePath))
		must(t, os.Chmod(posix.DatabaseSocketDir, 0o700))
		asking{}.ask(t, "dial", ann).refused(t, posix.RuntimeUnavailable, "permission denied")
		must(t, os.Chown(posix.DatabaseSocketDir, 0, sharedGID))
		must(t, os.Chmod(posix.DatabaseSocketDir, 0o750))
		checkDial(t, listening)
	})
}

func listen(t testing.TB, name string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	must(t, os.Chmod(name, 0o777))
	must(t, unix.Listen(fd, 8))
	return fd
}

// checkDial dials, and talks over what it gets.
func checkDial(t testing.TB, listening int) {
	t.Helper()
	got := asking{}.ask(t, "dial", ann)
	if got.status != 0 || len(got.fds) != 1 {
		t.Fatalf("%+v", got)
	}
	defer unix.Close(got.fds[0])
	fd, _, err := unix.Accept4(listening, unix.SOCK_CLOEXEC)
	must(t, err)
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	must(t, err)
	if peer.Uid != annUID || peer.Gid != annUID {
		t.Errorf("the database sees %+v", peer)
	}
	_, err = unix.Write(got.fds[0], []byte("hello"))
	must(t, err)
	unix.Close(got.fds[0])
	said, err := io.ReadAll(os.NewFile(uintptr(fd), "server"))
	if err != nil || string(said) != "hello" {
		t.Errorf("%q, %v", said, err)
	}
}

// BenchmarkActor starts the helper for an actor that ends at once.
func BenchmarkActor(b *testing.B) {
	inWorld(b, func(b *testing.B) {
		// Not the test binary: starting that takes longer than what is measured.
		trivial := os.Getenv("BOURN_HELPER_TRIVIAL")
		if trivial == "" {
			b.Skip("BOURN_HELPER_TRIVIAL names no program")
		}
		data, err := os.ReadFile(trivial)
		must(b, err)
		write(b, programFile, data, 0, 0, 0o755)
		for _, way := range []string{"helper", "directly"} {
			b.Run(way, func(b *testing.B) {
				for b.Loop() {
					pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
					must(b, err)
					theirs := os.NewFile(uintptr(pair[1]), "socket")
					cmd := exec.Command(helperPath, "actor", ann)
					if way == "directly" {
						cmd = exec.Command(programFile)
					}
					var text bytes.Buffer
					cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = theirs, theirs, &text, []string{}
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(0, nil)}
					if err := cmd.Run(); err != nil {
						b.Fatal(err, text.String())
					}
					theirs.Close()
					unix.Close(pair[0])
				}
			})
		}
	})
}
