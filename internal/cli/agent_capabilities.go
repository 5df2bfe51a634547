package cli

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/api"

	"github.com/spf13/cobra"
)

func (a *app) capabilitiesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capabilities NAME",
		Short: "Say whether an agent's workflow may change something and commit now, and why not",
		Long: `Say what a run's workflow may do next, by the hard blocks and the run's receipts: change
something (mutate), and commit. Where the agent's profile has commit: {requires: [verified]},
a commit needs a verification that began after everything else had ended. That is a safeguard
of workflows and no boundary: a shell can still run git where the seal allows it.`,
		Example: `  bourn agent capabilities builder --action commit
  bourn agent capabilities builder --path src/main.go --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	id := runFlag(cmd)
	action := cmd.Flags().String("action", "", "what the next step is: commit")
	path := cmd.Flags().String("path", "", "whether `PATH` may be written; relative to where the run works")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *action != "" && *action != "commit" {
			return usage(fmt.Errorf("--action is %q, and can be commit", *action))
		}
		client, name, err := a.ofRun(cmd, args[0], id)
		if err != nil {
			return err
		}
		ctx, cancel := answering()
		defer cancel()
		got, err := client.Capabilities(ctx, *id, *action, *path)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, got)
		}
		a.printf("%s, run %s\n\n%s", title(name), bourn.Printable(got.Run), capabilityLines(got))
		return nil
	}
	return cmd
}

// capabilityLines says yes or no, why, and what to do.
func capabilityLines(k api.Capabilities) string {
	var b strings.Builder
	say := func(what string, may bool) {
		word := "no"
		if may {
			word = "yes"
		}
		fmt.Fprintf(&b, "%-7s %s\n", what, word)
		for _, m := range k.Reasons {
			if m.Of != what {
				continue
			}
			fmt.Fprintf(&b, "        %s (%s)\n", bourn.Printable(m.Text), bourn.Printable(m.Code))
			if m.Hint != "" {
				fmt.Fprintf(&b, "        hint: %s\n", bourn.Printable(m.Hint))
			}
		}
	}
	say("mutate", k.Mutate)
	say("commit", k.Commit)
	return b.String()
}
