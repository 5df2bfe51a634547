package posix

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bourn"
)

// How long the end of a user's processes is waited for, and how often it is looked.
const (
	endWithin = 10 * time.Second
	endPause  = 10 * time.Millisecond
)

func endProcesses(uid, shield, helper uint32) error {
	others, err := runningAs("/proc", shield, helper)
	if err != nil {
		return err
	}
	if len(others) > 0 { // they would be signalled too
		return bourn.WithHint(fmt.Errorf("cannot end what user %d runs: %w: user %d, who must be nobody, runs %s", uid, bourn.ErrConflict, shield, strings.Join(others, ", ")),
			"that number is of the range of people: look who uses it")
	}
	for end := time.Now().Add(endWithin); ; time.Sleep(endPause) {
		// First, and then looked: what is there when it is looked was forked by nobody who is left.
		if err := killAs(uid, shield); err != nil {
			return fmt.Errorf("cannot end what user %d runs: %w", uid, err)
		}
		left, err := runningAs("/proc", uid, helper)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(end) {
			return bourn.WithHint(fmt.Errorf("cannot end what user %d runs: %w: it does not end: %s", uid, bourn.ErrUnavailable, strings.Join(left, ", ")),
				"what waits for a device or a file system ends when that answers; then plan again")
		}
	}
}

// killAs signals all processes of a user from a thread that is the shield, and the user in
// effect alone. The thread ends with it: it cannot become root again.
func killAs(uid, shield uint32) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the runtime ends the thread with this goroutine
		if unix.Gettid() == unix.Getpid() {
			// What others see of this process is its first thread.
			done <- killAs(uid, shield)
			runtime.UnlockOSThread()
			return
		}
		done <- killHere(uid, shield)
	}()
	return <-done
}

// killHere changes this thread alone, so by raw calls: those of package syscall change all.
func killHere(uid, shield uint32) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(shield), uintptr(uid), uintptr(shield)); errno != 0 {
		return bourn.WithHint(fmt.Errorf("%w: cannot become them: %w", bourn.ErrDenied, errno), "run this as root, with CAP_SETUID")
	}
	// As root, -1 would be everybody.
	ruid, euid, suid := unix.Getresuid()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets, none [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if ruid != int(shield) || euid != int(uid) || suid != int(shield) || sets != none {
		return fmt.Errorf("%w: the thread is still privileged", bourn.ErrInternal)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0); errno != 0 && errno != unix.ESRCH && errno != unix.EPERM {
		return fmt.Errorf("cannot signal them: %w", errno)
	}
	return nil
}

// runningAs returns the processes that have a uid as real, effective or saved one, but for
// those that have ended and for helpers.
func runningAs(proc string, uid, helper uint32) ([]string, error) {
	var found []string
	err := eachStatus(proc, func(pid string, status []byte) {
		if name, is := runs(status, uid, helper); is {
			found = append(found, pid+" ("+bourn.Printable(name)+")")
		}
	})
	return found, err
}

// eachStatus calls f with the status file of every process (proc_pid_status(5)).
func eachStatus(proc string, f func(pid string, status []byte)) error {
	dirs, err := os.ReadDir(proc)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		status, err := os.ReadFile(path.Join(proc, d.Name(), "status"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return err
		}
		f(d.Name(), status)
	}
	return nil
}

// statusFields returns the fields of a status file.
func statusFields(status []byte) map[string][]string {
	fields := map[string][]string{}
	for line := range strings.Lines(string(status)) {
		key, values, _ := strings.Cut(line, ":")
		fields[key] = strings.Fields(values)
	}
	return fields
}

// firstOf returns the first value of a field, "" for none.
func firstOf(fields map[string][]string, key string) string {
	return strings.Join(fields[key][:min(1, len(fields[key]))], "")
}

// ended reports whether a process has ended and is only waited for. One whose first thread has
// ended says that it is a zombie, and has more threads than one.
func ended(fields map[string][]string) bool {
	state, threads := firstOf(fields, "State"), firstOf(fields, "Threads")
	return (state == "Z" || state == "X") && (threads == "" || threads == "0" || threads == "1")
}

// runs reports whether a status file is of a process that runs as uid, and its name. A helper
// that ends the user's processes has helper as real and saved uid, which nothing of a person's
// can have.
func runs(status []byte, uid, helper uint32) (name string, is bool) {
	fields := statusFields(status)
	if ended(fields) {
		return "", false
	}
	ids := fields["Uid"]
	if len(ids) > 2 && ids[0] == decimal(helper) && ids[2] == ids[0] {
		return "", false
	}
	for i, v := range ids {
		if n, err := number(v); i < 3 && err == nil && n == uid {
			return firstOf(fields, "Name"), true
		}
	}
	return "", false
}
