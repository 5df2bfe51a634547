package runtest

import (
	"os/exec"
	"syscall"
)

// apart gives a command a mount namespace of its own. What it mounts stays there: its mounts
// are made private first (syscall.SysProcAttr, Unshareflags).
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
}
