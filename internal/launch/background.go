package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// Signals that a process in the background is sent by bourn itself.
const (
	Terminate = syscall.SIGTERM // asks it to end
	EndNow    = syscall.SIGQUIT // ends its grace
)

// Detach has a command start as the leader of a session of its own: it has no terminal,
// and what a closed one signals does not reach it (setsid(2)).
func Detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Bind has a command that is not yet started end with the thread that starts it, whatever
// ends that. The thread must live as long as the process: it is the main one. Where the
// system has nothing of the kind it is an error.
func Bind(cmd *exec.Cmd) error { return bind(cmd) }

// Ended says how a process that has been waited for ended.
func Ended(s *os.ProcessState) Result {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Result{Signal: int(ws.Signal())}
	}
	return Result{Status: s.ExitCode()}
}
