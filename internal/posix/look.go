package posix

import (
	"fmt"
	"os"
	"syscall"

	"bourn"
)

// A File is what stands at a path, and what its mount says.
type File struct {
	Dir
	NoSUID bool   // no program there becomes its owner (mount(8))
	Names  uint64 // how many names it has: hard links, with this one
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
	info, err := os.Lstat(name)
	if err != nil {
		return File{}, fmt.Errorf("cannot look at %s: %w", name, err)
	}
	file := File{Dir: dir, NoSUID: noSUID}
	if st, is := info.Sys().(*syscall.Stat_t); is {
		file.Names = uint64(st.Nlink)
	}
	return file, nil
}
