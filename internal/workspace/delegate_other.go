//go:build !linux

package workspace

import (
	"fmt"
	"os"

	"bourn"
)

func openRoot(Root) (*os.File, error) {
	return nil, fmt.Errorf("%w: an actor needs Linux", bourn.ErrWeakHost)
}
