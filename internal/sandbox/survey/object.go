package survey

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
)

// A Type says what stands at a path. The zero value is Unknown.
type Type uint8

const (
	Unknown Type = iota // could not be told, for want of permission
	Missing             // nothing stands there
	Dir
	File
	Symlink
	Socket
	Fifo
	Device // a character or block device
)

var typeNames = [...]string{"unknown", "missing", "directory", "file", "symlink", "socket", "fifo", "device"}

func (t Type) String() string { return typeNames[t] }

// An Object is what stands at a path; a symbolic link is itself, not its target.
type Object struct {
	Path  string
	Type  Type
	Dev   uint64 // as in stat(2)
	Ino   uint64
	Born  int64 // nanoseconds since 1970, 0 if the file system does not tell
	Nlink uint64
	Size  int64
	Mode  uint32 // type and permission bits, as in stat(2)
	Uid   uint32
}

// ID returns the identity of o.
func (o Object) ID() ID { return ID{o.Dev, o.Ino, o.Born} }

// An ID identifies an object whatever its names are. Born tells an inode from a later one that reuses its number.
type ID struct {
	Dev, Ino uint64
	Born     int64 // 0: not known, and not compared
}

// Is reports whether both name the same object; an unknown birth is no difference.
func (id ID) Is(other ID) bool {
	return id.Dev == other.Dev && id.Ino == other.Ino && (id.Born == other.Born || id.Born == 0 || other.Born == 0)
}

// Stat examines what stands at path and does not follow a symbolic link there (those on the way it follows). What is not there is an
// Object of type Missing and no error; that includes a path below something which is no directory. An error, such as EACCES
// on the way, means that it could not be told.
func Stat(path string) (Object, error) {
	o, err := stat(path)
	if absent(err) {
		return Object{Path: path, Type: Missing}, nil
	}
	if err != nil {
		return Object{Path: path}, fmt.Errorf("cannot examine %q: %w", path, err)
	}
	return o, nil
}

// Stands reports whether something stands at path, with no symbolic link on the way to it
// nor there.
func Stands(path string) bool {
	_, err := plain(path)
	return err == nil
}

// HasAny reports whether one of the names stands in the directory dir, a real path. What cannot be told counts as there. It is for
// those who ask of hundreds of directories and seldom find something.
func HasAny(dir string, names []string) bool {
	h, err := openDir(&node{name: dir, path: dir, size: len(dir), byName: true})
	if err != nil {
		return true
	}
	defer h.close()
	for _, name := range names {
		if _, err := h.stat(name, join(dir, name)); !absent(err) {
			return true
		}
	}
	return false
}

// Unreadable is a directory that a walk should have read and could not: what lies below is not known.
type Unreadable struct {
	Path string
	Err  error
}

func absent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
}

// absolute reports whether p is an absolute path without empty, "." and ".." components.
func absolute(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p && !strings.Contains(p, "\x00")
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// under reports whether p is dir or lies below it, by name alone.
func under(dir, p string) bool {
	return dir == "/" || p == dir || len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}

func typeOf(mode uint32) Type {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return Dir
	case syscall.S_IFREG:
		return File
	case syscall.S_IFLNK:
		return Symlink
	case syscall.S_IFSOCK:
		return Socket
	case syscall.S_IFIFO:
		return Fifo
	case syscall.S_IFCHR, syscall.S_IFBLK:
		return Device
	}
	return Unknown
}
