package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bourn"
	"bourn/internal/daemon/instance"
	"bourn/internal/launch"
	"bourn/internal/operation"
	"bourn/internal/run"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// stopGrace is how long a control plane has between TERM and KILL.
const stopGrace = 20 * time.Second

// controlCommands are those that bournd carries out.
func (a *app) controlCommands() []*cobra.Command {
	inPlace := func(cmd *cobra.Command, _ operation.Database, _ []string) error { return a.becomeDaemon(cmd) }
	v := operation.Verbs{Serve: a.serve, Status: inPlace, Backup: inPlace, Restore: inPlace, Console: inPlace, Migrate: inPlace,
		ServeDatabase: func(cmd *cobra.Command, _ operation.DatabaseServe) error { return a.becomeDaemon(cmd) }}
	serve := operation.ServeCommand(v)
	serve.Args = takes
	db := group(operation.DatabaseCommand(v))
	for _, c := range db.Commands() {
		if c.Name() != "psql" {
			c.Args = takes
		}
	}
	return []*cobra.Command{serve, db}
}

// serve runs a control plane, or sees to the one that runs.
func (a *app) serve(cmd *cobra.Command, o operation.Serve) error {
	if !o.Background && !o.Stop && !o.Status {
		return a.becomeDaemon(cmd)
	}
	h, err := a.controlHome(cmd)
	switch {
	case err != nil:
		return err
	case o.Stop:
		return a.stopControl(h, o)
	case o.Status:
		return a.controlStatus(h, o)
	}
	return a.serveInBackground(cmd, h, o)
}

// controlHome finds $BOURN_HOME for a command about the control plane, which is none's
// inside a seal.
func (a *app) controlHome(cmd *cobra.Command) (*run.Home, error) {
	if inside() {
		return nil, refuseInside(cmd.CommandPath())
	}
	return a.findHome()
}

// becomeDaemon executes bournd in this process's place, with the same arguments.
func (a *app) becomeDaemon(cmd *cobra.Command) error {
	h, err := a.controlHome(cmd)
	if err != nil {
		return err
	}
	program, err := a.daemonProgram(h)
	if err != nil {
		return err
	}
	environ := a.daemonEnviron(h)
	if cmd.Name() == "serve" {
		environ = servingEnviron(environ)
	}
	return instance.Execute(program, append([]string{"bournd"}, a.Args...), environ)
}

func (a *app) daemonProgram(h *run.Home) (string, error) {
	return instance.Program(h.Program, a.env("PATH"))
}

// daemonEnviron is this process's environment, with $BOURN_HOME as it was found.
func (a *app) daemonEnviron(h *run.Home) []string {
	return append(slices.DeleteFunc(slices.Clone(a.Environ), func(kv string) bool { return strings.HasPrefix(kv, "BOURN_HOME=") }), "BOURN_HOME="+h.Dir)
}

// servingEnviron is an environment without the administrator's way to the database: what
// serves has no use for it, and would keep it as long as it runs.
func servingEnviron(environ []string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, operation.AdminURL+"=") })
}

