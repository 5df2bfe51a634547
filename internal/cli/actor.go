package cli

import (
	"context"
	"fmt"
	"os"

	"bourn"
	"bourn/internal/workspace"

	"github.com/spf13/cobra"
)

// actorCommand is the process that performs governed tools inside a seal. It speaks its
// protocol on its standard streams and is of no use by hand.
func (a *app) actorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "actor", Hidden: true, Args: cobra.NoArgs, Short: "Perform governed tools (started by bourn inside a run)",
		Example: "  bourn actor",
		RunE: func(*cobra.Command, []string) error {
			if !inside() {
				return bourn.WithHint(fmt.Errorf("%w: an actor runs inside a seal only", bourn.ErrDenied), "bourn run starts it when a tool is called")
			}
			cwd, err := os.Getwd()
			if err != nil {
				return err
			}
			actor := &workspace.Actor{Version: a.Version, Cwd: cwd, Home: os.Getenv("HOME"), Env: os.Environ(), Spill: os.TempDir(), Sole: true}
			return actor.Serve(context.Background(), workspace.Standard())
		},
	}
}
