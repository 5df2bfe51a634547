//go:build !linux

package launch

import (
	"errors"
	"os/exec"

	"bourn"
)

func bind(*exec.Cmd) error {
	return bourn.WithHint(errors.Join(bourn.ErrWeakHost, errors.New("cannot bind a process to its parent on this system")),
		"run bourn on Linux 5.13 or newer")
}
