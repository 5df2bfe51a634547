package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bourn"

	"golang.org/x/sys/unix"
)

// Limits of what is executed.
const (
	maxExecTime = 30 * time.Minute
	endWithin   = 2 * time.Second       // between TERM and KILL, when time is up
	cancelGrace = 50 * time.Millisecond // and when nobody waits for it any more
	reapEvery   = time.Second
)

// exec executes a program, or a shell's text.
func (w *work) exec(ctx context.Context) (any, error) {
	r := &w.request
	p, err := w.resolve(cmpOr(r.Cwd, w.actor.Cwd), unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := w.opened(p.given, p.at, bourn.Execute); err != nil {
		return nil, err
	}
	// Programs that are named from the directory that it really is.
	if err := w.judge(bourn.Action{Tool: r.Tool, Tier: bourn.TierWrite, Command: &bourn.Command{Text: r.Command, Argv: r.Argv, Cwd: p.at, CwdResolved: p.at, Env: r.variables()}}); err != nil {
		return nil, err
	}
	env, err := environment(w.actor.Env, r.Env)
	if err != nil {
		return nil, err
	}
	pr := &program{path: "/bin/sh", argv: []string{"/bin/sh", "-c", r.Command}, env: env, dir: p, pty: r.Pty, size: r.Size, input: w.input, timeout: r.Timeout}
	defer pr.close()
	if err := w.choose(ctx, pr); err != nil {
		return nil, err
	}
	return w.run(ctx, pr, w.chunk)
}

// choose finds what is to be executed, and judges it. Where there are no rules, what stands
// at the path is as good as what was opened there.
func (w *work) choose(ctx context.Context, pr *program) error {
	r, ruled := &w.request, w.ruled()
	switch {
	case len(r.Argv) == 0 && ruled:
		return w.named(bourn.Command{Text: r.Command}, pr)
	case len(r.Argv) == 0:
		return nil
	}
	pr.argv = r.Argv
	if ruled {
		return w.pin(ctx, pr)
	}
	var err error
	pr.path, err = w.programPath(r.Argv[0], pr.env, pr.dir)
	return err
}

// environment is what is executed with: the actor's own, and what was asked for.
func environment(own, asked []string) ([]string, error) {
	env := append([]string{}, own...)
	for _, v := range asked {
		name, _, ok := strings.Cut(v, "=")
		if !ok || !isVariable(name) || strings.IndexByte(v, 0) >= 0 {
			return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_env", Text: "what is to be set is no environment variable", Hint: "as in NAME=value; a name has letters, digits and _"}
		}
		env = append(env, v)
	}
	return env, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		if !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9') {
			return false
		}
	}
	return name != ""
}

// programPath finds a program and judges what it is, to be executed by its path.
func (w *work) programPath(name string, env []string, dir *place) (string, error) {
	p, at, err := w.program(name, env, dir)
	if err != nil {
		return "", err
	}
	return at, p.Close()
}

// program finds a program by its name, in the PATH that it gets, opens it and judges what it
// is.
func (w *work) program(name string, env []string, dir *place) (p *place, at string, err error) {
	var candidates []string
	if strings.Contains(name, "/") {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir.at, at)
		}
		candidates = []string{at}
	} else {
		for _, d := range filepath.SplitList(valueOf(env, "PATH")) {
			if filepath.IsAbs(d) && name != "" {
				candidates = append(candidates, filepath.Join(d, name))
			}
		}
	}
	for _, at := range candidates {
		p, err := w.resolve(at, 0)
		if err != nil {
			continue
		}
		if !executable(p.File) {
			p.Close()
			continue
		}
		if err := w.opened(at, p.at, bourn.Execute); err != nil {
			p.Close()
			return nil, "", err
		}
		return p, at, nil
	}
	return nil, "", notExecutable(name, fs.ErrNotExist)
}

func notExecutable(name string, err error) error {
	p := &Problem{Code: bourn.CodeNotFound, Reason: "not_found", Text: fmt.Sprintf("cannot execute %q: %v", name, unwrapped(err)), Hint: "is it granted, and in PATH?"}
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.Code, p.Reason = bourn.CodeDenied, "permission_denied"
	case errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOEXEC):
		p.Code, p.Reason, p.Hint = bourn.CodeInvalid, "operation_failed", ""
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EMFILE):
		p.Code, p.Reason, p.Hint = bourn.CodeUnavailable, "operation_failed", "the limits of the run are reached: fewer commands at once"
	}
	return p
}

