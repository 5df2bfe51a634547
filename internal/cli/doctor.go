package cli

import (
	"strings"

	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// healths are the words for the outcomes of a check.
var healths = map[run.Health]string{run.Healthy: "ok", run.Unhealthy: "not ok", run.Untold: "could not tell"}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this host can keep, by sealing a run, and say how to mend it",
		Long: `Check what this host can keep. It looks at the kernel's settings, seals a run in a
temporary directory as bourn run would, and looks at $BOURN_HOME and the control plane, and
on a host that people share at their accounts, the helper and what keeps them apart. The
exit status is 0 when a run can be sealed and 5 when not.`,
		Example: `  bourn doctor
  bourn doctor --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if inside() {
			return refuseInside("bourn doctor")
		}
		h, err := a.findHome() // not opened: opening sweeps away what is looked for
		if err != nil {
			return err
		}
		c := h.Checkup()
		c.Checks = append(c.Checks, a.controlChecks(h)...)
		c.Checks = append(c.Checks, a.peopleChecks(h)...)
		if !c.Sealed {
			a.exit = bourn.CodeWeakHost.ExitStatus()
		}
		if *asJSON {
			return printJSON(a.Stdout, c)
		}
		a.printCheckup(c)
		return nil
	}
	return cmd
}

func (a *app) printCheckup(c run.Checkup) {
	for _, check := range c.Checks {
		a.printf("%-14s  %-15s  %s\n", healths[check.State], check.Name, bourn.Printable(strings.ReplaceAll(check.Detail, "\n", "; ")))
		if check.Mend != "" {
			a.printf("%-14s  %-15s  mend: %s\n", "", "", bourn.Printable(check.Mend))
		}
	}
	if c.Sealed {
		a.printf("\na run can be sealed on this host\n")
		return
	}
	a.printf("\na run cannot be sealed on this host: nothing is started unless a profile says so\n")
}
