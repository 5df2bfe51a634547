//go:build !linux

package daemon

import (
	"fmt"
	"os"

	"bourn"
)

func lockHome(string) (func(), error) {
	return nil, fmt.Errorf("%w: the control plane runs on Linux only", bourn.ErrWeakHost)
}

func ownHome(string) error { return nil }

func foreign(string) bool { return true }

func noSuchAddress(error) bool { return false }

// StopSignals are the signals that end a control plane in order.
func StopSignals() []os.Signal { return []os.Signal{os.Interrupt} }
