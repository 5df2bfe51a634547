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
}
