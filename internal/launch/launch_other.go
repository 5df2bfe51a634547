//go:build !linux

package launch

import (
	"errors"
	"os"

	"bourn"
	"bourn/internal/policy"
)

func run(Config) (Result, error) {
	return Result{}, bourn.WithHint(
		errors.Join(bourn.ErrWeakHost, errors.New("cannot seal: this build of bourn has no sealing backend for this system")),
		"run bourn on Linux 5.13 or newer")
}

func initRole() { os.Exit(125) }

func closeInherited() {}

// A Child is a child process that waits for its order.
type Child struct{}

func spawn(_, _, _ *os.File, _ bool, _ *policy.User) *Child { return &Child{} }
func (c *Child) discard()                                   {}
