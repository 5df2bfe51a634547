package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"bourn"
	"bourn/internal/operation"
	"bourn/internal/store"
	"bourn/internal/store/rowsec"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

// recordsCommand is what an administrator does about tables of records.
func recordsCommand() *cobra.Command {
	cmd := operation.RecordsCommand(operation.RecordsVerbs{Guard: recordsGuard, Lint: recordsLint})
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

func recordsGuard(cmd *cobra.Command, f operation.Records, args []string) error {
	what := rowsec.Guard
	if f.Undo {
		what = rowsec.Undo
	}
	q := rowsec.Request{Table: args[0], Owner: f.Owner, Circle: f.Circle, Visibility: f.Visibility, Created: f.Created,
		Parents: f.Parents, Update: f.Update, OwnedBy: f.OwnedBy}
	return withRecords(cmd.Context(), f, func(conn *pgx.Conn) error {
		m, err := what(cmd.Context(), conn, q)
		if err != nil {
			return err
		}
		if f.JSON {
			return printJSON(cmd.OutOrStdout(), m)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), m.SQL)
		return err
	})
}

// linted is what bourn records lint --json prints.
type linted struct {
	Findings []rowsec.Finding `json:"findings"`
}

func recordsLint(cmd *cobra.Command, f operation.Records, _ []string) error {
	out := linted{[]rowsec.Finding{}}
	err := withRecords(cmd.Context(), f, func(conn *pgx.Conn) error {
		found, err := rowsec.Lint(cmd.Context(), conn, rowsec.Options{Schemas: f.Schemas})
		out.Findings = append(out.Findings, found...)
		return err
	})
	if err != nil {
		return err
	}
	if f.JSON {
		err = printJSON(cmd.OutOrStdout(), out)
	} else {
		var b strings.Builder
		for _, one := range out.Findings {
			fmt.Fprintln(&b, one)
		}
		_, err = io.WriteString(cmd.OutOrStdout(), b.String())
	}
	if err == nil && len(out.Findings) > 0 {
		return &exitStatus{1}
	}
	return err
}

// withRecords calls f with an administrator's connection to the database records.
func withRecords(ctx context.Context, o operation.Records, f func(*pgx.Conn) error) error {
	return withServer(ctx, o.Database, func(_ string, s *server) error {
		conn, err := pgx.Connect(ctx, s.admin(store.RecordsDatabase))
		if err != nil {
			return refused(err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return f(conn)
	})
}

// refused is the error of a connection that did not come about, without the URL that is in pgx's.
func refused(err error) error {
	var said *pgconn.PgError
	switch {
	case !errors.As(err, &said):
		return bourn.WithHint(fmt.Errorf("%w: the database does not answer", bourn.ErrUnavailable),
			"see bourn db status; for a server that others run, look at --admin-url")
	case said.Code == "3D000":
		return bourn.WithHint(fmt.Errorf("%w: there is no database records on this server", bourn.ErrNotFound),
			"bourn serve makes it on the private server, bourn db migrate on one that others run")
	}
	return bourn.WithHint(fmt.Errorf("%w: the database lets nobody in as its administrator: %s", bourn.ErrDenied, said.Message),
		"run this as the user whom the private server belongs to, on a shared host as root, or give --admin-url of a superuser")
}
