package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"bourn"
	"bourn/internal/launch"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// Statuses of a run that could not execute its command, as env(1) has them.
const (
	exitNoRun         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// grantFlags are the flags that run, plan and explain share.
type grantFlags struct {
	agent                               string
	read, write, deny, spawnDirs, names []string
}

func (f *grantFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "the agent whose profile applies")
	fl.StringArrayVar(&f.read, "read", nil, "a file or directory to be readable")
	fl.StringArrayVar(&f.write, "write", nil, "a file or directory to be writable (instead of the current directory)")
	fl.StringArrayVar(&f.deny, "deny", nil, "a path or pattern to be closed, also inside what is granted")
	fl.StringArrayVar(&f.spawnDirs, "spawn-dir", nil, "a directory whose programs may be executed; everything else but system paths may not")
	fl.StringArrayVar(&f.names, "env", nil, "an environment variable to pass")
}

// prepare plans a run from flags.
func (a *app) prepare(f *grantFlags, command []string) (*run.Prepared, error) {
	if err := a.open(); err != nil {
		return nil, err
	}
	o := run.Options{Command: command, Read: f.read, Write: f.write, Deny: f.deny, SpawnDirs: f.spawnDirs, Env: f.names}
	var err error
	if f.agent != "" {
		if o.Agent, err = bourn.ParseAgentName(f.agent); err != nil {
			return nil, err
		}
	}
	if o.Cwd, o.CwdName, err = a.where(); err != nil {
		return nil, err
	}
	return a.home.Prepare(o)
}

func (a *app) runCommand() *cobra.Command {
	var f grantFlags
	var reportFile string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command sealed",
		Long: `Run a command sealed. Without flags the current directory is writable, system paths and
the toolchains in PATH are readable, the home directory is empty, there is no network,
and the environment is built anew.

The exit status is the command's own; 125 when bourn could not start it, 126 when it
cannot be executed, 127 when it is not found.`,
		Example: `  bourn run -- claude
  bourn run --deny .env --deny '**/*.pem' -- npm test
  bourn run --read ~/src/lib --env EDITOR -- make
  bourn run --agent builder --report report.json -- go build ./...`,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.exit = exitNoRun
			if inside() {
				return refuseInside("bourn run")
			}
			if len(args) == 0 && f.agent == "" {
				return usage(errors.New("no command is named"))
			}
			p, err := a.prepare(&f, args)
			if err != nil {
				return err
			}
			if len(p.Plan.Command) == 0 {
				return usage(errors.New("the profile names no command, and none is given"))
			}
			return a.runPrepared(p, reportFile, quiet)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&reportFile, "report", "", "write the report, as JSON, to this file (- for standard error)")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "say nothing but errors")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (a *app) runPrepared(p *run.Prepared, reportFile string, quiet bool) error {
	var reportErr error
	told := func(r run.Report) {
		if !quiet {
			a.header(p, r)
		}
		if reportFile != "" {
			reportErr = a.writeReport(reportFile, r)
		}
	}
	child := a.Child
	a.Child = nil // it is the run's to end now
	out, err := p.Run(run.Streams{In: a.Stdin, Out: a.Stdout, Err: a.Stderr, Child: child}, told, false)
	switch {
	case errors.Is(err, launch.ErrCommandNotFound):
		a.exit = exitNotFound
		return err
	case errors.Is(err, launch.ErrCommandNotExecutable):
		a.exit = exitNotExecutable
		return err
	case err != nil:
		return err
	}
	a.exit, a.signal = out.Status, out.Signal
	if out.TimedOut {
		a.say("the run was ended: its time of %s is over", p.Plan.Limits.Time)
	}
	if !quiet {
		for _, n := range out.Notes {
			a.say("%s", n)
		}
	}
	if reportErr != nil {
		a.say("cannot write the report: %v", reportErr)
	}
	return nil
}

// header says in at most three lines what holds.
func (a *app) header(p *run.Prepared, r run.Report) {
	if r.Sandbox.State == policy.StateAdvisory {
		a.say("ADVISORY: this host cannot seal, and the profile lets the run go on: it can reach more than listed")
		return
	}
	var writes, dropped []string
	denied := 0
	for _, it := range r.Items {
		switch {
		case it.Fate == policy.Dropped && (it.Kind == policy.KindRead || it.Kind == policy.KindWrite || it.Kind == policy.KindSpawnDir || it.Kind == policy.KindEnv):
			dropped = append(dropped, fmt.Sprintf("%s %s (%s)", it.Kind, it.Target, it.Reason))
		case it.Kind == policy.KindWrite && it.Fate == policy.Enforced:
			writes = append(writes, it.Target)
		case it.Kind == policy.KindDeny && it.Fate == policy.Enforced:
			denied++
		}
	}
	writable := "nothing writable"
	if len(writes) == 1 {
		writable = "writable " + writes[0]
	} else if len(writes) > 1 {
		writable = fmt.Sprintf("writable %s and %d more", writes[0], len(writes)-1)
	}
	a.say("sealed by the kernel: %s, %d denied, no network", writable, denied)
	switch len(dropped) {
	case 0:
	case 1:
		a.say("dropped: %s", dropped[0])
	default:
		a.say("dropped: %s, and %d more (bourn plan shows all)", dropped[0], len(dropped)-1)
	}
	for _, hint := range p.Hints() {
		a.say("%s", hint)
	}
}

func (a *app) writeReport(at string, r run.Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if at == "-" {
		_, err = fmt.Fprintln(a.Stderr, string(data))
		return err
	}
	return os.WriteFile(at, append(data, '\n'), 0o600)
}
