package placeholder

import (
	"errors"
	"os"

	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

func open(path string) (*Dir, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := openat2(path, &how)
	if errors.Is(err, unix.EACCES) { // it may be written and not listed
		how.Flags |= unix.O_PATH
		fd, err = openat2(path, &how)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{fd, path}, nil
}

func openat2(path string, how *unix.OpenHow) (fd int, err error) {
	err = restart(func() error {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, how)
		return err
	})
	return fd, err
}

func (d *Dir) close() { unix.Close(d.file) }

// sync settles nothing where a directory may not be listed, or its file system knows no such thing.
func (d *Dir) sync() error {
	err := restart(func() error { return unix.Fsync(d.file) })
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return d.failed("sync", "", err)
}

func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// stat examines a name, or the directory itself for "".
func (d *Dir) stat(name string) (State, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var s unix.Statx_t
	err := restart(func() error { return unix.Statx(d.file, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &s) })
	if err != nil {
		return State{}, d.failed("stat", name, err)
	}
	out := State{
		Object:  policy.Object{Dev: unix.Mkdev(s.Dev_major, s.Dev_minor), Ino: s.Ino},
		Changed: s.Ctime.Sec*1e9 + int64(s.Ctime.Nsec),
		Dir:     s.Mode&unix.S_IFMT == unix.S_IFDIR,
		Empty:   s.Mode == unix.S_IFREG && s.Size == 0,
	}
	if s.Mask&unix.STATX_BTIME != 0 {
		out.Object.Born = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	return out, nil
}

func (d *Dir) make(temp string, dir bool) (State, error) {
	err := restart(func() error {
		if dir {
			return unix.Mkdirat(d.file, temp, 0o755)
		}
		fd, err := unix.Openat(d.file, temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return State{}, d.failed("make", temp, err)
	}
	return d.stat(temp)
}

// place renames without replacing. Where the file system cannot (vfat, some of the network)
// a file gets its name as a link, which does not replace either.
func (d *Dir) place(temp, name string) error {
	err := d.rename(temp, name)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		if linkErr := restart(func() error { return unix.Linkat(d.file, temp, d.file, name, 0) }); linkErr == nil || errors.Is(linkErr, unix.EEXIST) {
			if err = linkErr; err == nil {
				err = unix.Unlinkat(d.file, temp, 0)
			}
		}
	}
	return d.failed("make", name, err)
}

func (d *Dir) rename(from, to string) error {
	return restart(func() error { return unix.Renameat2(d.file, from, d.file, to, unix.RENAME_NOREPLACE) })
}

// remove moves a file to a name of its own first and looks at it again there: no call
// removes a name only if it is a certain object's.
func (d *Dir) remove(name, temp string, want State, sameBoot bool) error {
	s, err := d.stat(name)
	switch {
	case err != nil:
		return err
	case !s.Is(want, sameBoot):
		return d.failed("remove", name, ErrOther)
	case want.Dir:
		err := restart(func() error { return unix.Unlinkat(d.file, name, unix.AT_REMOVEDIR) })
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			err = ErrFilled
		}
		return d.failed("remove", name, err)
	}
	if name != temp {
		switch err := d.rename(name, temp); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			temp = name // such a file system leaves the instant between look and removal
		case err != nil:
			return d.failed("remove", name, err)
		}
	}
	want.Changed = 0 // the rename may have changed it
	if s, err = d.stat(temp); err != nil {
		return err
	}
	if !s.Is(want, sameBoot) {
		return errors.Join(d.failed("remove", name, ErrOther), d.rename(temp, name))
	}
	return d.failed("remove", name, restart(func() error { return unix.Unlinkat(d.file, temp, 0) }))
}

func (d *Dir) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: d.path + "/" + name, Err: err}
}

// restart repeats f while a signal interrupts it.
func restart(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