// valueOf is a variable's value; the last one holds.
func valueOf(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// A program is what is to be executed.
type program struct {
	path    string
	argv    []string
	env     []string
	dir     *place
	pty     bool
	size    Size          // of the terminal
	input   *inlet        // of one that is attached, else nil
	alone   bool          // it can start no other program
	timeout time.Duration // 0 for the actor's own

	opened  []*judged // what is held and compared: scripts, then the program; empty without rules
	scripts int       // how many of them are scripts
	moves   moves     // of what leads to the scripts
}

// run runs a program in a session of its own, which ends with the call: with all that it
// started, in other sessions too.
func (w *work) run(ctx context.Context, pr *program, emit func([]byte, bool)) (*ExecResult, error) {
	limit := pr.limit()
	var id [8]byte
	rand.Read(id[:])
	mark := hex.EncodeToString(id[:])
	cmd := &exec.Cmd{Path: pr.path, Args: pr.argv, Dir: procPath(pr.dir.File)}
	cmd.Env = append(append([]string{}, pr.env...), "PWD="+pr.dir.at, callVariable+"="+mark)
	// The kernel ends it with the thread that has started it, which ends with the actor.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	s := newStreams(w.actor.Spill, pr.input, emit)
	if err := s.connect(cmd, pr.pty, pr.size); err != nil {
		s.close()
		return nil, &Problem{Code: bourn.CodeUnavailable, Reason: "operation_failed", Text: fmt.Sprintf("cannot connect the command's output: %v", unwrapped(err))}
	}
	if err := pr.check(); err != nil {
		s.close()
		return nil, err
	}
	began := time.Now()
	start, release := w.actor.family.start, func() {}
	if pr.alone {
		start = func(cmd *exec.Cmd) (err error) {
			release, err = w.actor.family.startAlone(cmd)
			return err
		}
	}
	err := start(cmd)
	defer func() { release() }()
	if err != nil {
		s.close()
		return nil, notExecutable(pr.argv[0], err)
	}
	another := pr.check()
	if another != nil {
		w.actor.family.kill(cmd.Process.Pid, mark)
	}
	s.copy()
	timedOut, err := w.await(ctx, cmd, mark, limit, pr.later(&another))
	w.actor.family.left(cmd.Process.Pid, mark)
	s.finish(ctx)
	r := &ExecResult{TimedOut: timedOut, Duration: time.Since(began).Microseconds(), Spill: s.out.finish(), SpillErr: s.errs.finish()}
	if ctx.Err() != nil {
		return nil, cancelled
	}
	if another != nil {
		return nil, another
	}
	r.Stdout, r.Stderr, r.LeftOut = s.out.bytes(), s.errs.bytes(), s.out.left()+s.errs.left()
	return r, r.ended(err)
}

// limit is how long a program may run. One that is attached ends with its owner.
func (pr *program) limit() time.Duration {
	switch {
	case pr.input != nil && pr.timeout <= 0:
		return math.MaxInt64
	case pr.timeout <= 0 || pr.timeout > maxExecTime && pr.input == nil:
		return maxExecTime
	}
	return pr.timeout
}

// ended sets how a program has ended.
func (r *ExecResult) ended(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		r.Status = exit.ExitCode()
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			r.Signal, r.Status = unix.SignalName(st.Signal()), 128+int(st.Signal())
		}
	default:
		return fmt.Errorf("%w: the command cannot be waited for: %w", bourn.ErrInternal, err)
	}
	return nil
}

// await waits for a program, and ends it when its time is up or nobody waits any more.
func (w *work) await(ctx context.Context, cmd *exec.Cmd, mark string, limit time.Duration, still func() bool) (timedOut bool, err error) {
	family, leader := &w.actor.family, cmd.Process.Pid
	var once <-chan time.Time
	if still != nil {
		opened := time.NewTimer(openedWithin)
		defer opened.Stop()
		once = opened.C
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.NewTimer(limit)
	defer late.Stop()
	every := time.NewTicker(reapEvery)
	defer every.Stop()
	gone := ctx.Done()
	kill := late.C // once it fires for the second time
	for {
		select {
		case err := <-ended:
			if once != nil {
				still()
			}
			return timedOut, err
		case <-once:
			if once = nil; !still() {
				family.kill(leader, mark)
			}
		case <-every.C:
			family.reap()
		case <-gone:
			gone = nil
			_ = unix.Kill(-leader, unix.SIGTERM)
			timedOut = true // what fires next kills
			late.Reset(cancelGrace)
		case <-kill:
			if timedOut {
				family.kill(leader, mark)
				err := <-ended
				if once != nil {
					still()
				}
				return true, err
			}
			timedOut = true
			_ = unix.Kill(-leader, unix.SIGTERM)
			late.Reset(endWithin)
		}
	}
}
