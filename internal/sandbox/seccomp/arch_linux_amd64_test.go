package seccomp

import "golang.org/x/sys/unix"

var archEPERM = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM}
