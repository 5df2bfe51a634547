package main

import (
	"github.com/spf13/cobra"
)

// dbCommand is what looks after the database. Its parts stand in files of their own.
func dbCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "db", Short: "Look after the control plane's database", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	return cmd
}
