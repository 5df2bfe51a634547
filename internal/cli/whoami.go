package cli

import (
	"fmt"

	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) whoamiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Inside a seal: print who this is and what the seal holds",
		Long: `Inside a seal: print which agent this is and every item of its seal with its fate. An
agent cannot read its profile; this is how it learns of its grants.`,
		Example: `  bourn run -- bourn whoami
  bourn whoami --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if !inside() {
			return bourn.WithHint(fmt.Errorf("%w: no seal around this process", bourn.ErrNotFound), "bourn run -- bourn whoami shows one")
		}
		var r run.Report
		if err := askGate("bourn/whoami", struct{}{}, &r); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, r)
		}
		fmt.Fprintf(a.Stdout, "%s — %s\n", title(r.Agent), state(r.Sandbox))
		if r.Parent != "" {
			fmt.Fprintf(a.Stdout, "run %s, which works for run %s\n", r.Run, r.Parent)
		}
		printItems(a.Stdout, r.Items)
		return nil
	}
	return cmd
}
