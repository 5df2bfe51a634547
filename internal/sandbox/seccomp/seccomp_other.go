//go:build !linux || !(amd64 || arm64)

package seccomp

import (
	"errors"

	"golang.org/x/net/bpf"
)

var errNoTable = errors.New("cannot filter system calls: there is no table for this system and architecture")

func filter(Options) ([]bpf.RawInstruction, error) { return nil, errNoTable }

func install([]bpf.RawInstruction) error { return errNoTable }
