package launch

import (
	"os"
	"syscall"
)

// Die ends this process by the signal that ended its command, without a core of its
// own, so that whoever waits sees what they would have seen without bourn.
func Die(number int) {
	sig := syscall.Signal(number)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	resetSignal(number)
	_ = syscall.Kill(syscall.Getpid(), sig)
	os.Exit(128 + number)
}
