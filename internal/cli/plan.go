package cli

import (
	"fmt"
	"io"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) planCommand() *cobra.Command {
	var f grantFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan [flags] [-- COMMAND [ARG...]]",
		Short: "Show what a run would seal here, item by item, without running",
		Example: `  bourn plan
  bourn plan --deny .env --read ~/src/lib
  bourn plan --agent builder --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if inside() {
				return refuseInside("bourn plan")
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			p, err := a.prepare(&f, args)
			if err != nil {
				return err
			}
			r := run.Report{Agent: p.Options.Agent, Items: p.Items,
				Sandbox: policy.Sandbox{State: policy.StateNotRunning, Backend: policy.Backend}}
			if asJSON {
				return printJSON(a.Stdout, r)
			}
			title := "a run in " + p.Request.Cwd
			if f.agent != "" {
				title = "agent '" + f.agent + "'"
			}
			a.printf("plan for %s with %s\n", bourn.Printable(title), policy.Backend)
			a.printf("✓ would be enforced   ✗ would be dropped\n")
			printItems(a.Stdout, r.Items)
			printNotes(a.Stdout, p)
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// printNotes prints what a run would say besides its items.
func printNotes(w io.Writer, p *run.Prepared) {
	notes := p.Hints()
	if line := p.ProposalLine(); line != "" {
		notes = append([]string{line}, notes...)
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\nNOTE\n")
	}
	for _, n := range notes {
		fmt.Fprintf(w, "  %s\n", bourn.Printable(n))
	}
}
