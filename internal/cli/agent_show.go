package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show an agent: its state, its files, its settings and its paths",
		Example: `  bourn agent show builder
  bourn agent show builder --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		p, _, err := a.home.Profile(name)
		if err != nil {
			return err
		}
		r, err := a.listedReport(name)
		if err != nil {
			return err
		}
		now, err := a.home.Activity(name)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, struct {
				run.Report
				Home    string       `json:"home"`
				Profile parsed       `json:"profile"`
				Service bool         `json:"service"`
				State   run.Activity `json:"activity"`
				Context []run.Offer  `json:"context"`
			}{r, a.home.HomePath(name), a.parsed(p), p.Service, now, a.home.Offers(r)})
		}
		fmt.Fprintf(a.Stdout, "%s — %s\n\n", title(name), state(r.Sandbox))
		a.printSettings(p, now)
		printPaths(a.Stdout, granted(r))
		printContext(a.Stdout, a.home.Offers(r))
		printFooter(a.Stdout, r)
		return nil
	}
	return cmd
}

// printSettings prints what a profile says besides paths, and where the files are.
func (a *app) printSettings(p *profile.Profile, now run.Activity) {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, bourn.Printable(value))
		}
	}
	command := strings.Join(p.Command, " ")
	if command == "" {
		command = "(none: bourn run --agent " + string(p.Agent) + " -- COMMAND)"
	}
	line("state", activity(now))
	line("command", command)
	if p.Service {
		line("service", "started again when it ends, in the background")
	}
	line("profile", a.home.ProfilePath(p.Agent))
	line("home", a.home.HomePath(p.Agent))
	line("network", p.Network.Mode)
	line("execute", p.Processes.Mode)
	line("env", strings.Join(envNames(p.Env), " "))
	line("limits", limits(p.Limits))
	if p.Commit != nil {
		line("commit", commitNeeds(p.Commit))
	}
	line("delegate", delegates(p.Delegate))
	line("records", string(p.Records))
	if !p.Sandbox.FailClosed {
		line("sandbox", "runs ADVISORY where the host cannot seal")
	}
	w.Flush()
}

// commitNeeds says what must be so before the agent's tools commit.
func commitNeeds(c *profile.Commit) string {
	if c.Verify == "" {
		return "needs a passing verification"
	}
	return "needs a passing verification: " + c.Verify
}

func delegates(names []bourn.AgentName) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n))
	}
	return strings.Join(all, " ")
}

func envNames(e profile.Env) []string {
	names := append([]string{}, e.Pass...)
	for _, v := range e.Set {
		names = append(names, v.Name+"="+v.Value)
	}
	return names
}

func limits(l profile.Limits) string {
	var all []string
	if l.Memory > 0 {
		all = append(all, fmt.Sprintf("memory %d bytes", l.Memory))
	}
	if l.Processes > 0 {
		all = append(all, fmt.Sprintf("processes %d", l.Processes))
	}
	if l.OpenFiles > 0 {
		all = append(all, fmt.Sprintf("open files %d", l.OpenFiles))
	}
	if l.Time > 0 {
		all = append(all, "time "+l.Time.String())
	}
	return strings.Join(all, ", ")
}

// listedReport is an agent's report, with what cannot be told said apart.
func (a *app) listedReport(name bourn.AgentName) (run.Report, error) {
	cwd, _, err := a.where()
	if err != nil {
		return run.Report{}, err
	}
	r, err := a.home.Listed(name, cwd)
	if err != nil {
		return r, err
	}
	if _, unreadable, err := a.home.Live(name); err == nil && unreadable != nil {
		a.say("%v", unreadable)
	}
	if r.Sandbox.State != policy.StateNotRunning && r.Drift {
		if _, _, err := a.home.Profile(name); err != nil {
			a.say("the profile cannot be used as it is now, and the agent would not start:")
			for line := range strings.Lines(err.Error()) {
				a.say("%s", strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return r, nil
}
