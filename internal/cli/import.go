package cli

import (
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

func (a *app) importClaudeCommand() *cobra.Command {
	var name string
	var dry bool
	cmd := &cobra.Command{
		Use:   "claude-code FILE",
		Short: "Make an agent of a settings file of Claude Code's",
		Long: `Make an agent of a settings file of Claude Code's.

The project that FILE belongs to becomes writable. A rule is taken where the kernel keeps
at least as much as the rule says; every other rule is listed with the reason. Settings in
~/.claude are for every project: there, the current directory is the project.`,
		Example: `  bourn import claude-code .claude/settings.json --dry-run
  bourn import claude-code .claude/settings.local.json --agent app`,
		Args: takes,
	}
	cmd.Flags().StringVar(&name, "agent", "", "the agent's `NAME`; without it, that of the project's directory")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the profile and make nothing")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		s := run.ClaudeSettings{File: args[0]}
		var err error
		if name != "" {
			if s.Agent, err = bourn.ParseAgentName(name); err != nil {
				return err
			}
		}
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
		if !dry {
			if err := a.home.CreateImported(im); err != nil {
				return err
			}
		}
		switch {
		case *asJSON:
			return a.importJSON(im, dry)
		case dry:
			fmt.Fprintf(a.Stdout, "%s", im.Text)
			fmt.Fprintf(a.Stderr, "\nof %s, %s would be made\n", bourn.Printable(s.File), title(im.Agent))
			printImport(a.Stderr, im)
			return nil
		}
		a.printf("%s is made of %s\n  project  %s\n  profile  %s\n", title(im.Agent), bourn.Printable(s.File),
			bourn.Printable(im.Project), bourn.Printable(im.Profile))
		printImport(a.Stdout, im)
		a.printf("\nnext\n  bourn plan --agent %s\n  bourn run --agent %[1]s\n", im.Agent)
		return nil
	}
	return cmd
}

// importJSON prints an import, and of one that made nothing the text of the profile.
func (a *app) importJSON(im *run.Import, dry bool) error {
	text := ""
	if dry {
		text = string(im.Text)
	}
	return printJSON(a.Stdout, struct {
		*run.Import
		Text string `json:"text,omitempty"`
	}{im, text})
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
