package seccomp

import "golang.org/x/sys/unix"

var archEPERM = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM}

// The argument that holds the mode, and the flags before it.
var (
	archModes = map[uint32]int{unix.SYS_CHMOD: 1, unix.SYS_CREAT: 1, unix.SYS_MKDIR: 1, unix.SYS_MKNOD: 1}
	archOpens = map[uint32]int{unix.SYS_OPEN: 2}
)

var archModeRows = []modeRow{
	{"chmod u+s", unix.SYS_CHMOD, "file", args(thePath, 0o4755), eperm, 0o644, 0o4755},
	{"chmod", unix.SYS_CHMOD, "file", args(thePath, 0o755), ok, 0o755, 0o755},
	{"open", unix.SYS_OPEN, "nothing", args(thePath, unix.O_CREAT|unix.O_RDWR, 0o4755), eperm, absent, 0o4755},
	{"open what is there", unix.SYS_OPEN, "file", args(thePath, unix.O_RDONLY, 0o4755), ok, 0o644, 0o644},
	{"open ordinary", unix.SYS_OPEN, "nothing", args(thePath, unix.O_CREAT|unix.O_RDWR, 0o666), ok, 0o644, 0o644},
	{"creat", unix.SYS_CREAT, "nothing", args(thePath, 0o4700), eperm, absent, 0o4700},
	{"creat ordinary", unix.SYS_CREAT, "nothing", args(thePath, 0o600), ok, 0o600, 0o600},
	{"mknod", unix.SYS_MKNOD, "nothing", args(thePath, unix.S_IFREG|0o4755), eperm, absent, 0o4755},
	{"mkdir", unix.SYS_MKDIR, "nothing", args(thePath, 0o4755), eperm, absent, 0o755},
	{"mkdir ordinary", unix.SYS_MKDIR, "nothing", args(thePath, 0o1777), ok, 0o1755, 0o1755},
}
