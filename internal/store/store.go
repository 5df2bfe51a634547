package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Store is the control plane's way to both databases.
type Store struct {
	// Control and Records are the doors: a member's way to rows.
	Control Door
	Records Door

	control *pgxpool.Pool // bourn_control in control
	issuer  *pgxpool.Pool // bourn_control in records: sessions and roster, no rows
}

// connectWithin is how long a connection may take to come about.
const connectWithin = 5 * time.Second

// Open returns the store behind login. It does not wait for the server: a store whose
// server is away answers ErrUnavailable until it is back.
func Open(ctx context.Context, login Login) (*Store, error) {
	s := &Store{}
	for _, p := range []struct {
		pool           **pgxpool.Pool
		role, database string
		most           int32
	}{
		{&s.control, "bourn_control", ControlDatabase, 12},
		{&s.issuer, "bourn_control", RecordsDatabase, 4},
		{&s.Control.pool, "bourn_member", ControlDatabase, 8},
		{&s.Records.pool, "bourn_app", RecordsDatabase, 16},
	} {
		config, err := pgxpool.ParseConfig(login(p.role, p.database))
		if err != nil {
			s.Close()
			// The error would hold the URL, and the URL a password.
			return nil, fmt.Errorf("%w: cannot read the database's URL", bourn.ErrInvalid)
		}
		config.MaxConns = p.most
		config.ConnConfig.ConnectTimeout = connectWithin
		config.ConnConfig.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
		config.ConnConfig.RuntimeParams["application_name"] = "bournd"
		if p.role != "bourn_control" {
			config.AfterRelease = forget
			// Statements prepared by name would not outlive that.
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		if *p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
			s.Close()
			return nil, classify(err)
		}
	}
	s.Control.sessions, s.Control.role = s.control, "bourn_member"
	s.Records.sessions, s.Records.role = s.issuer, "bourn_app"
	return s, nil
}

// Close closes every connection and waits until those in use were given back.
func (s *Store) Close() {
	for _, p := range []*pgxpool.Pool{s.Control.pool, s.Records.pool, s.issuer, s.control} {
		if p != nil {
			p.Close()
		}
	}
}

// Reset lets go of every connection: of a server that has ended, each would fail once.
func (s *Store) Reset() {
	for _, p := range []*pgxpool.Pool{s.Control.pool, s.Records.pool, s.issuer, s.control} {
		p.Reset()
	}
}

// Ping tells whether both databases answer.
func (s *Store) Ping(ctx context.Context) error {
	return classify(errors.Join(s.control.Ping(ctx), s.issuer.Ping(ctx)))
}

// forget takes everything off a connection that its last user could have left: settings,
// cursors, prepared statements, temporary objects. One that cannot is closed.
func forget(conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), connectWithin)
	defer cancel()
	_, err := conn.Exec(ctx, "discard all")
	return err == nil
}

// errAway is what callers see while the server does not answer: its own words may hold
// a path or a statement.
var errAway = bourn.WithHint(fmt.Errorf("%w: the database does not answer", bourn.ErrUnavailable),
	"see bourn db status; what was asked was not done, or is in the log")

// classify gives an error of the database the code it belongs to. One of the server
// that no line here knows stays as it is: it is internal.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if known := new(wrapped); errors.As(err, known) {
		return err // and what was said about it since stays
	}
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return wrapped{errAway, err} // also one that is not let in: nothing was asked
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return classifyRefused(refused, err)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return wrapped{bourn.ErrNotFound, err}
	}
	var network net.Error
	if errors.As(err, &network) || pgconn.SafeToRetry(err) {
		return wrapped{errAway, err}
	}
	for _, gone := range []error{net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, gone) {
			return wrapped{errAway, err}
		}
	}
	return err
}

// classifyRefused gives what the server said the code it belongs to (PostgreSQL, appendix
// A).
func classifyRefused(refused *pgconn.PgError, err error) error {
	switch refused.Code {
	case "42501":
		return wrapped{fmt.Errorf("%w: the database refuses it", bourn.ErrDenied), err}
	case "P0002":
		return wrapped{bourn.ErrNotFound, err}
	case "23505", "40001", "40P01": // twice, and of two at once one gave way
		return wrapped{bourn.WithHint(fmt.Errorf("%w: it was changed meanwhile, or is there already", bourn.ErrConflict), "look at it, and try again"), err}
	case "57014", "25006": // took too long, or the server takes no changes
		return wrapped{errAway, err}
	case "23514", "23502": // against a rule of the table
		return wrapped{fmt.Errorf("%w: a value is against a rule of the table", bourn.ErrInvalid), err}
	case "BN001": // auth.change_circle
		return wrapped{bourn.WithHint(fmt.Errorf("%w: the circle comes from the host's registry", bourn.ErrConflict), "change it there: bourn people circle"), err}
	}
	switch refused.Code[:min(2, len(refused.Code))] {
	case "08", "28", "53", "57", "58": // connection, admission, no disk or memory, shut down, system
		return wrapped{errAway, err}
	case "54":
		return wrapped{fmt.Errorf("%w: a value is too large", bourn.ErrInvalid), err}
	case "22": // such as NUL in a text
		return wrapped{fmt.Errorf("%w: the database cannot hold a value", bourn.ErrInvalid), err}
	}
	return err
}

// wrapped shows one error and keeps the other for the log.
type wrapped struct{ shown, cause error }

func (w wrapped) Error() string   { return w.shown.Error() }
func (w wrapped) Unwrap() []error { return []error{w.shown, w.cause} }
