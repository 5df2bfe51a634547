package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/operation"

	"github.com/spf13/cobra"
)

// A Failure is what a command with --json prints on standard output when it could not do
// what was asked.
type Failure = operation.Failure

// inAnswer is an error that a command's own JSON shows already.
type inAnswer struct{ error }

func (e inAnswer) Unwrap() error { return e.error }

// answered marks an error that is in what the command has printed as JSON, which is the
// only value on standard output then. A nil err stays nil.
func answered(err error) error {
	if err == nil {
		return nil
	}
	return inAnswer{err}
}

// complain prints an error and its hint, and sets the exit status.
func (a *app) complain(cmd *cobra.Command, err error) {
	var f Failure
	f.Error.Code, f.Error.Message, f.Error.Hint = codeOf(err), sentence(err), hint(cmd, err)
	if a.exit == 0 {
		a.exit = f.Error.Code.ExitStatus()
		if cmd.Name() == "run" || cmd.Name() == "exec" {
			a.exit = exitNoRun // as env(1): nothing was started
		}
	}
	for i, line := range strings.Split(f.Error.Message, "\n") {
		if i == 0 {
			line = "bourn: " + line
		} else {
			line = "       " + line
		}
		fmt.Fprintln(a.Stderr, bourn.Printable(line))
	}
	fmt.Fprintln(a.Stderr, "hint: "+bourn.Printable(f.Error.Hint))
	if a.wantsJSON(cmd, err) {
		_ = printJSON(a.Stdout, f) // what cannot be written has been said already
	}
}

// wantsJSON reports whether --json was given. A command line that cannot be read has not
// set the flag, and whoever asked for JSON waits for it all the same.
func (a *app) wantsJSON(cmd *cobra.Command, err error) bool {
	flag := cmd.Flags().Lookup("json")
	if flag == nil || errors.As(err, new(inAnswer)) {
		return false
	}
	args := a.Args
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return flag.Value.String() == "true" || isUsage(err) && slices.Contains(args, "--json")
}

func codeOf(err error) bourn.Code {
	if isUsage(err) {
		return bourn.CodeInvalid
	}
	return bourn.CodeOf(err)
}

// hint is what to do about an error: what it says itself, or what helps with its kind.
func hint(cmd *cobra.Command, err error) string {
	if h := bourn.HintOf(err); h != "" {
		return h
	}
	if isUsage(err) {
		return cmd.CommandPath() + " --help shows the usage and examples"
	}
	switch bourn.CodeOf(err) {
	case bourn.CodeInvalid, bourn.CodeDenied, bourn.CodeParked, bourn.CodeConflict:
		return cmd.CommandPath() + " --help shows what it takes"
	case bourn.CodeNotFound:
		return "bourn agent list shows the agents, bourn --help the commands"
	case bourn.CodeWeakHost, bourn.CodeUnavailable, bourn.CodeInternal:
	}
	return "bourn doctor looks at this host and at bourn's own files"
}

// sentence is an error's text without the name of its code, which is for programs.
func sentence(err error) string { return operation.Sentence(err) }

// isUsage reports whether cobra refused the command line: it has no error types.
func isUsage(err error) bool {
	s := err.Error()
	return strings.HasPrefix(s, "unknown command") || strings.HasPrefix(s, "accepts ") || strings.HasPrefix(s, "requires ") ||
		strings.HasPrefix(s, "invalid usage") || strings.HasPrefix(s, "required flag")
}
