//go:build !linux

package launch

import (
	"errors"

	"bourn"
	"bourn/internal/policy"
)

func as(*policy.User, func()) error {
	return bourn.WithHint(errors.Join(bourn.ErrWeakHost, errors.New("cannot act as another user on this system")),
		"run bourn on Linux 5.13 or newer")
}
