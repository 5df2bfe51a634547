package cli

import (
	"fmt"

	"bourn"
	"bourn/internal/policy"

	"github.com/spf13/cobra"
)

// restartCommand exists so that what a changed profile asks for has an answer. Nothing
// supervises agents yet: what a person has started, a person starts again.
func (a *app) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "restart NAME",
		Short:             "Say how an agent is started again, with its changed profile",
		Example:           `  bourn agent restart builder`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
		RunE: func(_ *cobra.Command, args []string) error {
			name, err := a.agent(args[0])
			if err != nil {
				return err
			}
			if _, _, err := a.home.Profile(name); err != nil {
				return err
			}
			s, _, err := a.home.State(name)
			switch {
			case err != nil:
				return err
			case s.State == policy.StateNotRunning:
				return bourn.WithHint(fmt.Errorf("%w: %s is not running", bourn.ErrConflict, title(name)), "bourn run --agent "+string(name))
			}
			return bourn.WithHint(fmt.Errorf("%w: %s was started by hand, and bourn does not start such a run again", bourn.ErrConflict, title(name)),
				"end it where it runs, then: bourn run --agent "+string(name))
		},
	}
}
