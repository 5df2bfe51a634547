package cli

import (
	"bourn"

	"github.com/spf13/cobra"
)

func (a *app) agentCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "agent",
		Short: "Make, list, show and delete agents, and say what each may do",
		Long: `An agent is a named program with a profile: the file that declares what it may read,
write and execute. It has a home of its own, which nobody else's files are in.`,
		Example: `  bourn agent create builder --write ~/src/app -- claude
  bourn run --agent builder
  bourn agent start builder
  bourn agent perm list-paths builder`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if inside() {
				return refuseInside(cmd.CommandPath())
			}
			return nil
		},
	}, a.createCommand(), a.listCommand(), a.showCommand(), a.startCommand(), a.stopCommand(), a.restartCommand(), a.logsCommand(),
		a.receiptsCommand(), a.capabilitiesCommand(),
		a.keepCommand(), a.deleteCommand(), a.permCommand())
	return cmd
}

// agent opens $BOURN_HOME and reads an agent's name.
func (a *app) agent(arg string) (bourn.AgentName, error) {
	name, err := bourn.ParseAgentName(arg)
	if err != nil {
		return "", err
	}
	return name, a.open()
}

// title names an agent at the head of a report.
func title(name bourn.AgentName) string {
	if name == "" {
		return "a run without an agent"
	}
	return "agent '" + string(name) + "'"
}
