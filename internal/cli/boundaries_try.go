package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/api"
	"bourn/internal/review"

	"github.com/spf13/cobra"
)

// tryFlags say what is tried, and by which rules.
type tryFlags struct{ path, operation, file string }

func (a *app) boundariesTryCommand() *cobra.Command {
	var f tryFlags
	cmd := &cobra.Command{
		Use:   "test [COMMAND...]",
		Short: "Say which hard blocks a command or a path meets, and why",
		Long: `Say which hard blocks a command or a path meets, and why. One argument is a command for a
shell; several are a program with its arguments. The rules are those in force, as they were
last published, or those of --file; nothing is executed or saved.

The exit status is 0 for allow, 3 for deny and 4 for ask.`,
		Example: `  bourn boundaries test 'git -C x push --force'
  bourn boundaries test --path ~/src/app/.env --operation write
  bourn boundaries test --file blocks.json -- git push -f`,
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&f.path, "path", "", "try an operation on `PATH` in place of a command")
	cmd.Flags().StringVar(&f.operation, "operation", "", "read, write, delete, execute or delegate; with --path (default read)")
	cmd.Flags().StringVar(&f.file, "file", "", "try the rules of `FILE`, or of standard input for -")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if inside() {
			return refuseInside(cmd.CommandPath())
		}
		action, err := a.tried(f, args)
		if err != nil {
			return err
		}
		rules, err := a.triedRules(f.file)
		if err != nil {
			return err
		}
		e := review.Explain(action, rules)
		switch e.Verdict.Outcome {
		case bourn.Deny:
			a.exit = bourn.CodeDenied.ExitStatus()
		case bourn.Ask:
			a.exit = bourn.CodeParked.ExitStatus()
		case bourn.Allow:
		}
		if *asJSON {
			return printJSON(a.Stdout, tried(e))
		}
		a.printTried(e)
		return nil
	}
	return cmd
}

// tried makes the action that is tried.
func (a *app) tried(f tryFlags, args []string) (bourn.Action, error) {
	switch {
	case f.path == "" && len(args) == 0:
		return bourn.Action{}, usage(errors.New("bourn boundaries test: a command or --path is missing"))
	case f.path != "" && len(args) > 0:
		return bourn.Action{}, usage(errors.New("bourn boundaries test: a command and --path contradict each other"))
	case f.path == "" && f.operation != "":
		return bourn.Action{}, usage(errors.New("bourn boundaries test: --operation goes with --path; a command is executed"))
	}
	cwd, _, err := a.where()
	if err != nil {
		return bourn.Action{}, err
	}
	if f.path == "" {
		c := &bourn.Command{Argv: args, Cwd: cwd}
		if len(args) == 1 {
			c.Text, c.Argv = args[0], nil
		}
		return bourn.Action{Tool: "shell_exec", Command: c}, nil
	}
	operation := bourn.Read
	if f.operation != "" {
		if operation, err = bourn.ParseOperation(f.operation); err != nil {
			return bourn.Action{}, usage(err)
		}
	}
	h, err := a.findHome()
	if err != nil {
		return bourn.Action{}, err
	}
	t := bourn.Target{Operation: operation, Path: f.path}
	if rest, ok := strings.CutPrefix(f.path, "~/"); ok {
		t.Path = h.Person + "/" + rest
	} else if !filepath.IsAbs(f.path) {
		t.Path = cwd + "/" + f.path
	}
	if real, err := h.Resolve(f.path, cwd); err == nil {
		t.Resolved = real
	}
	return bourn.Action{Tool: "boundaries test", Targets: []bourn.Target{t}}, nil
}

// triedRules returns the rules that are tried.
func (a *app) triedRules(file string) (*review.Compiled, error) {
	if file != "" {
		document, err := a.readDocument(file)
		if err != nil {
			return nil, err
		}
		rules, err := a.parseDocument(file, document)
		if err != nil {
			return nil, err
		}
		return a.compiled(rules)
	}
	h, err := a.findHome()
	if err != nil {
		return nil, err
	}
	p, err := h.Published()
	if err != nil {
		return nil, err
	}
	return a.compiled(p.Rules)
}

func (a *app) compiled(rules review.Boundaries) (*review.Compiled, error) {
	c, err := review.Compile(rules, a.base())
	return c, bourn.WithHint(err, "bourn boundaries show lists the rules")
}

// tried is an explanation as the interface has it.
func tried(e review.Explanation) api.TestedBoundaries {
	out := api.TestedBoundaries{Verdict: e.Verdict.Outcome.String(), Matches: []api.Match{}}
	if len(e.Verdict.Reasons) > 0 {
		out.Reason = e.Verdict.Reasons[0].Blocker()
	}
	for _, f := range e.Findings {
		out.Matches = append(out.Matches, api.Match{Rule: f.Rule.ID, On: f.Compared, Reason: f.Rule.Reason})
	}
	return out
}

func (a *app) printTried(e review.Explanation) {
	a.printf("%s\n", e.Verdict.Outcome)
	for _, f := range e.Findings {
		verb := "matches"
		if f.Outcome == bourn.Ask {
			verb = "may match: it cannot be told"
		}
		a.printf("\n%s %s\n  on %s", bourn.Printable(rule(f.Rule)), verb, bourn.Printable(f.Compared))
		if f.Where != "" {
			a.printf(" (%s)", bourn.Printable(f.Where))
		}
		a.printf("\n")
		if f.Rule.Reason != "" {
			a.printf("  %s\n", bourn.Printable(f.Rule.Reason))
		}
	}
	for _, why := range e.Unclear {
		a.printf("\nit cannot be told what is executed: %s\n", bourn.Printable(why))
	}
	if len(e.Commands) > 0 {
		var found []string
		for _, c := range e.Commands {
			found = append(found, fmt.Sprintf("  %s", bourn.Printable(c.Text)))
		}
		a.printf("\ncommands that were found in it\n%s\n", strings.Join(found, "\n"))
	}
}
