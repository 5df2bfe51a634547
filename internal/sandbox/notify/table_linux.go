//go:build amd64 || arm64

package notify

import "golang.org/x/sys/unix"

// A how says where the operation of a call comes from.
type how uint8

const (
	reads   how = iota
	writes      // creating, removing, renaming and changing included
	execs       // of the file itself, for an empty path with AT_EMPTY_PATH
	byFlags     // from the flags of open(2), in the argument
	byHow       // from struct open_how, which the argument points to
	byMode      // from the mode of access(2), in the argument
)

// A place is where a call names a file: the arguments that hold the path and the
// descriptor of the directory. The zero place is none.
type place struct{ dir, path uint8 }

// Arguments are counted from 1 in the table, so that 0 is none.
func at(dir, path uint8) place { return place{dir, path} }

// cwd is a path that is relative to the working directory only.
func cwd(path uint8) place { return place{0, path} }

// A call is a system call that is reported.
type call struct {
	nr   uint32
	name string
	how  how
	arg  uint8 // of how; for execs of the flags
	// place is where the operation is done.
	place place
	// from is the old name: for renaming it is written, for linking it is read.
	from    place
	fromHow how
}

// table holds the calls that amd64 and arm64 share, archTable the rest. The filter compares
// in this order, so the frequent ones come first.
var table = [...]call{
	{nr: unix.SYS_OPENAT, name: "openat", how: byFlags, arg: 3, place: at(1, 2)},
	{nr: unix.SYS_NEWFSTATAT, name: "newfstatat", place: at(1, 2), arg: 4},
	{nr: unix.SYS_STATX, name: "statx", place: at(1, 2), arg: 3},
	{nr: unix.SYS_READLINKAT, name: "readlinkat", place: at(1, 2)},
	{nr: unix.SYS_FACCESSAT, name: "faccessat", how: byMode, arg: 3, place: at(1, 2)},
	{nr: unix.SYS_FACCESSAT2, name: "faccessat2", how: byMode, arg: 3, place: at(1, 2)},
	{nr: unix.SYS_EXECVE, name: "execve", how: execs, place: cwd(1)},
	{nr: unix.SYS_EXECVEAT, name: "execveat", how: execs, arg: 5, place: at(1, 2)},
	{nr: unix.SYS_OPENAT2, name: "openat2", how: byHow, arg: 3, place: at(1, 2)},
	{nr: unix.SYS_UNLINKAT, name: "unlinkat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_MKDIRAT, name: "mkdirat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_MKNODAT, name: "mknodat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_RENAMEAT, name: "renameat", how: writes, place: at(3, 4), from: at(1, 2), fromHow: writes},
	{nr: unix.SYS_RENAMEAT2, name: "renameat2", how: writes, place: at(3, 4), from: at(1, 2), fromHow: writes},
	{nr: unix.SYS_LINKAT, name: "linkat", how: writes, place: at(3, 4), from: at(1, 2), fromHow: reads},
	{nr: unix.SYS_SYMLINKAT, name: "symlinkat", how: writes, place: at(2, 3)},
	{nr: unix.SYS_FCHMODAT, name: "fchmodat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_FCHMODAT2, name: "fchmodat2", how: writes, place: at(1, 2)},
	{nr: unix.SYS_FCHOWNAT, name: "fchownat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_UTIMENSAT, name: "utimensat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_TRUNCATE, name: "truncate", how: writes, place: cwd(1)},
	{nr: unix.SYS_SETXATTR, name: "setxattr", how: writes, place: cwd(1)},
	{nr: unix.SYS_LSETXATTR, name: "lsetxattr", how: writes, place: cwd(1)},
	{nr: unix.SYS_REMOVEXATTR, name: "removexattr", how: writes, place: cwd(1)},
	{nr: unix.SYS_LREMOVEXATTR, name: "lremovexattr", how: writes, place: cwd(1)},
	{nr: unix.SYS_SETXATTRAT, name: "setxattrat", how: writes, place: at(1, 2)},
	{nr: unix.SYS_REMOVEXATTRAT, name: "removexattrat", how: writes, place: at(1, 2)},
}
