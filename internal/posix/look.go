package posix

import (
	"fmt"

	"bourn"
)

// A File is what stands at a path, and what its mount says.
type File struct {
	Dir
	NoSUID bool // no program there becomes its owner (mount(8))
}

// Look returns what stands at a path, a link itself; ErrNotFound where there is nothing. It is
// for a checkup: what is acted upon is opened.
func Look(name string) (File, error) {
	dir, exists, err := lookAt(name)
	if err != nil {
		return File{}, fmt.Errorf("cannot look at %s: %w", name, err)
	}
	if !exists {
		return File{}, fmt.Errorf("%w: %s", bourn.ErrNotFound, name)
	}
	noSUID, err := ignoresSUID(name)
	if err != nil {
		return File{}, fmt.Errorf("cannot look at the mount of %s: %w", name, err)
	}
	return File{dir, noSUID}, nil
}
