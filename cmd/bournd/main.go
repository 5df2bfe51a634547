// Command bournd is Bourn's control plane, and what needs its database. `bourn serve` and
// `bourn db` execute it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"bourn"
	"bourn/internal/daemon"

	"github.com/spf13/cobra"
)

// version is set when a release is built.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

// errUsage is a command line that cannot be understood.
var errUsage = fmt.Errorf("%w usage", bourn.ErrInvalid)

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), daemon.StopSignals()...)
	defer stop()
	root := &cobra.Command{
		Use: "bournd", Short: "Run Bourn's control plane and look after its database", Version: version,
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.AddCommand(serveCommand(), dbCommand())
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		return complain(err)
	}
	return 0
}

// complain prints an error and its hint, and returns the exit status.
func complain(err error) int {
	var ended *exitStatus
	if errors.As(err, &ended) {
		return ended.status
	}
	fmt.Fprintf(os.Stderr, "bourn: %s\n", bourn.Printable(err.Error()))
	hint := bourn.HintOf(err)
	if hint == "" && errors.Is(err, errUsage) {
		hint = "bourn serve --help, bourn db --help"
	}
	if hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", bourn.Printable(hint))
	}
	return bourn.CodeOf(err).ExitStatus()
}

// exitStatus is the status of a program that was run in this one's place.
type exitStatus struct{ status int }

func (e *exitStatus) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// home is $BOURN_HOME, or ~/.bourn.
func home() (string, error) {
	if dir := os.Getenv("BOURN_HOME"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", bourn.WithHint(fmt.Errorf("%w: BOURN_HOME is %q, and must be absolute", bourn.ErrInvalid, dir), "give it from the root, beginning with /")
		}
		return filepath.Clean(dir), nil
	}
	person, err := os.UserHomeDir()
	if err != nil {
		return "", bourn.WithHint(fmt.Errorf("%w: there is no home directory: %w", bourn.ErrInvalid, err), "set HOME or BOURN_HOME")
	}
	return filepath.Join(person, ".bourn"), nil
}
