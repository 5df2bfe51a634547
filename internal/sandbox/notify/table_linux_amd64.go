package notify

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// archTable holds the calls that came before those with a directory descriptor. Those of
// x32 have other numbers.
var archTable = [...]call{
	{nr: unix.SYS_OPEN, name: "open", how: byFlags, arg: 2, place: cwd(1)},
	{nr: unix.SYS_CREAT, name: "creat", how: writes, place: cwd(1)},
	{nr: unix.SYS_STAT, name: "stat", place: cwd(1)},
	{nr: unix.SYS_LSTAT, name: "lstat", place: cwd(1)},
	{nr: unix.SYS_ACCESS, name: "access", how: byMode, arg: 2, place: cwd(1)},
	{nr: unix.SYS_READLINK, name: "readlink", place: cwd(1)},
	{nr: unix.SYS_UNLINK, name: "unlink", how: writes, place: cwd(1)},
	{nr: unix.SYS_MKDIR, name: "mkdir", how: writes, place: cwd(1)},
	{nr: unix.SYS_RMDIR, name: "rmdir", how: writes, place: cwd(1)},
	{nr: unix.SYS_MKNOD, name: "mknod", how: writes, place: cwd(1)},
	{nr: unix.SYS_RENAME, name: "rename", how: writes, place: cwd(2), from: cwd(1), fromHow: writes},
	{nr: unix.SYS_LINK, name: "link", how: writes, place: cwd(2), from: cwd(1), fromHow: reads},
	{nr: unix.SYS_SYMLINK, name: "symlink", how: writes, place: cwd(2)},
	{nr: unix.SYS_CHMOD, name: "chmod", how: writes, place: cwd(1)},
	{nr: unix.SYS_CHOWN, name: "chown", how: writes, place: cwd(1)},
	{nr: unix.SYS_LCHOWN, name: "lchown", how: writes, place: cwd(1)},
	{nr: unix.SYS_UTIME, name: "utime", how: writes, place: cwd(1)},
	{nr: unix.SYS_UTIMES, name: "utimes", how: writes, place: cwd(1)},
	{nr: unix.SYS_FUTIMESAT, name: "futimesat", how: writes, place: at(1, 2)},
}
