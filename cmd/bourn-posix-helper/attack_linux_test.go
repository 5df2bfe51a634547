package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// TestKillsAtOnce has many helpers end processes at once, of one person and of several. None of them
// ends another.
func TestKillsAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		for range 25 {
			mine := start(t, annUID, "hold")
			answers := make(chan answer)
			asked := [][]string{{"kill", ann}, {"kill", ann}, {"kill", bob}, {"kill", gone}, {"revoke", gone}, {"kill", bob}}
			for _, args := range asked {
				go func() { answers <- asking{}.ask(t, args...) }()
			}
			for range asked {
				if got := <-answers; got.status != 0 {
					t.Errorf("%+v", got)
				}
			}
			if !ended(mine) {
				t.Error("ann's process runs on")
			}
			if t.Failed() {
				return
			}
		}
	})
}

// TestStale stops the helper on its way, as the service may, and goes on with it when the person has
// been taken away: what they run has been ended by then, so it must not become them any more.
func TestStale(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		listen(t, databaseSocket)
		good := encoded(t, people())
		left := people()
		left.People[0].Groups = []uint32{sharedGID}
		without, err := people().Revoke(posix.Revocation{Person: ann})
		must(t, err)
		other := people()
		other.People[1].Groups = []uint32{sharedGID}
		for _, test := range []struct {
			verb string
			then posix.Registry
			acts bool
		}{{"actor", left, false}, {"actor", without, false}, {"dial", without, false}, {"actor", other, true}} {
			hits := 0
			for range 400 {
				if hits == 3 {
					break
				}
				write(t, registryPath, good, 0, 0, 0o644)
				hit := false
				got := asking{during: func(pid int) {
					if !stopped(pid, map[string]string{"actor": programFile, "dial": registryPath}[test.verb]) {
						return
					}
					status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
					// Its last step is the uid; what is shown is its first thread, which takes it first.
					if hit = err == nil && !isOf(status, annUID) && isOf(status, 0) && !hasEnded(status); hit {
						hits++
						next := encoded(t, test.then)
						must(t, os.WriteFile("/etc/bourn/next", next, 0o644))
						must(t, os.Rename("/etc/bourn/next", registryPath))
					}
					_ = unix.Kill(pid, unix.SIGCONT)
				}}.ask(t, test.verb, ann)
				for _, fd := range got.fds {
					unix.Close(fd)
				}
				if acted := got.state != nil || len(got.fds) > 0; hit && acted != test.acts {
					t.Errorf("%s: %+v", test.verb, got)
				}
			}
			if hits == 0 {
				t.Errorf("%s: it was never stopped in time", test.verb)
			}
		}
	})
}

// stopped stops a process once it has a file open, and reports whether it came to that.
func stopped(pid int, name string) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	for {
		status, err := os.ReadFile(proc + "status")
		if err != nil || hasEnded(status) {
			return false
		}
		for fd := 3; fd < 16; fd++ {
			to, err := os.Readlink(fmt.Sprint(proc, "fd/", fd))
			if err != nil || to != name {
				continue
			}
			_ = unix.Kill(pid, unix.SIGSTOP)
			for err == nil && !hasEnded(status) && statusField(status, "State") != "T (stopped)" {
				status, err = os.ReadFile(proc + "status")
			}
			return err == nil && !hasEnded(status)
		}
	}
}

// TestSignalled has the service send what does not end a process, all the way, among it the signals by which
// Go's runtime has threads change their identity and gives way.
func TestSignalled(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		for _, number := range []syscall.Signal{33, unix.SIGURG, unix.SIGPROF, 32, 34, unix.SIGCHLD, unix.SIGWINCH, unix.SIGCONT} {
			for _, verb := range []string{"actor", "kill"} {
				sent := 0
				got := asking{during: func(pid int) {
					done := make(chan int)
					go func() {
						lockThread() // and it ends as the service
						_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, serviceUID, serviceUID, serviceUID)
						n := 0
						for ; errno == 0; n++ {
							if err := unix.Kill(pid, number); err != nil {
								break
							}
							status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
							if err != nil || hasEnded(status) {
								break
							}
						}
						done <- n
					}()
					sent = <-done
				}}.ask(t, verb, ann)
				// SIGPROF ends the role that calls the helper, not the helper.
				if got.status != 0 && got.signal != syscall.Signal(number) {
					t.Errorf("%s, %d times signal %d: %+v", verb, sent, number, got)
				}
				if got.state != nil {
					checkState(t, *got.state, annUID, "ann", ann)
				}
			}
		}
	})
}

// queue is the role of a process with as many signals pending as its user may have.
func queue() {
	lockThread()
	var set unix.Sigset_t
	set.Val[0] = 1 << (40 - 1)
	fatal("block", unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil))
	info := [128]byte{}
	*(*int32)(unsafe.Pointer(&info[0])) = 40
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
	for {
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), 40, uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
			break
		}
	}
	ready()
	for {
		_, _ = unix.Poll(nil, -1)
	}
}

// TestFullQueue has a user with so many signals pending that no thread can be sent another, which is how
// Go's runtime has all threads change their identity. It must not wait for that without end.
func TestFullQueue(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		who := []int{annUID}
		if capable(t, unix.CAP_SYS_RESOURCE) {
			// Also where the service has: the helper may lift its own limit then.
			must(t, unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &unix.Rlimit{Cur: 20000, Max: 20000}, nil))
			who = append(who, serviceUID)
		}
		for _, uid := range who {
			queued := start(t, uid, "queue")
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", queued.Process.Pid))
			must(t, err)
			t.Logf("user %d: signals %s", uid, statusField(status, "SigQ"))
			for _, verb := range []string{"actor", "kill"} {
				got := asking{}.ask(t, verb, ann)
				if got.status != 0 {
					t.Errorf("%s while user %d has full queues: %+v", verb, uid, got)
				}
				if verb == "actor" && got.state != nil {
					checkState(t, *got.state, annUID, "ann", ann)
				}
			}
		}
	})
}
