package cli

import "github.com/spf13/cobra"

func (a *app) explainCommand() *cobra.Command { return &cobra.Command{Use: "explain"} }
func (a *app) whoamiCommand() *cobra.Command  { return &cobra.Command{Use: "whoami"} }
func (a *app) agentCommand() *cobra.Command   { return &cobra.Command{Use: "agent"} }
func (a *app) doctorCommand() *cobra.Command  { return &cobra.Command{Use: "doctor"} }
