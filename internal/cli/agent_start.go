package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) startCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Start an agent in the background",
		Long: `Start an agent in the background, sealed as bourn run --agent NAME seals it. It has no
terminal and goes on when yours closes; what it says goes to its log. COMMAND runs instead
of the profile's.

The command returns when the seal holds, or with the run's status when it could not be
started. With service: true in the profile the agent is started again when it ends, first
after a second, then after twice the time up to a minute, each time with the profile as it
is then.`,
		Example: `  bourn agent start builder
  bourn agent start builder -- make watch`,
		Args:              nameAndCommand,
		ValidArgsFunction: a.completeAgentOnly,
	}
	var proposal string
	proposalFlag(cmd, &proposal)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkProposal(cmd, proposal); err != nil {
			return err
		}
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		return a.start(name, args[1:], proposal, *asJSON)
	}
	return cmd
}

// start starts an agent in the background and says what holds.
func (a *app) start(name bourn.AgentName, command []string, proposal string, asJSON bool) error {
	s, err := a.home.Start(name, command, proposal)
	switch {
	case err != nil:
		return err
	case s.Failed != nil:
		return a.startFailed(name, s)
	}
	now, err := a.home.Activity(name)
	if err != nil {
		return err
	}
	if now.ByHand > 0 {
		a.say("%s runs by hand as well (%d); bourn agent stop %s --all ends both", title(name), now.ByHand, name)
	}
	if s.Dropped > 0 {
		a.say("%d of what its profile grants is dropped; bourn agent perm list-paths %s says why", s.Dropped, name)
	}
	if asJSON {
		return printJSON(a.Stdout, struct {
			Agent bourn.AgentName `json:"agent"`
			Run   string          `json:"run"`
			Pid   int             `json:"pid"`
			Since time.Time       `json:"since"`
			Holds string          `json:"holds"`
			Log   string          `json:"log"`
		}{name, s.Run, s.Pid, s.Since, strings.TrimPrefix(s.Header, "bourn: "), a.home.LogPath(name)})
	}
	a.printf("%s is in the background\n  %s\nnext\n  bourn agent logs %s\n  bourn agent stop %s\n",
		title(name), bourn.Printable(strings.TrimPrefix(s.Header, "bourn: ")), name, name)
	return nil
}

// startFailed prints what a run said that did not start, and exits with its status.
func (a *app) startFailed(name bourn.AgentName, s run.Started) error {
	for line := range bytes.Lines(s.Log) {
		fmt.Fprintln(a.Stderr, bourn.Printable(string(bytes.TrimRight(line, "\r\n"))))
	}
	if a.exit = s.Failed.ExitStatus(); a.exit == 0 {
		a.exit = exitNoRun
	}
	return bourn.WithHint(fmt.Errorf("%w: %s is not started: its run ended with %s", bourn.ErrUnavailable, title(name), s.Failed),
		"the lines above say why; to see it run here: bourn run --agent "+string(name))
}

// keepCommand is the process that sees to an agent in the background. Started by a
// person it refuses.
func (a *app) keepCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "keep NAME",
		Short:             "See to an agent in the background; started by bourn agent start only",
		Hidden:            true,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			name, err := bourn.ParseAgentName(args[0])
			if err != nil {
				return err
			}
			h, err := a.findHome()
			if err != nil {
				return err
			}
			return h.Keep(name)
		},
	}
}
