package store

import (
	"context"
	"fmt"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// DiagnosticsPrefix begins every diagnostics token, so that one that leaked is known for
// what it is.
const DiagnosticsPrefix = "bourn_diag_"

// LooksLikeDiagnosticsToken reports whether s has the form of one, which costs nothing to
// tell.
func LooksLikeDiagnosticsToken(s string) bool { return looksLike(s, DiagnosticsPrefix) }

// A DiagnosticsToken is what is kept of a token that may read health, status, metrics
// and traces, and nothing else.
type DiagnosticsToken struct {
	ID        string
	Name      string
	CreatedAt time.Time
	CreatedBy string
	Expires   *time.Time
	Revoked   *time.Time
}

// NewDiagnosticsToken makes a token and returns it, for the only time, with what is kept.
func (s *Store) NewDiagnosticsToken(ctx context.Context, name, by string, expires *time.Time) (string, DiagnosticsToken, error) {
	token := DiagnosticsPrefix + newSecret()
	rows, err := s.control.Query(ctx, `insert into control.diagnostics_tokens (name, hash, created_by, expires_at) values ($1, $2, $3, $4)
		returning id::text, name, created_at, created_by, expires_at, revoked_at`, name, hashOf(token), by, expires)
	if err != nil {
		return "", DiagnosticsToken{}, classify(err)
	}
	kept, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[DiagnosticsToken])
	if err != nil {
		return "", DiagnosticsToken{}, classify(err)
	}
	return token, kept, nil
}

// CheckDiagnosticsToken returns the token that was presented, if it is one that was made,
// has not expired and was not revoked; else ErrDenied, which does not say why.
func (s *Store) CheckDiagnosticsToken(ctx context.Context, presented string) (DiagnosticsToken, error) {
	rows, err := s.control.Query(ctx, `select id::text, name, created_at, created_by, expires_at, revoked_at
		from control.diagnostics_tokens
		where hash = $1 and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())`, hashOf(presented))
	if err != nil {
		return DiagnosticsToken{}, classify(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DiagnosticsToken])
	if err != nil {
		return DiagnosticsToken{}, classify(err)
	}
	if len(all) != 1 {
		return DiagnosticsToken{}, fmt.Errorf("%w: the token is not valid", bourn.ErrDenied)
	}
	return all[0], nil
}

// DiagnosticsTokens returns all tokens, the newest first.
func (s *Store) DiagnosticsTokens(ctx context.Context) ([]DiagnosticsToken, error) {
	rows, err := s.control.Query(ctx, `select id::text, name, created_at, created_by, expires_at, revoked_at
		from control.diagnostics_tokens order by created_at desc, id`)
	if err != nil {
		return nil, classify(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DiagnosticsToken])
	return all, classify(err)
}

// RevokeDiagnosticsToken ends a token at once; ErrNotFound where there is none to end.
func (s *Store) RevokeDiagnosticsToken(ctx context.Context, id string) error {
	tag, err := s.control.Exec(ctx, `update control.diagnostics_tokens set revoked_at = clock_timestamp()
		where id::text = $1 and revoked_at is null`, id)
	if err != nil {
		return classify(err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w: no diagnostics token of that id is valid", bourn.ErrNotFound)
	}
	return nil
}
