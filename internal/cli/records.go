package cli

import (
	"bourn/internal/operation"

	"github.com/spf13/cobra"
)

// recordsCommand is about the company's records. What needs the database's administrator
// is bournd's.
func (a *app) recordsCommand() *cobra.Command {
	inPlace := func(cmd *cobra.Command, _ operation.Records, _ []string) error { return a.becomeDaemon(cmd) }
	cmd := group(operation.RecordsCommand(operation.RecordsVerbs{Guard: inPlace, Lint: inPlace}))
	for _, c := range cmd.Commands() {
		c.Args = takes
	}
	cmd.AddCommand(a.recordsQueryCommand())
	return cmd
}
