package launch

import (
	"os/exec"
	"syscall"
)

// bind uses PR_SET_PDEATHSIG (prctl(2)), which stays across the execve of a program that
// is not set-user-ID.
func bind(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return nil
}
