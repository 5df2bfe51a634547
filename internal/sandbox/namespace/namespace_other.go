//go:build !linux

package namespace

import (
	"errors"

	"bourn/internal/policy"
)

// A Tree is a root under construction, and later the means to renew its masks.
type Tree struct{}

var errPlatform = errors.New("namespaces exist on Linux only")

func assert() error                             { return errPlatform }
func build(*policy.Plan, string) (*Tree, error) { return nil, errPlatform }
func (t *Tree) remask(int, string, bool) error  { return errPlatform }
func (t *Tree) reguard(int, string) error       { return errPlatform }
func (t *Tree) masked(string) bool              { return false }
func (t *Tree) seal() error                     { return errPlatform }
func loopbackUp() error                         { return errPlatform }
