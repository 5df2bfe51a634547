//go:build !linux && !darwin

package terminal

import (
	"errors"

	"golang.org/x/sys/unix"
)

const controllingTerminal = ""

func readModes(int) (*unix.Termios, error) {
	return nil, errors.ErrUnsupported
}

func setModes(int, *unix.Termios) error {
	return errors.ErrUnsupported
}
