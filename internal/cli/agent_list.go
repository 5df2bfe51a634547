package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// A listed agent is a line of bourn agent list.
type listed struct {
	Agent   bourn.AgentName `json:"agent"`
	Sandbox policy.Sandbox  `json:"sandbox"`
	Running int             `json:"running"`
	State   run.Activity    `json:"activity"`
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
		if l.State, err = a.home.Activity(name); err != nil {
			a.say("%v", err)
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
	s := activity(l.State)
	if l.Sandbox.State == policy.StateAdvisory {
		s = strings.Replace(s, run.Running, run.Running+" ADVISORY", 1)
	}
	return s
}

// activity says in a few words what an agent does now.
func activity(a run.Activity) string {
	var more []string
	if a.How != "" {
		more = append(more, a.How)
	}
	switch {
	case a.State == run.Restarting && a.Ended != nil:
		more = append(more, "last exit "+a.Ended.String())
		if a.Next != nil {
			more = append(more, "next start "+a.Next.Local().Format(time.TimeOnly))
		}
	case a.Since != nil:
		more = append(more, "since "+a.Since.Local().Format("2006-01-02 15:04"))
	}
	switch {
	case a.How == "background" && a.ByHand > 0:
		more = append(more, fmt.Sprintf("%d more by hand", a.ByHand))
	case a.ByHand > 1:
		more = append(more, fmt.Sprintf("%d runs", a.ByHand))
	}
	if a.Restarts > 0 {
		more = append(more, fmt.Sprintf("restarts %d", a.Restarts))
	}
	if len(more) == 0 {
		return a.State
	}
	return a.State + " (" + strings.Join(more, ", ") + ")"
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
