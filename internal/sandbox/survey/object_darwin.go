package survey

import "syscall"

func stat(path string) (Object, error) {
	var s syscall.Stat_t
	if err := syscall.Lstat(path, &s); err != nil {
		return Object{}, err
	}
	return Object{Path: path, Type: typeOf(uint32(s.Mode)), Dev: uint64(s.Dev), Ino: s.Ino, Born: s.Birthtimespec.Nano(),
		Nlink: uint64(s.Nlink), Size: s.Size, Mode: uint32(s.Mode), Uid: s.Uid}, nil
}
