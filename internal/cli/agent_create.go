package cli

import (
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// recordsUsage is what --records means.
const recordsUsage = "what governed tools do with the company's records: `read` or write"

func (a *app) createCommand() *cobra.Command {
	var n run.NewAgent
	var records string
	cmd := &cobra.Command{
		Use:   "create NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Make an agent: its profile, its keys and a home of its own",
		Long: `Make an agent: its profile, its keys and a home of its own.

What --write and --read name must exist, and what is protected can never be granted.
--deny closes a path or pattern also inside what is granted. COMMAND is what
bourn run --agent NAME executes when it names none. A known tool gets its preset, as in
bourn run: --preset none leaves it out.`,
		Example: `  bourn agent create builder --write ~/src/app --deny ~/src/app/.env -- claude
  bourn agent create reader --read ~/src/lib
  bourn agent create clerk --records write -- claude`,
		Args: nameAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.agent(args[0])
			if err != nil {
				return err
			}
			if err := checkRecords(cmd, records, "leave it out for none"); err != nil {
				return err
			}
			n.Name, n.Command, n.Records = name, args[1:], policy.Records(records)
			if n.Cwd, _, err = a.where(); err != nil {
				return err
			}
			if err := a.choosePreset(&n); err != nil {
				return err
			}
			if err := a.home.Create(n); err != nil {
				return err
			}
			return a.created(n, cmd)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&n.Write, "write", nil, "a file or directory `PATH` to be writable; may be repeated, as the next ones")
	fl.StringArrayVar(&n.Read, "read", nil, "a file or directory `PATH` to be readable")
	fl.StringArrayVar(&n.Deny, "deny", nil, "a `PATH` or pattern to be closed, also inside what is granted")
	fl.StringArrayVar(&n.Hosts, "host", nil, "a `HOST[:PORT]` to be reachable: a name, *.suffix or address; without a port, 80 and 443")
	fl.StringArrayVar(&n.Presets, "preset", nil, "the `NAME` of a preset to apply, or none; without it the one that fits the command")
	fl.StringVar(&records, "records", "", recordsUsage+"; without it, none")
	fl.StringVar(&n.RunAs, "run-as", "", "the `USER`, by name or uid, that its runs become when root starts them")
	jsonFlag(cmd)
	return cmd
}

// choosePreset gives a new agent the preset of its command, unless presets are named.
func (a *app) choosePreset(n *run.NewAgent) error {
	if err := run.CheckPresets(n.Presets); err != nil {
		return err
	}
	switch {
	case len(n.Presets) == 1 && n.Presets[0] == run.NoPreset:
		n.Presets = nil
	case len(n.Presets) == 0:
		name, note, err := a.home.PresetFor(*n)
		if err != nil {
			return err
		}
		if name != "" {
			n.Presets = []string{name}
		}
		if note != "" {
			a.say("%s", note)
		}
	}
	return nil
}

// nameAndCommand accepts NAME, and a command after two dashes.
func nameAndCommand(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return takes(cmd, nil)
	case dash < 0:
		return takes(cmd, args)
	case dash > 1:
		return takes(cmd, args[:dash])
	}
	return nil
}

func (a *app) created(n run.NewAgent, cmd *cobra.Command) error {
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		return printJSON(a.Stdout, struct {
			Agent   bourn.AgentName `json:"agent"`
			Profile string          `json:"profile"`
			Home    string          `json:"home"`
			Command []string        `json:"command"`
			Presets []string        `json:"presets"`
		}{n.Name, a.home.ProfilePath(n.Name), a.home.HomePath(n.Name), orEmpty(n.Command), orEmpty(n.Presets)})
	}
	a.printf("%s is made\n  profile  %s\n  home     %s\n", title(n.Name), bourn.Printable(a.home.ProfilePath(n.Name)), bourn.Printable(a.home.HomePath(n.Name)))
	if len(n.Presets) > 0 {
		a.printf("  presets  %s (--preset none leaves them out)\n", strings.Join(n.Presets, ", "))
	}
	start := "bourn run --agent " + string(n.Name)
	if len(n.Command) == 0 {
		start += " -- COMMAND"
	}
	next := []string{start, "bourn agent perm list-paths " + string(n.Name)}
	if len(n.Write)+len(n.Read) == 0 {
		next = append([]string{"bourn agent perm allow-write " + string(n.Name) + " PATH"}, next...)
	}
	a.printf("next\n  %s\n", strings.Join(next, "\n  "))
	return nil
}

// orEmpty makes a missing list an empty one: JSON has no null for it.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