func (a *app) env(name string) string {
	for _, kv := range a.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// A background is a control plane that was started, or found.
type background struct {
	operation.Started
	Log     string `json:"log"`
	Already bool   `json:"already"` // it ran before
}

// serveInBackground starts bournd in a session of its own and waits until it answers. One
// that runs already is left alone.
func (a *app) serveInBackground(cmd *cobra.Command, h *run.Home, o operation.Serve) error {
	program, err := a.daemonProgram(h)
	if err != nil {
		return err
	}
	b, err := a.alreadyRuns(h, program)
	if err != nil {
		return err
	}
	b.Log = filepath.Join(h.Dir, instance.LogName)
	if !b.Already {
		b.Started, err = a.startControl(cmd, h, program, b.Log)
		if errors.Is(err, bourn.ErrConflict) {
			// Another may have been started at the same time: it is the one then.
			if other, otherErr := a.alreadyRuns(h, program); otherErr == nil && other.Already {
				other.Log, b, err = b.Log, other, nil
			}
		}
		if err != nil {
			return err
		}
	}
	if o.JSON {
		return printJSON(a.Stdout, b)
	}
	a.printBackground(b)
	return nil
}

// alreadyWithin is how long a control plane that runs already may take until it answers.
const alreadyWithin = 2 * time.Minute

// alreadyRuns returns the control plane that runs, once it answers: it may be starting
// just now. One that is ending is waited for, and is none.
func (a *app) alreadyRuns(h *run.Home, program string) (background, error) {
	running, err := instance.Find(h.Dir)
	if err != nil || running == nil {
		return background{}, err
	}
	defer running.Close()
	for end := time.Now().Add(alreadyWithin); ; {
		s, err := a.askControl(h)
		if err == nil && s.Pid == running.Pid {
			if !running.Runs(program) {
				a.say("it executes a program that was replaced since; bourn serve --stop, and start it again")
			}
			b := background{Already: true, Started: operation.Started{Pid: s.Pid, Socket: h.Socket()}}
			for _, at := range s.Listens {
				if at != b.Socket {
					b.HTTP = "http://" + strings.Replace(at, "127.0.0.1", "localhost", 1)
				}
			}
			return b, nil
		}
		if running.Ended(50 * time.Millisecond) {
			return background{}, nil
		}
		if time.Now().After(end) {
			return background{}, bourn.WithHint(fmt.Errorf("%w: a control plane runs (process %d) and does not answer", bourn.ErrUnavailable, running.Pid),
				"bourn serve --stop ends it; "+filepath.Join(h.Dir, instance.LogName)+" may say why")
		}
	}
}

func (a *app) printBackground(b background) {
	if b.Already {
		a.printf("the control plane runs already (process %d)\n", b.Pid)
	} else {
		a.printf("the control plane runs in the background (process %d)\n", b.Pid)
	}
	a.printf("  socket  %s\n", bourn.Printable(b.Socket))
	if b.HTTP != "" {
		a.printf("  http    %s\n", b.HTTP)
	}
	a.printf("  log     %s\n", bourn.Printable(b.Log))
	a.printf("next: bourn serve --status asks how it is, bourn serve --stop ends it\n")
}

// startControl starts bournd and returns what it says when it answers, or the error that
// it ended with.
func (a *app) startControl(cmd *cobra.Command, h *run.Home, program, logAt string) (operation.Started, error) {
	if err := h.Make(); err != nil {
		return operation.Started{}, err
	}
	// What it says before it has opened its log itself.
	log, err := os.OpenFile(logAt, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return operation.Started{}, fmt.Errorf("cannot open the control plane's log: %w", err)
	}
	defer log.Close()
	ready, says, err := os.Pipe()
	if err != nil {
		return operation.Started{}, err
	}
	defer ready.Close()
	daemon := exec.Command(program, append([]string{"serve", "--log-file=" + logAt, "--ready-fd=3"}, passedOn(cmd)...)...)
	daemon.Dir, daemon.Env, daemon.Stdout, daemon.Stderr, daemon.ExtraFiles = "/", servingEnviron(a.daemonEnviron(h)), log, log, []*os.File{says}
	launch.Detach(daemon)
	err = daemon.Start()
	says.Close()
	if err != nil {
		return operation.Started{}, fmt.Errorf("cannot start the control plane: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(ready, 1<<20))
	if err != nil {
		return operation.Started{}, fmt.Errorf("cannot hear of the control plane's start: %w", err)
	}
	var answer struct {
		operation.Started
		operation.Failure
	}
	switch err := json.Unmarshal(said, &answer); {
	case err != nil:
		return operation.Started{}, bourn.WithHint(fmt.Errorf("%w: the control plane ended before it answered", bourn.ErrUnavailable), "read the end of "+logAt)
	case answer.Error.Code != "":
		return operation.Started{}, bourn.WithHint(failedStart{answer.Failure}, answer.Error.Hint)
	}
	return answer.Started, daemon.Process.Release()
}

// failedStart is the error of a control plane that could not start, as it said it.
type failedStart struct{ operation.Failure }

func (f failedStart) Error() string { return f.Failure.Error.Message }
func (f failedStart) Unwrap() error { return f.Failure.Error.Code.Err() }

// passedOn are the flags that were given and are the control plane's.
func passedOn(cmd *cobra.Command) []string {
	var all []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "background" && f.Name != "json" && !f.Hidden {
			all = append(all, "--"+f.Name+"="+f.Value.String())
		}
	})
	return all
}

// stopControl ends the control plane that runs.
func (a *app) stopControl(h *run.Home, o operation.Serve) error {
	var out struct {
		Pid     int  `json:"pid,omitempty"`
		Stopped bool `json:"stopped"`
		Killed  bool `json:"killed"`
	}
	running, err := instance.Find(h.Dir)
	if err != nil {
		return err
	}
	if running == nil {
		held, err := instance.Held(h.Dir)
		if err != nil {
			return err
		}
		if held {
			return bourn.WithHint(fmt.Errorf("%w: a control plane holds %s, and its process cannot be seen from here", bourn.ErrUnavailable, h.Dir),
				"end it where it was started: as its user, in its container")
		}
	} else {
		defer running.Close()
		if out.Killed, err = running.Stop(stopGrace); err != nil {
			return err
		}
		out.Pid, out.Stopped = running.Pid, true
	}
	switch {
	case o.JSON:
		return printJSON(a.Stdout, out)
	case !out.Stopped:
		a.printf("no control plane runs\n")
	case out.Killed:
		a.printf("the control plane is stopped (process %d); it did not end by itself and was killed\n", out.Pid)
	default:
		a.printf("the control plane is stopped (process %d)\n", out.Pid)
	}
	return nil
}

// errNoControl is the error of a command that needs a control plane where none runs.
var errNoControl = bourn.WithHint(fmt.Errorf("%w: no control plane runs", bourn.ErrUnavailable), "bourn serve --background starts it")
