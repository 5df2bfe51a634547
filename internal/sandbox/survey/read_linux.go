package survey

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openPlain goes down by descriptors that give no access (O_PATH). The last is opened again through /proc, which leads to the object
// that was examined, whatever has its name by then.
func openPlain(root string, names []string) (*os.File, Object, error) {
	h, err := openDir(&node{name: root, path: root, size: len(root), byName: true})
	if errors.Is(err, unix.ENOTDIR) {
		err = fmt.Errorf("%w: %s is no directory, or a symlink", ErrNotPlain, root)
	}
	if err != nil {
		return nil, Object{}, err
	}
	here := h.fd
	defer func() { unix.Close(here) }()
	top, err := statAt(here, "", root)
	path := root
	for i, name := range names {
		if err != nil {
			return nil, top, err
		}
		next := -1
		err = restart(func() (err error) { next, err = unix.Openat(here, name, pathOnly, 0); return err })
		if err != nil {
			return nil, top, err
		}
		unix.Close(here)
		here, path = next, join(path, name)
		var o Object
		if o, err = statAt(here, "", path); err == nil {
			err = notPlain(o, i == len(names)-1)
		}
	}
	if err != nil {
		return nil, top, err
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(here), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if absent(err) { // it was there: what is missing is /proc
		err = fmt.Errorf("cannot open %q: %v", path, err)
	}
	return f, top, err
}
