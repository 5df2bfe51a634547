package survey

import "golang.org/x/sys/unix"

// A place is a position of a resolution, held by a descriptor that gives no access (O_PATH).
type place struct {
	fd     int
	object Object
}

const pathOnly = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

func topPlace() (place, error) {
	fd, err := unix.Open("/", pathOnly|unix.O_DIRECTORY, 0)
	if err != nil {
		return place{}, err
	}
	o, err := statAt(fd, "", "/")
	if err != nil {
		unix.Close(fd)
	}
	return place{fd, o}, err
}

func (p place) close() { unix.Close(p.fd) }

// step opens name in p; for a symbolic link it returns the link itself and its target.
func (p place) step(name string) (next place, target string, err error) {
	if p.object.Type != Dir {
		return place{}, "", unix.ENOTDIR
	}
	next.fd, err = unix.Openat(p.fd, name, pathOnly, 0)
	if err != nil {
		return place{}, "", err
	}
	next.object, err = statAt(next.fd, "", stepPath(p.object.Path, name))
	if err == nil && next.object.Type == Symlink {
		target, err = readLink(next.fd)
		if err == nil && magic(p.fd, next.fd, name) {
			err = unix.ELOOP
		}
	}
	if err != nil {
		next.close()
		return place{}, "", err
	}
	return next, target, nil
}

func readLink(fd int) (string, error) {
	for buf := make([]byte, 256); ; buf = make([]byte, 2*len(buf)) {
		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil {
			return "", err
		}
		if n < len(buf) {
			return string(buf[:n]), nil
		}
	}
}

// magic reports whether the link leads elsewhere than its text says, as those in /proc/PID/fd do. Where the kernel cannot say
// (before openat2), every link in /proc counts.
func magic(dir, link int, name string) bool {
	var s unix.Statfs_t
	if err := unix.Fstatfs(link, &s); err != nil || s.Type != unix.PROC_SUPER_MAGIC {
		return err != nil
	}
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err == nil {
		unix.Close(fd)
	}
	return err != nil && err != unix.ENOENT
}

// plain returns what stands at a path of which no component is a symbolic link. With ENOENT none is up to where something is missing;
// any other error may mean anything.
func plain(path string) (Object, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return Object{}, err
	}
	defer unix.Close(fd)
	return statAt(fd, "", path)
}
