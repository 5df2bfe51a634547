package store

import (
	"context"
	"fmt"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// Recreate makes the roles and both databases without anything in them, as a superuser,
// for what a backup holds; Prepare is called when that is in. Databases of these names
// must hold nothing: with a row in one it is ErrConflict, and nothing is done.
func Recreate(ctx context.Context, admin func(database string) string) error {
	conn, err := asAdministrator(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, db := range databases {
		holds, err := holding(ctx, conn, admin, db.name)
		if err != nil {
			return fmt.Errorf("cannot look into the database %s: %w", db.name, classify(err))
		}
		if holds != "" {
			return bourn.WithHint(fmt.Errorf("%w: the database %s is not empty: %s holds rows", bourn.ErrConflict, db.name, holds),
				"--replace puts a private server's directory aside first; on another server drop the databases, if nobody needs them")
		}
	}
	if _, err := conn.Exec(ctx, roles); err != nil {
		return fmt.Errorf("cannot make the database's roles: %w", err)
	}
	for _, db := range databases {
		if _, err := conn.Exec(ctx, "drop database if exists "+db.name+" with (force)"); err != nil {
			return fmt.Errorf("cannot make the database %s anew: %w", db.name, err)
		}
		if err := createDatabase(ctx, conn, db.name, db.owner, db.connect); err != nil {
			return fmt.Errorf("cannot make the database %s: %w", db.name, err)
		}
	}
	return nil
}

// holding returns the name of a table of a database that has a row, besides the notes of
// which migrations ran, and "" where none has or there is no database.
func holding(ctx context.Context, conn *pgx.Conn, admin func(string) string, name string) (string, error) {
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_catalog.pg_database where datname = $1)", name).Scan(&exists); err != nil || !exists {
		return "", err
	}
	own, err := connect(ctx, admin(name))
	if err != nil {
		return "", err
	}
	defer own.Close(context.WithoutCancel(ctx))
	rows, err := own.Query(ctx, `select format('%I.%I', n.nspname, c.relname)
		from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p', 'm') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relname !~ '^goose_'
		order by 1`)
	if err != nil {
		return "", err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	for _, table := range tables {
		var has bool
		if err := own.QueryRow(ctx, "select exists (select from "+table+")").Scan(&has); err != nil {
			return "", err
		}
		if has {
			return table, nil
		}
	}
	return "", nil
}
