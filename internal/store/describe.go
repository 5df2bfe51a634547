package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Description says what a server holds.
type Description struct {
	Version                     string // as in 15.18
	Connections, MaxConnections int
	Databases                   []DatabaseDescription
}

// A DatabaseDescription says how large a database is and how far it was migrated.
type DatabaseDescription struct {
	Name       string
	Bytes      int64
	Migrations []MigrationSet
}

// A MigrationSet is how far a database has come in one set of migrations.
type MigrationSet struct {
	Name      string
	At, Known int64 // At is 0 where nothing ran, or the role may not see it
}

// Describe asks a server what it holds. A database that does not exist is left out.
func Describe(ctx context.Context, url func(database string) string) (Description, error) {
	var d Description
	for _, db := range databases {
		conn, err := connect(ctx, url(db.name))
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "3D000" { // there is no such database
			continue
		}
		if err != nil {
			return d, err
		}
		one, err := describe(ctx, conn, db.name, db.sets)
		if err == nil && d.Version == "" {
			err = conn.QueryRow(ctx, `select split_part(current_setting('server_version'), ' ', 1), current_setting('max_connections')::int,
				(select coalesce(sum(pg_catalog.pg_stat_get_db_numbackends(oid)), 0)::int from pg_catalog.pg_database)`).
				Scan(&d.Version, &d.MaxConnections, &d.Connections)
		}
		err = errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
		if err != nil {
			return d, fmt.Errorf("cannot ask the database %s: %w", db.name, classify(err))
		}
		d.Databases = append(d.Databases, one)
	}
	return d, nil
}

func describe(ctx context.Context, conn *pgx.Conn, name string, sets []string) (DatabaseDescription, error) {
	d := DatabaseDescription{Name: name}
	if err := conn.QueryRow(ctx, "select pg_catalog.pg_database_size(current_database())").Scan(&d.Bytes); err != nil {
		return d, err
	}
	for _, set := range sets {
		m := MigrationSet{Name: set}
		var err error
		if m.Known, err = lastMigration(set); err != nil {
			return d, err
		}
		err = conn.QueryRow(ctx, "select coalesce(max(version_id), 0) from public.goose_"+set).Scan(&m.At)
		var refused *pgconn.PgError
		if err != nil && !errors.As(err, &refused) { // not there, or not this role's to see
			return d, err
		}
		d.Migrations = append(d.Migrations, m)
	}
	return d, nil
}

// lastMigration returns the number of the last migration of a set.
func lastMigration(set string) (int64, error) {
	files, err := fs.ReadDir(migrations, "migrations/"+set)
	if err != nil {
		return 0, err
	}
	var last int64
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read the number of migration %s: %w", f.Name(), err)
		}
		last = max(last, n)
	}
	return last, nil
}
