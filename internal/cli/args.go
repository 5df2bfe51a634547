package cli

import (
	"fmt"
	"strings"

	"bourn"

	"github.com/spf13/cobra"
)

// takes refuses a command line that does not have exactly the arguments that the
// command's Use names.
func takes(cmd *cobra.Command, args []string) error {
	names := argNames(cmd)
	switch {
	case len(args) < len(names):
		return usage(fmt.Errorf("%s: %s is missing", shape(cmd), names[len(args)]))
	case len(args) > len(names):
		return usage(fmt.Errorf("%s: %q is one argument too many", shape(cmd), args[len(names)]))
	}
	return nil
}

// shape is how a command is called, without its flags.
func shape(cmd *cobra.Command) string {
	return strings.Join(append([]string{cmd.CommandPath()}, argNames(cmd)...), " ")
}

func argNames(cmd *cobra.Command) []string {
	var names []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "[") {
			break
		}
		names = append(names, word)
	}
	return names
}

// group is a command that only holds others: alone it prints its help.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.DisableFlagsInUseLine = known, true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subs...)
	return cmd
}

// known refuses a word that is none of a group's commands, and names one that is near.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := usage(fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0]))
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return bourn.WithHint(err, "did you mean "+cmd.CommandPath()+" "+near[0]+"?")
	}
	return err
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command) *bool { return cmd.Flags().Bool("json", false, "print JSON") }

// completeAgent completes a first argument, the name of an agent; paths follow.
func (a *app) completeAgent(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.agentNames(), cobra.ShellCompDirectiveNoFileComp
}

// completeAgentOnly is completeAgent for a command that takes nothing else.
func (a *app) completeAgentOnly(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.agentNames(), cobra.ShellCompDirectiveNoFileComp
}

// agentNames lists the agents without touching anything: a shell asks at every tab.
func (a *app) agentNames() []cobra.Completion {
	h, err := a.findHome()
	if err != nil {
		return nil
	}
	names, _ := h.Agents()
	var out []cobra.Completion
	for _, name := range names {
		out = append(out, string(name))
	}
	return out
}
