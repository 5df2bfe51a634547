package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bourn"
	"bourn/internal/archive"
	"bourn/internal/daemon"
	"bourn/internal/operation"
	"bourn/internal/store"

	"github.com/spf13/cobra"
)

// backedUp is what is said of a backup.
type backedUp struct {
	File  string    `json:"file"`
	Bytes int64     `json:"bytes"`
	Made  time.Time `json:"made"`
}

func dbBackup(cmd *cobra.Command, f operation.Database, args []string) error {
	return withServer(cmd.Context(), f, func(home string, s *server) error {
		at, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		out, err := writeBackup(cmd.Context(), home, s, at)
		if err != nil {
			return err
		}
		if f.JSON {
			return printJSON(cmd.OutOrStdout(), out)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "both databases are in %s (%d bytes)\n", bourn.Printable(out.File), out.Bytes)
		fmt.Fprintf(cmd.ErrOrStderr(), "bourn: keys are not in it: keep %s/identity.key and secrets/ apart from it\n", bourn.Printable(home))
		return nil
	})
}

// writeBackup writes what a backup holds, in an order in which the log has everything that
// records show: an effect's entry is written before it.
func writeBackup(ctx context.Context, home string, s *server, at string) (backedUp, error) {
	out := backedUp{File: at, Made: time.Now().UTC().Truncate(time.Second)}
	d, err := store.Describe(ctx, s.admin)
	if err != nil {
		return out, err
	}
	if len(d.Databases) != len(operation.Databases) {
		return out, bourn.WithHint(fmt.Errorf("%w: the server does not have both databases", bourn.ErrNotFound), "bourn serve makes them, on a server that others run bourn db migrate")
	}
	w, err := archive.Create(at)
	if err != nil {
		return out, err
	}
	defer w.Close()
	if err := w.Add(archive.Records, s.dump(ctx, store.RecordsDatabase)); err != nil {
		return out, err
	}
	// Before the log is read: what it signs must be there.
	for _, p := range []struct{ name, path string }{{archive.Checkpoint, daemon.HeadFile(home)}, {archive.Identity, daemon.IdentityFile(home)}} {
		text, err := os.ReadFile(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			text, err = []byte("{}\n"), nil
		}
		if err != nil {
			return out, fmt.Errorf("cannot write the backup: %w", err)
		}
		if err := w.Add(p.name, func(to io.Writer) error { _, err := to.Write(text); return err }); err != nil {
			return out, err
		}
	}
	if err := w.Add(archive.Control, s.dump(ctx, store.ControlDatabase)); err != nil {
		return out, err
	}
	m := archive.Manifest{Made: out.Made, Bourn: version, Postgres: d.Version, Migrations: map[string]int64{}}
	for _, db := range d.Databases {
		for _, set := range db.Migrations {
			m.Migrations[db.Name+"/"+set.Name] = set.At
		}
	}
	if err := w.Finish(m); err != nil {
		return out, err
	}
	info, err := os.Stat(at)
	if err == nil {
		out.Bytes = info.Size()
	}
	return out, err
}

// dump returns what writes a database, as it is at one moment.
func (s *server) dump(ctx context.Context, database string) func(io.Writer) error {
	return func(to io.Writer) error {
		cmd, err := s.command("pg_dump", database, "--format=custom")
		if err != nil {
			return err
		}
		return runTool(ctx, cmd, nil, to, "cannot dump the database "+database)
	}
}
