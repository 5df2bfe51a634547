package workspace

import (
	"fmt"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startAlone starts a program that can start no other: whatever its configuration says, and
// whoever changes that while it runs. A filter of system calls on the thread that starts it
// refuses fork and what is like it; threads it may have. The thread is of no use for anything
// else and ends with what release tells, the program having ended: the kernel ends the program
// with it.
func (f *family) startAlone(cmd *exec.Cmd) (release func(), err error) {
	started, over := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good
		err := refuseFork()
		if err == nil {
			err = f.start(cmd)
		}
		started <- err
		<-over
	}()
	return func() { close(over) }, <-started
}

// refuseFork keeps the thread, and what it starts, from making processes, but for the one
// way that this program has of starting another (os/exec: the child has the parent's memory
// until it executes something, CLONE_VM). libc's fork never asks for that. clone3 keeps its
// flags behind a pointer, where no filter sees them; libc makes threads without it.
func refuseFork() error {
	const (
		number    = 0  // offsets in struct seccomp_data
		arguments = 16 // of the first one's lower half
		data      = unix.SECCOMP_RET_DATA
		allow     = unix.SECCOMP_RET_ALLOW
		refuse    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)&data
		absent    = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)&data
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	skipUnless := func(test uint16, k uint32, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jf: otherwise}
	}
	end := func(how uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: how} }
	program := []unix.SockFilter{
		load(number),
		skipUnless(unix.BPF_JEQ, unix.SYS_CLONE, 4),
		load(arguments),
		skipUnless(unix.BPF_JSET, unix.CLONE_VM, 1),
		end(allow),
		end(refuse),
		skipUnless(unix.BPF_JEQ, unix.SYS_CLONE3, 1),
		end(absent),
	}
	for _, call := range oldForks[runtime.GOARCH] {
		program = append(program, skipUnless(unix.BPF_JEQ, call, 1), end(refuse))
	}
	program = append(program, end(allow))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give up new privileges: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("cannot filter its system calls: %w", errno)
	}
	return nil
}

// oldForks are fork and vfork, which newer machines have not.
var oldForks = map[string][]uint32{"amd64": {57, 58}}
