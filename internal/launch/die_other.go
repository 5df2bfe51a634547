//go:build !linux

package launch

import (
	"os/signal"
	"syscall"
)

func resetSignal(number int) { signal.Reset(syscall.Signal(number)) }
