package cli

import (
	"fmt"
	"io"
	"os"

	"bourn"

	"github.com/spf13/cobra"
)

// workerCommand is the process that starts an agent's runs for other agents. It speaks its
// protocol on its standard streams and is of no use by hand.
func (a *app) workerCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "worker", Hidden: true, Args: cobra.NoArgs, Short: "Start an agent's runs for other agents (started by bournd)",
		Example: "  bourn worker --agent reviewer",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inside() {
				return bourn.WithHint(fmt.Errorf("%w: no run is started inside a seal", bourn.ErrDenied), "the tool spawn_subagent has one started outside")
			}
			name, err := bourn.ParseAgentName(agent)
			if err != nil {
				return err
			}
			if err := a.open(); err != nil {
				return err
			}
			return a.home.ServeMember(name, streams{os.Stdin, os.Stdout, os.Stdin})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the `NAME` of the agent")
	return cmd
}

// streams are a command's input and output as one.
type streams struct {
	io.Reader
	io.Writer
	io.Closer
}
