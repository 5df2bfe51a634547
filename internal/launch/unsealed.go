package launch

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// RunUnsealed executes the command with the plan's environment and directory and
// without any seal: nothing in it is kept by the kernel. It exists for profiles that
// prefer running to being refused; cause is why the seal could not be made. Sealed is
// called with this process's pid before the command is started.
func RunUnsealed(c Config, cause error) (Result, error) {
	if len(c.Plan.Command) == 0 {
		return Result{}, cause
	}
	program, err := lookPath(c.Plan.Command[0], c.Plan.Cwd, c.Plan.Env)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrCommandNotFound, err)
	}
	cmd := &exec.Cmd{Path: program, Args: c.Plan.Command, Env: c.Plan.Env, Dir: c.Plan.Cwd}
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	// Before the command runs; this process lives as long as it does.
	if c.Sealed != nil {
		if err := c.Sealed(os.Getpid(), 0); err != nil {
			return Result{}, err
		}
	}
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrCommandNotExecutable, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			// A signal of the terminal has reached the command by itself; one more does
			// no harm, and one that was sent to bourn alone arrives.
			_ = cmd.Process.Signal(sig)
		case <-ended:
			ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if ok && ws.Signaled() {
				return Result{Signal: int(ws.Signal())}, nil
			}
			return Result{Status: cmd.ProcessState.ExitCode()}, nil
		}
	}
}
