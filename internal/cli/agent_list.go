package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"bourn"
	"bourn/internal/policy"

	"github.com/spf13/cobra"
)

// A listed agent is a line of bourn agent list.
type listed struct {
	Agent   bourn.AgentName `json:"agent"`
	Sandbox policy.Sandbox  `json:"sandbox"`
	Running int             `json:"running"`
	Command []string        `json:"command"`
	Error   string          `json:"error,omitempty"` // why its profile cannot be used
}

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agents, whether each runs, and its command",
		Example: `  bourn agent list
  bourn agent list --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := a.open(); err != nil {
			return err
		}
		all, err := a.listAgents()
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, all)
		case len(all) == 0:
			a.say("there are no agents; bourn agent create NAME makes one")
			return nil
		}
		w := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "NAME\tSTATE\tCOMMAND")
		for _, l := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\n", l.Agent, l.state(), l.command())
		}
		return w.Flush()
	}
	return cmd
}

func (a *app) listAgents() ([]listed, error) {
	names, err := a.home.Agents()
	if err != nil {
		return nil, err
	}
	all := []listed{}
	for _, name := range names {
		l := listed{Agent: name, Command: []string{}}
		if l.Sandbox, l.Running, err = a.home.State(name); err != nil {
			l.Error = err.Error()
		}
		p, _, err := a.home.Profile(name)
		if err != nil {
			l.Error = err.Error()
		} else {
			l.Command = orEmpty(p.Command)
		}
		all = append(all, l)
	}
	return all, nil
}

func (l listed) state() string {
	s := "unknown"
	switch l.Sandbox.State {
	case policy.StateEnforcing:
		s = "running"
	case policy.StateAdvisory:
		s = "running ADVISORY"
	case policy.StateNotRunning:
		s = "not running"
	case policy.StateUnknown:
	}
	if l.Running > 1 {
		s += fmt.Sprintf(" (%d runs)", l.Running)
	}
	return s
}

func (l listed) command() string {
	switch {
	case l.Error != "":
		return "(its profile cannot be used: bourn agent perm show " + string(l.Agent) + ")"
	case len(l.Command) == 0:
		return "-"
	}
	return bourn.Printable(strings.Join(l.Command, " "))
}
