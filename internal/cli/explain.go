package cli

import (
	"fmt"
	"net"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// operations are what can be asked for.
var operations = []policy.Operation{policy.OpRead, policy.OpWrite, policy.OpExec, policy.OpConnect}

// A question is the command line of explain.
type question struct {
	agent  string // "" for a run without one
	op     policy.Operation
	target string
}

func (a *app) explainCommand() *cobra.Command {
	var f grantFlags
	cmd := &cobra.Command{
		Use:   "explain [AGENT] read|write|exec|connect TARGET",
		Short: "Say whether a path may be read, written or executed, and what decides",
		Long: `Say whether an agent, or without AGENT a run in this directory with the same flags, may
read, write or execute a path, or connect to a host. It names the item that decides and
the command that would mend a refusal. The exit status is 0 when it is allowed and 3 when
it is denied.

Inside a seal the question is about the run itself, and AGENT is left out.`,
		Example: `  bourn explain builder write ~/src/app/.env
  bourn explain builder exec go
  bourn explain --read ~/src/lib read ~/src/lib/main.c`,
		ValidArgsFunction: a.completeExplain,
	}
	f.add(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := readQuestion(cmd, args, f.agent)
		if err != nil {
			return err
		}
		if err := f.check(cmd); err != nil {
			return err
		}
		e, err := a.explain(q, &f)
		if err != nil {
			return err
		}
		if e.Allowed != "allowed" {
			a.exit = bourn.CodeDenied.ExitStatus()
		}
		if *asJSON {
			return printJSON(a.Stdout, answerJSON(e.Answer))
		}
		a.printExplanation(e)
		return nil
	}
	return cmd
}

// readQuestion reads [AGENT] OPERATION TARGET.
func readQuestion(cmd *cobra.Command, args []string, flag string) (question, error) {
	q := question{agent: flag}
	rest := args
	if len(args) > 2 || len(args) > 0 && !isOperation(args[0]) && len(args) > 1 && isOperation(args[1]) {
		if flag != "" && flag != args[0] {
			return q, usage(fmt.Errorf("%s: two agents are named, %q and %q", cmd.Use, args[0], flag))
		}
		q.agent, rest = args[0], args[1:]
	}
	switch {
	case len(rest) == 0:
		return q, usage(fmt.Errorf("bourn %s: the operation is missing", cmd.Use))
	case !isOperation(rest[0]):
		return q, usage(fmt.Errorf("bourn %s: the operation is %q", cmd.Use, rest[0]))
	case len(rest) == 1:
		return q, usage(fmt.Errorf("bourn %s: TARGET is missing", cmd.Use))
	case len(rest) > 2:
		return q, usage(fmt.Errorf("bourn %s: %q is one argument too many", cmd.Use, rest[2]))
	case rest[1] == "":
		return q, usage(fmt.Errorf("bourn %s: TARGET is empty", cmd.Use))
	}
	q.op, q.target = policy.Operation(rest[0]), rest[1]
	return q, nil
}

func isOperation(s string) bool {
	for _, op := range operations {
		if s == string(op) {
			return true
		}
	}
	return false
}

func (a *app) explain(q question, f *grantFlags) (run.Explanation, error) {
	if inside() {
		return a.explainInside(q)
	}
	f.agent = q.agent
	p, err := a.prepare(f, nil)
	if err != nil {
		return run.Explanation{}, err
	}
	return p.Explain(q.op, q.target)
}

// explainInside asks the gate. Symlinks are resolved in the run's own view: the gate
// answers from the plan alone.
func (a *app) explainInside(q question) (run.Explanation, error) {
	var e run.Explanation
	if q.agent != "" {
		return e, usage(fmt.Errorf("bourn explain read|write|exec|connect TARGET: inside a seal AGENT is left out"))
	}
	target := q.target
	if q.op != policy.OpConnect {
		h, err := a.findHome()
		if err != nil {
			return e, err
		}
		cwd, _, err := a.where()
		if err != nil {
			return e, err
		}
		if target, err = h.Resolve(target, cwd); err != nil {
			return e, err
		}
	}
	err := askGate("bourn/explain", map[string]string{"operation": string(q.op), "target": target}, &e.Answer)
	e.Target = q.target
	if err != nil || !e.AbsentInside() {
		return e, err
	}
	var r run.Report
	if err := askGate("bourn/whoami", nil, &r); err != nil {
		return e, err
	}
	e.Absent(r.Items)
	return e, nil
}

// askGate asks the gate of the run that this process is in.
func askGate(method string, params, result any) error {
	conn, err := net.Dial("unix", run.GatePath)
	if err != nil {
		return bourn.WithHint(fmt.Errorf("%w: the gate does not answer: %w", bourn.ErrUnavailable, err), "the run may be ending")
	}
	defer conn.Close()
	if err := run.AskGate(conn, method, params, result); err != nil {
		return bourn.WithHint(fmt.Errorf("%w: the gate does not answer: %w", bourn.ErrUnavailable, err), "the run may be ending")
	}
	return nil
}

// answerJSON is an answer with all its keys, whatever they hold.
func answerJSON(a policy.Answer) any {
	return struct {
		policy.Answer
		Grant string `json:"grant"`
	}{a, a.Grant}
}

func (a *app) printExplanation(e run.Explanation) {
	who := "a run here"
	if e.Agent != "" {
		who = title(bourn.AgentName(e.Agent))
	}
	may := "may"
	if e.Allowed != "allowed" {
		may = "may not"
	}
	what := string(e.Operation)
	if e.Operation == policy.OpConnect {
		what = "connect to"
	}
	target := bourn.Printable(e.Target)
	if e.Resolved != e.Target {
		target += " (" + bourn.Printable(e.Resolved) + ")"
	}
	a.printf("%s: %s %s %s %s\n", e.Allowed, who, may, what, target)
	if it := e.Item; it != nil {
		a.printf("\ndecided by\n")
		printItem(a.Stdout, *it)
		a.printf("      %s\n", origin(*it))
	}
	if e.Reason != "" {
		a.printf("\n%s\n", bourn.Printable(e.Reason))
	}
	for _, n := range e.Notes {
		a.printf("\n%s\n", bourn.Printable(n))
	}
	lines := e.Remove
	if e.Grant != "" {
		lines = append(lines, e.Grant)
	}
	if len(lines) > 0 {
		a.printf("\nto mend it\n")
	}
	for _, line := range lines {
		a.printf("  %s\n", bourn.Printable(line))
	}
}

// origin says what an item is, where it comes from, and what keeps it.
func origin(it policy.Item) string {
	s := strings.ReplaceAll(string(it.Kind), "_", " ") + ", from " + it.From
	if len(it.By) > 0 {
		s += ", by " + strings.Join(it.By, " and ")
	}
	return s
}

func (a *app) completeExplain(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var ops []cobra.Completion
	for _, op := range operations {
		ops = append(ops, string(op))
	}
	switch {
	case len(args) == 0:
		return append(ops, a.agentNames()...), cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && !isOperation(args[0]):
		return ops, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}
