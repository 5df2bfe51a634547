package survey

import (
	"errors"

	"golang.org/x/sys/unix"
)

func stat(path string) (Object, error) { return statAt(unix.AT_FDCWD, path, path) }

// statAt examines name below dir, or dir itself if name is empty, and calls it path.
func statAt(dir int, name, path string) (Object, error) {
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var s unix.Statx_t
	err := restart(func() error { return unix.Statx(dir, name, flags, mask, &s) })
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // old kernels and old seccomp filters
		return fstatAt(dir, name, path, flags)
	}
	if err != nil {
		return Object{}, err
	}
	o := Object{Path: path, Type: typeOf(uint32(s.Mode)), Dev: unix.Mkdev(s.Dev_major, s.Dev_minor), Ino: s.Ino,
		Nlink: uint64(s.Nlink), Size: int64(s.Size), Mode: uint32(s.Mode), Uid: s.Uid}
	if s.Mask&unix.STATX_BTIME != 0 {
		o.Born = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	return o, nil
}

func fstatAt(dir int, name, path string, flags int) (Object, error) {
	var s unix.Stat_t
	if err := restart(func() error { return unix.Fstatat(dir, name, &s, flags) }); err != nil {
		return Object{}, err
	}
	return Object{Path: path, Type: typeOf(s.Mode), Dev: uint64(s.Dev), Ino: s.Ino,
		Nlink: uint64(s.Nlink), Size: s.Size, Mode: s.Mode, Uid: s.Uid}, nil
}

// restart repeats f while a signal interrupts it, which FUSE and network file systems let happen.
func restart(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
