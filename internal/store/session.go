package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Session is the right to act as one member, as one database role, until a time. Its
// token is shown to nobody and stands nowhere: the database knows its hash.
type Session struct {
	token   string
	Member  MemberID
	Expires time.Time
}

// String, GoString, MarshalJSON and LogValue keep the token out of logs and answers.
func (Session) String() string               { return "[protected]" }
func (Session) GoString() string             { return "[protected]" }
func (Session) MarshalJSON() ([]byte, error) { return []byte(`"[protected]"`), nil }
func (Session) LogValue() slog.Value         { return slog.StringValue("[protected]") }

// A Kind says what a session was issued for.
type Kind string

// The kinds of sessions.
const (
	SignIn Kind = "sign-in" // a browser's
	Socket Kind = "socket"  // a person's at the local socket
	Agent  Kind = "agent"   // an agent's, for the member it acts for
)

// A Door is the way to a member's rows in one database: transactions that act as one
// session. There is no other.
type Door struct {
	pool     *pgxpool.Pool // the role that members' statements run as
	sessions *pgxpool.Pool // the role that issues sessions
	role     string
}

// ErrSessionEnded is what who acts as a session that has ended is refused with.
var ErrSessionEnded = bourn.WithHint(fmt.Errorf("%w: the session has ended", bourn.ErrDenied), "sign in again")

// A Querier runs statements inside a transaction whose end is not the caller's to choose.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Issue makes a session for a member, valid for at most 31 days. One who was removed gets none:
// ErrDenied.
func (d Door) Issue(ctx context.Context, member MemberID, kind Kind, valid time.Duration) (Session, error) {
	return issue(ctx, d.sessions, member, d.role, kind, valid, false, 0)
}

// IssueReading makes a session that sees what the member sees and changes nothing.
func (d Door) IssueReading(ctx context.Context, member MemberID, kind Kind, valid time.Duration) (Session, error) {
	return issue(ctx, d.sessions, member, d.role, kind, valid, true, 0)
}

// IssueFor makes a session for a member that holds on connections of one role to the
// records. The database keeps that one that is readOnly changes nothing, and that one for a
// backend, by its process id, changes something on that connection alone; 0 is for any.
func (s *Store) IssueFor(ctx context.Context, member MemberID, role string, kind Kind, valid time.Duration, readOnly bool, backend uint32) (Session, error) {
	return issue(ctx, s.issuer, member, role, kind, valid, readOnly, backend)
}

func issue(ctx context.Context, pool *pgxpool.Pool, member MemberID, role string, kind Kind, valid time.Duration, readOnly bool, backend uint32) (Session, error) {
	s := Session{token: newSecret(), Member: member}
	err := pool.QueryRow(ctx, "select auth.issue($1, $2, $3, $4, $5, $6, nullif($7::integer, 0))",
		s.hash(), member, role, kind, pgtype.Interval{Microseconds: valid.Microseconds(), Valid: true}, readOnly, backend).Scan(&s.Expires)
	if err = classify(err); errors.Is(err, bourn.ErrNotFound) {
		return Session{}, wrapped{bourn.WithHint(fmt.Errorf("%w: the member has been removed", bourn.ErrDenied), "ask an administrator"), err}
	}
	if err != nil {
		return Session{}, fmt.Errorf("cannot issue a session: %w", err)
	}
	return s, nil
}

// Revoke ends a session at once: also statements of transactions that run see it.
func (d Door) Revoke(ctx context.Context, s Session) error {
	if _, err := d.sessions.Exec(ctx, "select auth.revoke($1)", s.hash()); err != nil {
		return fmt.Errorf("cannot revoke a session: %w", classify(err))
	}
	return nil
}

func (s Session) hash() []byte { return hashOf(s.token) }

// As runs f in a transaction that acts as the session, and commits it if f returns nil.
// A session that has ended is ErrSessionEnded, before f is called.
func (d Door) As(ctx context.Context, s Session, f func(ctx context.Context, q Querier) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Release()
	var me *MemberID
	// One round trip, the token as a parameter: as a literal, others could read it.
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue("select set_config('app.session', $1, true)", s.token)
	batch.Queue("select auth.me()").QueryRow(func(row pgx.Row) error { return row.Scan(&me) })
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return classify(err)
	}
	// What is not committed below is rolled back, also after a panic.
	end := "rollback"
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectWithin)
		defer cancel()
		if end != "" {
			if _, err := conn.Exec(ctx, end); err != nil {
				_ = conn.Conn().Close(ctx)
			}
		}
	}()
	if me == nil || *me != s.Member {
		return ErrSessionEnded
	}
	if err := f(ctx, conn.Conn()); err != nil {
		return classify(err)
	}
	tag, err := conn.Exec(ctx, "commit")
	end = ""
	if err != nil {
		_ = conn.Conn().Close(ctx)
		return classify(err)
	}
	if tag.String() != "COMMIT" { // a statement had failed, and f did not say so
		return fmt.Errorf("%w: the transaction was rolled back", bourn.ErrInternal)
	}
	return nil
}

// Sweep removes sessions that ended more than an hour ago, from both databases.
func (s *Store) Sweep(ctx context.Context) error {
	for _, pool := range []*pgxpool.Pool{s.control, s.issuer} {
		if _, err := pool.Exec(ctx, "select auth.sweep()"); err != nil {
			return fmt.Errorf("cannot remove sessions that have ended: %w", classify(err))
		}
	}
	return nil
}
