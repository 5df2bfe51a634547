// Command bournd is Bourn's control plane, and what needs its database. `bourn serve` and
// `bourn db` execute it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/operation"

	"github.com/spf13/cobra"
)

// version is set when a release is built.
var version = "dev"

// roles are what the control plane starts itself as, by their first argument, dispatched
// before any flag is looked at.
var roles = map[string]func() int{daemon.HelperRole: daemon.HelperRunner}

func main() {
	if len(os.Args) == 2 && roles[os.Args[1]] != nil {
		os.Exit(roles[os.Args[1]]())
	}
	os.Exit(run(os.Args[1:]))
}

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
	v := operation.Verbs{Serve: serve, Status: dbStatus, Backup: dbBackup, Restore: dbRestore, Console: dbConsole, Migrate: dbMigrate, ServeDatabase: dbServe}
	root.AddCommand(operation.ServeCommand(v), dbCommand(v), recordsCommand())
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		return complain(err, slices.Contains(args, "--json"))
	}
	return 0
}

// complain prints an error and its hint, in JSON too where that was asked for, and returns
// the exit status.
func complain(err error, asJSON bool) int {
	var ended *exitStatus
	if errors.As(err, &ended) {
		return ended.status
	}
	f := failure(err)
	fmt.Fprintf(os.Stderr, "bourn: %s\n", strings.ReplaceAll(bourn.Printable(f.Error.Message), `\x0a`, "\n       "))
	fmt.Fprintf(os.Stderr, "hint: %s\n", bourn.Printable(f.Error.Hint))
	if asJSON {
		_ = printJSON(os.Stdout, f) // what cannot be written has been said already
	}
	return bourn.CodeOf(err).ExitStatus()
}

func failure(err error) operation.Failure {
	hint := "bourn doctor looks at this host, bourn db status at the database"
	if errors.Is(err, errUsage) {
		hint = "bourn serve --help, bourn db --help, bourn records --help"
	}
	return operation.NewFailure(err, hint)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
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
