package cli

import (
	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) restartCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Stop every run of an agent and start it in the background, with its changed profile",
		Long: `Stop every run of an agent, also those that were started by hand, and start it in the
background with the profile as it is now. Without COMMAND it is what ran in the background
before, or the profile's. With a profile that cannot be used nothing is stopped.`,
		Example:           `  bourn agent restart builder`,
		Args:              nameAndCommand,
		ValidArgsFunction: a.completeAgentOnly,
	}
	var proposal string
	proposalFlag(cmd, &proposal)
	grace := graceFlag(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkProposal(cmd, proposal); err != nil {
			return err
		}
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		if err := checkGrace(*grace); err != nil {
			return err
		}
		command, err := a.restarted(name, args[1:])
		if err != nil {
			return err
		}
		out, err := a.home.Stop(name, run.StopOptions{Grace: *grace, All: true})
		if err != nil {
			return err
		}
		if out.Background || out.ByHand > 0 {
			a.say("%s", stopped(name, out))
		}
		return a.start(name, command, proposal, *asJSON)
	}
	return cmd
}

// restarted returns the command of the next start, if that can begin.
func (a *app) restarted(name bourn.AgentName, command []string) ([]string, error) {
	if len(command) == 0 {
		s, err := a.home.Service(name)
		if err != nil {
			return nil, err
		}
		if s != nil {
			command = s.Command
		}
	}
	return command, a.home.CanStart(name, command)
}
