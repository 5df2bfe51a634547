package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/daemon/instance"
	"bourn/internal/operation"

	"github.com/spf13/cobra"
)

// runTool runs a program to its end, or to that of ctx.
func runTool(ctx context.Context, cmd *exec.Cmd, in io.Reader, out io.Writer, what string) error {
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended
	defer stop()
	err := cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %s: it was interrupted", bourn.ErrUnavailable, what)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", bourn.ErrUnavailable, what, ended(cmd, said.String(), err))
	}
	return nil
}

func dbConsole(cmd *cobra.Command, f operation.Database, args []string) error {
	database, rest := operation.Databases[0], args
	if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
		database, rest = args[0], args[1:]
	}
	return withServer(cmd.Context(), f, func(_ string, s *server) error {
		psql, err := s.command("psql", database, rest...)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "bourn: this is the database's administrator: row security does not bind it, and what it changes is in no log")
		if s.own == nil {
			return instance.Execute(psql.Path, psql.Args, psql.Env)
		}
		return console(psql)
	})
}

// console runs psql at this terminal while the private server lives with this process. A
// Ctrl-C is psql's.
func console(psql *exec.Cmd) error {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, daemon.StopSignals()...)
	defer signal.Stop(ignored)
	psql.Stdin, psql.Stdout, psql.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := psql.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &exitStatus{max(1, exit.ExitCode())}
	}
	return err
}
