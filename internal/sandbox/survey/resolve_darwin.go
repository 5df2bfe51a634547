package survey

import (
	"os"
	"syscall"
)

// A place is a position of a resolution.
type place struct{ object Object }

func topPlace() (place, error) {
	o, err := stat("/")
	return place{o}, err
}

func (p place) close() {}

// step looks name up in p; for a symbolic link it returns the link itself and its target.
func (p place) step(name string) (next place, target string, err error) {
	if p.object.Type != Dir {
		return place{}, "", syscall.ENOTDIR
	}
	next.object, err = stat(stepPath(p.object.Path, name))
	if err == nil && next.object.Type == Symlink {
		target, err = os.Readlink(next.object.Path)
	}
	return next, target, err
}

func plain(string) (Object, error) { return Object{}, syscall.ENOTSUP }
