package launch

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct of rt_sigaction(2), zero for the default action.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// resetSignal gives a signal its default action. signal.Reset leaves the runtime's own
// handler in place, which prints goroutines for SIGQUIT.
func resetSignal(number int) {
	var action sigaction
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0)
}
