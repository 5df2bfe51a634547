package cli

import (
	"fmt"
	"io"

	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) listPathsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list-paths AGENT",
		Short: "Show every path of an agent's profile, and whether the kernel keeps it",
		Long: `Show every path of an agent's profile, and whether the kernel keeps it.

  ✓  enforced: the kernel keeps it
  ✗  dropped: it has no effect, for the reason below it
  ·  recorded: nothing runs that it could bind

The first line says whether the sandbox is enforcing, ADVISORY, not running or unknown.`,
		Example: `  bourn agent perm list-paths builder
  bourn agent perm list-paths builder --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		r, err := a.listedReport(name)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, r)
		}
		fmt.Fprintf(a.Stdout, "%s — %s\n", title(name), state(r.Sandbox))
		printPaths(a.Stdout, r)
		printFooter(a.Stdout, r)
		return nil
	}
	return cmd
}

// printPaths prints the items that are paths of the profile.
func printPaths(w io.Writer, r run.Report) {
	kinds := []policy.Kind{policy.KindRead, policy.KindWrite, policy.KindDeny, policy.KindProtect, policy.KindSpawnDir}
	var paths []policy.Item
	for _, it := range r.Items {
		if !deniesHost(it) && (it.Kind != policy.KindProtect || it.Blocks()) {
			paths = append(paths, it)
		}
	}
	if countKinds(paths, kinds) == 0 {
		fmt.Fprintf(w, "\nno path is granted\n")
		return
	}
	printItems(w, paths, kinds...)
}

func countKinds(items []policy.Item, kinds []policy.Kind) int {
	n := 0
	for _, it := range items {
		if contains(kinds, it.Kind) {
			n++
		}
	}
	return n
}
