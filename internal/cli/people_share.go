package cli

import (
	"errors"
	"strings"

	"bourn"
	"bourn/api"

	"github.com/spf13/cobra"
)

func (p *people) shareCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "share PERSON FROM CIRCLE[/PATH]", Short: "Copy a person's file or directory into a circle",
		Long: `The copy belongs to the person, with the circle's group, so that everybody in the circle may
read and change it; cp -p and mv would keep the group that it has. FROM is relative to the
person's home. Files and directories are copied, at most 10,000 and 1 GiB at once; where
anything else is below a directory, or what is to be made is there already, nothing is.

The person does it, and administrators for anybody. It is reviewed and logged as a tool's
call is, judged as reading the one and writing the other.`,
		Example: "  bourn people share ann plans/2027.md sales\n  bourn people share ann plans sales/plans",
		Args:    takes, ValidArgsFunction: p.completePerson,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.root != "" {
				return bourn.WithHint(usage(errors.New("nobody shares anything below --root")), "without it the host itself is meant")
			}
			client, err := p.control(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			q := api.Share{From: args[1], Agent: agent}
			q.Circle, q.To, _ = strings.Cut(args[2], "/")
			ctx, cancel := answering()
			defer cancel()
			s, err := client.Share(ctx, args[0], q)
			switch {
			case err != nil:
				return err
			case p.asJSON:
				return printJSON(p.Stdout, s)
			}
			p.printf("shared as %s: files %d, directories %d, bytes %d\n", bourn.Printable(s.Path), s.Files, s.Directories, s.Bytes)
			return nil
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "as this agent of theirs, by `NAME`")
	return p.printing(cmd)
}
