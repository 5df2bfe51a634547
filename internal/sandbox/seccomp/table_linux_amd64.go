package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// firstX32 is __X32_SYSCALL_BIT: x32 has the same architecture as amd64 and numbers
	// from here on.
	firstX32 = 0x40000000
)

var archTable = [...]entry{
	{unix.SYS_IOPL, refused, unix.EPERM, "reaches hardware"},
	{unix.SYS_IOPERM, refused, unix.EPERM, "reaches hardware"},

	{unix.SYS_CHMOD, byMode1, 0, "makes set-user-ID programs"},
	{unix.SYS_OPEN, byOpen, 0, "makes set-user-ID programs"},
	{unix.SYS_CREAT, byMode1, 0, "makes set-user-ID programs"},
	{unix.SYS_MKNOD, byMode1, 0, "makes set-user-ID programs"},
	{unix.SYS_MKDIR, byMode1, 0, "asks for a set-user-ID bit, which Linux would drop"},
}
