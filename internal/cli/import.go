package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"bourn"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) importCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "import",
		Short: "Make an agent of what another program's settings say",
		Example: `  bourn import claude-code .claude/settings.json --dry-run
  bourn import claude-code .claude/settings.json`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if inside() {
				return refuseInside(cmd.CommandPath())
			}
			return nil
		},
	}, a.importClaudeCommand())
}

// An importing is what an import is asked to do.
type importing struct {
	digest    string // "" to ask
	dry, json bool
}

func (a *app) importClaudeCommand() *cobra.Command {
	var name string
	var o importing
	cmd := &cobra.Command{
		Use:   "claude-code FILE",
		Short: "Make an agent of a settings file of Claude Code's",
		Long: `Make an agent of a settings file of Claude Code's.

The project that FILE belongs to becomes writable. A rule is taken where the kernel keeps
at least as much as the rule says; every other rule is listed with the reason. Settings in
~/.claude are for every project: there, the current directory is the project.

Whoever wrote FILE says what the agent may do. So what would be made is shown, and you are
asked, unless FILE is your own ~/.claude/settings.json or settings.local.json. Without a
terminal nothing is made but by --digest with the SHA-256 of FILE as it was read.`,
		Example: `  bourn import claude-code .claude/settings.json --dry-run
  bourn import claude-code .claude/settings.local.json --agent app`,
		Args: takes,
	}
	cmd.Flags().StringVar(&name, "agent", "", "the agent's `NAME`; without it, that of the project's directory")
	cmd.Flags().StringVar(&o.digest, "digest", "", "take the settings that have this `SHA256`, without asking")
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "print the profile and make nothing")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s := run.ClaudeSettings{File: args[0]}
		var err error
		if name != "" {
			if s.Agent, err = bourn.ParseAgentName(name); err != nil {
				return err
			}
		}
		if cmd.Flags().Changed("digest") {
			if sum, err := hex.DecodeString(o.digest); err != nil || len(sum) != 32 {
				return bourn.WithHint(usage(fmt.Errorf("--digest takes the SHA-256 of settings in 64 hex digits, not %q", o.digest)), "--dry-run shows it")
			}
		}
		o.digest, o.json = strings.ToLower(o.digest), *asJSON
		if s.Cwd, _, err = a.where(); err != nil {
			return err
		}
		if err := a.open(); err != nil {
			return err
		}
		im, err := a.home.ImportClaude(s)
		if err != nil {
			return err
		}
		return a.importClaude(im, s, o)
	}
	return cmd
}

// importClaude shows what settings would make, and makes it once a person says yes.
func (a *app) importClaude(im *run.Import, s run.ClaudeSettings, o importing) error {
	of := bourn.Printable(s.File)
	switch {
	case o.dry && o.json:
		return a.importJSON(im, false, string(im.Text))
	case o.dry:
		fmt.Fprintf(a.Stdout, "%s", im.Text)
		fmt.Fprintf(a.Stderr, "\nof %s, %s would be made\n  sha256   %s\n", of, title(im.Agent), im.Digest)
		printImport(a.Stderr, im)
		return nil
	}
	err := a.home.CanCreate(im.Agent)
	if err != nil {
		return err
	}
	if !o.json {
		a.printf("of %s, %s would be made\n  project  %s\n  profile  %s\n  sha256   %s\n", of, title(im.Agent),
			bourn.Printable(im.Project), bourn.Printable(im.Profile), im.Digest)
		printImport(a.Stdout, im)
	}
	if err = a.importConsent(im, of, o); err == nil {
		err = a.home.CreateImported(im)
	}
	switch {
	case o.json:
		return errors.Join(a.importJSON(im, err == nil, ""), answered(err))
	case err != nil:
		return err
	}
	a.printf("\n%s is made\n\nnext\n  bourn plan --agent %s\n  bourn run --agent %[2]s\n", title(im.Agent), im.Agent)
	return nil
}

// importConsent returns nil if a person says yes to what was shown, at the terminal or by
// the digest of the settings, or if they are the person's own.
func (a *app) importConsent(im *run.Import, of string, o importing) error {
	switch {
	case o.digest == im.Digest:
		return nil
	case o.digest != "":
		return bourn.WithHint(fmt.Errorf("%w: %s has another digest than --digest says, and nothing is made", bourn.ErrConflict, of),
			"read it again: --dry-run")
	case im.Own:
		return nil
	case o.json || !terminal(a.Stdin) || !terminal(a.Stderr) || !terminal(a.Stdout):
		return bourn.WithHint(fmt.Errorf("%w: %s is not made without a person's yes", bourn.ErrDenied, title(im.Agent)),
			"once you have read what it may do: --digest "+im.Digest)
	}
	question := fmt.Sprintf("\nIt takes %s of the settings, and %s becomes writable. Make it? [y/N] ", count(len(im.Taken), "rule"), bourn.Printable(im.Project))
	if answer := strings.ToLower(a.ask(question)); answer != "y" && answer != "yes" {
		return bourn.WithHint(fmt.Errorf("%w: %s is not made", bourn.ErrDenied, title(im.Agent)), "bourn agent create makes one of your own rules")
	}
	return nil
}

// importJSON prints an import, whether it was made, and for a dry run the profile's text.
func (a *app) importJSON(im *run.Import, made bool, text string) error {
	return printJSON(a.Stdout, struct {
		*run.Import
		Made bool   `json:"made"`
		Text string `json:"text,omitempty"`
	}{im, made, text})
}

// printImport prints what became of each rule.
func printImport(w io.Writer, im *run.Import) {
	if len(im.Taken) > 0 {
		fmt.Fprintf(w, "\nTAKEN\n")
	}
	for _, t := range im.Taken {
		fmt.Fprintf(w, "  %s\n      %s\n", bourn.Printable(t.Rule), bourn.Printable(t.Line))
	}
	printReasoned(w, "ALREADY SO BY DEFAULT", im.Default)
	printReasoned(w, "NOT EXPRESSED", im.Not)
}

// printReasoned prints rules below their reason, each reason once.
func printReasoned(w io.Writer, heading string, all []run.Reasoned) {
	var reasons []string
	rules := map[string][]string{}
	for _, r := range all {
		if rules[r.Reason] == nil {
			reasons = append(reasons, r.Reason)
		}
		rules[r.Reason] = append(rules[r.Reason], bourn.Printable(r.Rule))
	}
	if len(all) > 0 {
		fmt.Fprintf(w, "\n%s\n", heading)
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "  %s\n      — %s\n", strings.Join(rules[reason], "\n  "), bourn.Printable(reason))
	}
}
