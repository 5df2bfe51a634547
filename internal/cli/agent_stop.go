package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// defaultGrace is how long an agent has between TERM and KILL.
const defaultGrace = 10 * time.Second

func graceFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("grace", defaultGrace, "how long it has between TERM and KILL, as in 30s")
}

func checkGrace(grace time.Duration) error {
	if grace < 0 {
		return usage(errors.New("--grace cannot be negative"))
	}
	return nil
}

func (a *app) stopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop NAME",
		Short: "End an agent that runs in the background",
		Long: `End an agent that runs in the background: its command gets TERM, and after a grace of ten
seconds everything of it is killed. When this returns nothing of it lives.`,
		Example: `  bourn agent stop builder
  bourn agent stop builder --all --grace 30s`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	o := run.StopOptions{}
	grace := graceFlag(cmd)
	cmd.Flags().BoolVar(&o.All, "all", false, "end the runs that were started by hand as well")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		if err := checkGrace(*grace); err != nil {
			return err
		}
		o.Grace = *grace
		out, err := a.home.Stop(name, o)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, struct {
				Agent      bourn.AgentName `json:"agent"`
				Background bool            `json:"background"`
				ByHand     int             `json:"by_hand"`
				Left       int             `json:"left"`
				Killed     bool            `json:"killed"`
			}{name, out.Background, out.ByHand, out.Left, out.Killed})
		}
		a.printf("%s\n", stopped(name, out))
		if out.Left > 0 {
			a.say("%s runs by hand (%d) and goes on; bourn agent stop %s --all ends that", title(name), out.Left, name)
		}
		return nil
	}
	return cmd
}

// stopped says in a line what was ended.
func stopped(name bourn.AgentName, out run.StopOutcome) string {
	var what []string
	if out.Background {
		what = append(what, "in the background")
	}
	if out.ByHand > 0 {
		what = append(what, fmt.Sprintf("%d by hand", out.ByHand))
	}
	switch {
	case len(what) == 0 && out.Left > 0:
		return title(name) + " is not running in the background"
	case len(what) == 0:
		return title(name) + " is not running"
	}
	s := title(name) + " is stopped (" + strings.Join(what, ", ") + ")"
	if out.Killed {
		s += "; it did not end by itself and was killed"
	}
	return s
}
