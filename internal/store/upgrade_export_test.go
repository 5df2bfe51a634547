package store

import (
	"context"
	"io/fs"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// PrepareDatabase is what Prepare does with a database that is there.
var PrepareDatabase = prepareDatabase

// MigrateTo runs the migrations of a set up to a version, as a release that had no more did.
func MigrateTo(ctx context.Context, url, set string, version int64) error {
	conn, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations/"+set)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName("goose_"+set), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}

// Query is the statement that finds a filter's records.
func (f RecordFilter) Query() (string, []any) { return f.query() }
