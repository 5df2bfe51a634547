package store

import (
	"context"

	"github.com/jackc/pgx/v5/stdlib"
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
	provider, err := migrationsOf(db, set)
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}

// Query is the statement that finds a filter's records.
func (f RecordFilter) Query() (string, []any) { return f.query() }
