package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	firstX32  = 0 // there is none
)

var archTable = [...]entry{}
