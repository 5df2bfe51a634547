package survey

import (
	"os"
	"syscall"
)

// A handle is a directory, by path: links above its last component are not refused here.
type handle struct{ path string }

func openDir(n *node) (handle, error) {
	o, err := stat(n.fullPath())
	if err == nil && o.Type == Symlink {
		err = syscall.ELOOP
	} else if err == nil && o.Type != Dir {
		err = syscall.ENOTDIR
	}
	return handle{n.fullPath()}, err
}

func (h handle) close() {}

func (h handle) stat(name, path string) (Object, error) { return stat(path) }

func (h handle) each(n *node, _ *[]byte, f func(entry)) error {
	d, err := os.OpenFile(n.fullPath(), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		f(entry{name: []byte(name)})
	}
	return err
}

func swapped(err error) bool {
	return err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.ELOOP
}

func (h handle) device() (uint64, error) { return 0, syscall.ENOTSUP }

func (h handle) honest() bool { return false }
