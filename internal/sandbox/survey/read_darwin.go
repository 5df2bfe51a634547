package survey

import (
	"fmt"
	"os"
	"syscall"
)

// openPlain examines by name, and sees that what it opens is what it examined.
func openPlain(root string, names []string) (*os.File, Object, error) {
	top, err := stat(root)
	if err == nil {
		err = notPlain(top, false)
	}
	path, o := root, top
	for i, name := range names {
		if err != nil {
			return nil, top, err
		}
		path = join(path, name)
		if o, err = stat(path); err == nil {
			err = notPlain(o, i == len(names)-1)
		}
	}
	if err != nil {
		return nil, top, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, top, err
	}
	var s syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &s); err != nil || s.Ino != o.Ino || uint64(s.Dev) != o.Dev {
		f.Close()
		return nil, top, fmt.Errorf("%w: %s is replaced while it is read", ErrNotPlain, path)
	}
	return f, top, nil
}
