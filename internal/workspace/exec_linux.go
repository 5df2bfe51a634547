package workspace

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// Limits of what is executed.
const (
	maxOutput   = 256 << 10 // bytes of each stream that are answered with
	maxExecTime = 30 * time.Minute
	endWithin   = 2 * time.Second // between TERM and KILL
)

// ExecResult is what came of a command. Output beyond the limit is left out in the middle,
// and whole in the file Spill where there is one.
type ExecResult struct {
	Status   int    `json:"status"`
	Signal   string `json:"signal,omitempty"`
	Stdout   []byte `json:"stdout"`
	Stderr   []byte `json:"stderr,omitempty"`
	LeftOut  int64  `json:"left_out,omitempty"` // bytes
	Spill    string `json:"spill,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Duration int64  `json:"duration_us"`
}

func (w *work) exec(ctx context.Context) (any, error) {
	dir := w.request.Cwd
	if dir == "" {
		dir = w.actor.Cwd
	}
	place, resolved, err := w.resolve(dir, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	if err := w.opened(bourn.Execute, dir, resolved); err != nil {
		return nil, err
	}
	argv := w.request.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-c", w.request.Command}
	}
	return w.command(ctx, argv, procPath(place), resolved)
}

// command runs a program in a process group of its own, which ends with the call.
func (w *work) command(ctx context.Context, argv []string, dir, shown string) (*ExecResult, error) {
	limit := w.request.Timeout
	if limit <= 0 || limit > maxExecTime {
		limit = maxExecTime
	}
	timed, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append([]string{}, w.actor.Env...), append(w.request.Env, "PWD="+shown)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	out, errs := &tail{emit: w.chunk}, &tail{}
	cmd.Stdout, cmd.Stderr = out, errs
	// What the program leaves behind may keep its output open.
	cmd.WaitDelay = endWithin
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, &Problem{Code: bourn.CodeNotFound, Reason: "not_executable", Text: fmt.Sprintf("cannot execute %q: %v", argv[0], unwrapped(err)), Hint: "is it granted, and in PATH?"}
	}
	ended := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() {
		select {
		case <-ended:
		case <-timed.Done():
			group(cmd.Process.Pid, unix.SIGTERM)
			select {
			case <-ended:
			case <-time.After(endWithin):
			}
		}
		// Also what the program started and did not wait for.
		group(cmd.Process.Pid, unix.SIGKILL)
	})
	err := cmd.Wait()
	close(ended)
	ending.Wait()
	if ctx.Err() != nil {
		return nil, cancelled
	}
	r := &ExecResult{Stdout: out.bytes(), Stderr: errs.bytes(), LeftOut: out.left() + errs.left(), TimedOut: timed.Err() != nil, Duration: time.Since(began).Microseconds()}
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
	case errors.As(err, &exit):
		r.Status = exit.ExitCode()
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			r.Signal, r.Status = unix.SignalName(st.Signal()), 128+int(st.Signal())
		}
	default:
		return nil, fmt.Errorf("%w: the command cannot be waited for: %w", bourn.ErrInternal, err)
	}
	return r, nil
}

// group signals a process group; one that has ended is none.
func group(pid int, signal unix.Signal) { _ = unix.Kill(-pid, signal) }

// A tail keeps the beginning and the end of what is written to it.
type tail struct {
	emit      func([]byte) error
	head, end []byte
	total     int64
}

// Write implements io.Writer. It takes everything, so that no program waits for a reader.
func (t *tail) Write(p []byte) (int, error) {
	t.total += int64(len(p))
	if t.emit != nil {
		_ = t.emit(p) // an owner that has gone ends the call by itself
	}
	rest := p
	if room := maxOutput/2 - len(t.head); room > 0 {
		n := min(room, len(rest))
		t.head = append(t.head, rest[:n]...)
		rest = rest[n:]
	}
	t.end = append(t.end, rest...)
	if over := len(t.end) - maxOutput/2; over > maxOutput/2 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(p), nil
}

func (t *tail) trimmed() []byte {
	if over := len(t.end) - maxOutput/2; over > 0 {
		return t.end[over:]
	}
	return t.end
}

func (t *tail) bytes() []byte {
	if t.left() == 0 {
		return append(append([]byte{}, t.head...), t.trimmed()...)
	}
	mark := fmt.Sprintf("\n… %d bytes left out …\n", t.left())
	return append(append(append([]byte{}, t.head...), mark...), t.trimmed()...)
}

func (t *tail) left() int64 { return t.total - int64(len(t.head)) - int64(len(t.trimmed())) }

// gitSafe switches off everything by which a repository makes git execute a program.
var gitSafe = []string{"git", "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat",
	"-c", "diff.external=", "-c", "core.untrackedCache=false", "-c", "submodule.recurse=false"}

// git runs status or diff on a path, with nothing of the repository's executed.
func (w *work) git(ctx context.Context) (any, error) {
	place, resolved, err := w.resolve(w.request.Path, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	if err := w.opened(bourn.Read, w.request.Path, resolved); err != nil {
		return nil, err
	}
	argv := append([]string{}, gitSafe...)
	switch w.request.Command {
	case "status":
		argv = append(argv, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty", "--", ".")
	case "diff":
		argv = append(argv, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--", ".")
	case "diff --staged":
		argv = append(argv, "diff", "--staged", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--", ".")
	default:
		return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: "git is asked for its status or diff"}
	}
	if w.request.Timeout == 0 {
		w.request.Timeout = 2 * time.Minute
	}
	return w.command(ctx, argv, procPath(place), resolved)
}
