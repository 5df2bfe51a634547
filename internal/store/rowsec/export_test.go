package rowsec

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// LintIn looks at what a transaction has changed and not committed.
func LintIn(ctx context.Context, tx pgx.Tx) ([]Finding, error) {
	if _, err := tx.Exec(ctx, inTransaction); err != nil {
		return nil, err
	}
	return lint(ctx, tx, Options{})
}
