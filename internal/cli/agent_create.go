package cli

import (
	"strings"

	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) createCommand() *cobra.Command {
	var n run.NewAgent
	cmd := &cobra.Command{
		Use:   "create NAME [flags] [-- COMMAND [ARG...]]",
		Short: "Make an agent: its profile, its keys and a home of its own",
		Long: `Make an agent: its profile, its keys and a home of its own.

What --write and --read name must exist, and what is protected can never be granted.
--deny closes a path or pattern also inside what is granted. COMMAND is what
bourn run --agent NAME executes when it names none.`,
		Example: `  bourn agent create builder --write ~/src/app --deny ~/src/app/.env -- claude
  bourn agent create reader --read ~/src/lib`,
		Args: nameAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.agent(args[0])
			if err != nil {
				return err
			}
			n.Name, n.Command = name, args[1:]
			if n.Cwd, _, err = a.where(); err != nil {
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
	fl.StringArrayVar(&n.Write, "write", nil, "a file or directory to be writable")
	fl.StringArrayVar(&n.Read, "read", nil, "a file or directory to be readable")
	fl.StringArrayVar(&n.Deny, "deny", nil, "a path or pattern to be closed, also inside what is granted")
	fl.StringArrayVar(&n.Hosts, "host", nil, "a `HOST[:PORT]` to be reachable: a name, *.suffix or address; without a port, 80 and 443")
	jsonFlag(cmd)
	return cmd
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
		}{n.Name, a.home.ProfilePath(n.Name), a.home.HomePath(n.Name), orEmpty(n.Command)})
	}
	a.printf("%s is made\n  profile  %s\n  home     %s\n", title(n.Name), bourn.Printable(a.home.ProfilePath(n.Name)), bourn.Printable(a.home.HomePath(n.Name)))
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
