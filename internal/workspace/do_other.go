//go:build !linux

package workspace

import (
	"context"
	"fmt"

	"bourn"
)

// A family is empty where nothing is executed.
type family struct{}

func (*family) adopt(bool) {}
func (*family) end()       {}

// do performs nothing: what an actor needs is Linux's.
func (w *work) do(context.Context) (any, error) {
	return nil, fmt.Errorf("%w: an actor needs Linux", bourn.ErrWeakHost)
}
