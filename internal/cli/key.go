package cli

import (
	"encoding/base64"
	"fmt"
	"text/tabwriter"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"

	"github.com/spf13/cobra"
)

func (a *app) keyCommand() *cobra.Command {
	diagnostics := group(&cobra.Command{
		Use:   "diagnostics",
		Short: "Make, list and revoke tokens that read health, metrics and traces",
		Long: `Make, list and revoke diagnostics tokens. One reads the control plane's health, status,
metrics and traces over HTTP, and nothing else. Only its hash is stored.`,
		Example: `  bourn key diagnostics new monitoring
  bourn key diagnostics list`,
	}, a.tokenNewCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return group(&cobra.Command{
		Use:   "key",
		Short: "Show this host's public key, and look after tokens",
		Example: `  bourn key show
  bourn key mcp new editor --agent builder
  bourn key diagnostics new monitoring`,
	}, a.keyShowCommand(), diagnostics, a.agentTokenCommand())
}

func (a *app) keyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the public key by which this host signs its log and its hard blocks",
		Example: `  bourn key show
  bourn key show --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := a.controlHome(cmd)
		if err != nil {
			return err
		}
		key, err := h.HostKey()
		if err != nil {
			return err
		}
		name, text := audit.KeyName(key), base64.StdEncoding.EncodeToString(key)
		if *asJSON {
			return printJSON(a.Stdout, struct {
				Name      string `json:"name"`
				PublicKey string `json:"public_key"` // Ed25519, base64
			}{name, text})
		}
		a.printf("name        %s\npublic key  %s (Ed25519)\n", name, text)
		return nil
	}
	return cmd
}

func (a *app) tokenNewCommand() *cobra.Command {
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a diagnostics token, and print it this once",
		Example: `  bourn key diagnostics new monitoring
  bourn key diagnostics new laptop --expires 720h`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().DurationVar(&expires, "expires", 0, "let it end after `TIME`, as in 720h (default: never)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if expires < 0 {
			return usage(fmt.Errorf("--expires is %s, and must be positive", expires))
		}
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		ask := api.NewDiagnosticsToken{Name: args[0]}
		if expires > 0 {
			ask.Expires = time.Now().Add(expires).UTC().Truncate(time.Second)
		}
		ctx, cancel := answering()
		defer cancel()
		t, err := client.NewDiagnosticsToken(ctx, ask)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, t)
		}
		a.printf("%s\n", t.Token)
		a.say("this is the only time that it is shown; bourn key diagnostics revoke %s ends it", t.ID)
		return nil
	}
	return cmd
}

func (a *app) tokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the diagnostics tokens, without what they are",
		Example: `  bourn key diagnostics list
  bourn key diagnostics list --json`,
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
		all, err := client.DiagnosticsTokens(ctx)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, all)
		case len(all.Tokens) == 0:
			a.say("there are no diagnostics tokens; bourn key diagnostics new NAME makes one")
			return nil
		}
		w := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "ID\tNAME\tMADE\tENDS")
		for _, t := range all.Tokens {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", bourn.Printable(t.ID), bourn.Printable(t.Name), t.CreatedAt.UTC().Format(time.RFC3339), tokenEnd(t))
		}
		return w.Flush()
	}
	return cmd
}

// tokenEnd says when a token ends, or that it has.
func tokenEnd(t api.DiagnosticsToken) string {
	switch {
	case t.Revoked != nil:
		return "revoked " + t.Revoked.UTC().Format(time.RFC3339)
	case t.Expires == nil:
		return "never"
	}
	return t.Expires.UTC().Format(time.RFC3339)
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "revoke ID",
		Short:             "End a diagnostics token at once",
		Example:           `  bourn key diagnostics revoke 3f0c9a52-7d1e-4b86-9a40-5c2e8d17f6b3`,
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
		if err := client.RevokeDiagnosticsToken(ctx, args[0]); err != nil {
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
