package cli

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"bourn"
	"bourn/api"

	"github.com/spf13/cobra"
)

// agentTokenFor is how long an agent token is good for where nobody says.
const agentTokenFor = 30 * 24 * time.Hour

func (a *app) agentTokenCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "mcp",
		Short: "Make, list and revoke tokens with which clients ask for an agent's tools over HTTP",
		Long: `Make, list and revoke agent tokens. A client presents one at /mcp and gets the governed tools
of one agent, which act under its grants in one directory, and nothing else. Only its hash is
stored.`,
		Example: `  bourn key mcp new editor --agent builder
  bourn key mcp list`,
	}, a.agentTokenNewCommand(), a.agentTokenListCommand(), a.agentTokenRevokeCommand())
}

func (a *app) agentTokenNewCommand() *cobra.Command {
	var agent string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make an agent token for the current directory, and print it this once",
		Example: `  bourn key mcp new editor --agent builder
  bourn key mcp new laptop --agent builder --expires 24h`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the `AGENT` whose tools it is for")
	cmd.Flags().DurationVar(&expires, "expires", agentTokenFor, "let it end after `TIME`, as in 24h")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if agent == "" {
			return bourn.WithHint(usage(errors.New("--agent names nobody")), "bourn agent list shows the agents")
		}
		if expires <= 0 {
			return usage(fmt.Errorf("--expires is %s, and must be positive", expires))
		}
		// What cannot be planned cannot be asked for: this says so now.
		if _, _, err := a.prepareTools(cmd, &grantFlags{agent: agent}); err != nil {
			return err
		}
		dir, _, err := a.where()
		if err != nil {
			return err
		}
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := answering()
		defer cancel()
		t, err := client.NewAgentToken(ctx, api.NewAgentToken{Name: args[0], Agent: agent, Dir: dir, Expires: time.Now().Add(expires).UTC().Truncate(time.Second)})
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, t)
		}
		a.printf("%s\n", t.Token)
		a.say("this is the only time that it is shown; it ends %s, and bourn key mcp revoke %s ends it at once", t.Expires.UTC().Format(time.RFC3339), t.ID)
		return nil
	}
	return cmd
}

func (a *app) agentTokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your agent tokens, without what they are",
		Example: `  bourn key mcp list
  bourn key mcp list --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := answering()
		defer cancel()
		all, err := client.AgentTokens(ctx)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, all)
		case len(all.Tokens) == 0:
			a.say("there are no agent tokens; bourn key mcp new NAME --agent AGENT makes one")
			return nil
		}
		w := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "ID\tNAME\tAGENT\tDIRECTORY\tENDS")
		for _, t := range all.Tokens {
			ends := t.Expires.UTC().Format(time.RFC3339)
			if t.Revoked != nil {
				ends = "revoked " + t.Revoked.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", bourn.Printable(t.ID), bourn.Printable(t.Name), bourn.Printable(t.Agent), bourn.Printable(t.Dir), ends)
		}
		return w.Flush()
	}
	return cmd
}

func (a *app) agentTokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "revoke ID",
		Short:             "End an agent token at once",
		Example:           `  bourn key mcp revoke 3f0c9a52-7d1e-4b86-9a40-5c2e8d17f6b3`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := answering()
		defer cancel()
		if err := client.RevokeAgentToken(ctx, args[0]); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, struct {
				ID      string `json:"id"`
				Revoked bool   `json:"revoked"`
			}{args[0], true})
		}
		a.printf("the token %s is revoked\n", bourn.Printable(args[0]))
		return nil
	}
	return cmd
}
