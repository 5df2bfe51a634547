package cli

import (
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

func (p *people) syncCommand() *cobra.Command {
	return p.changing(&cobra.Command{
		Use: "sync", Short: "Make the host as it should be: users, groups, directories and mounts", Args: takes, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Make the host as ` + posix.StatePath + ` has it: users, groups, memberships, the
workspace's directories with their owners and modes, a mount for each of them, and what the
helper knows. What is so already is left alone; each boot needs it once, for the mounts.`,
		Example: "  bourn people sync --dry-run\n  bourn people sync",
		RunE: func(*cobra.Command, []string) error {
			return p.run(reform{whole: true, do: func(*posix.State) (said, error) { return said{}, nil }}, nil)
		},
	})
}
