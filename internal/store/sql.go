package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"bourn"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// SQL that nobody has read before runs on a connection of one member's, as that member's own
// role and with a session that is issued for it:
//
//	open ──▶ idle ──Run──▶ busy ──▶ idle ── …
//	           │             │ session over, too long, too much
//	           └──▶ ended ◀──┘ socket closed, backend terminated, session revoked
//
// It is never anybody else's, and an ended one is never used again.

// A SQLFor says whose a connection is, and how it comes about.
type SQLFor struct {
	Member   MemberID
	Role     string // of the database
	Kind     Kind
	ReadOnly bool // the session changes nothing; the database keeps that

	// One of these: Dial, which gives what the server is spoken to on and is called again to
	// cancel; the directory of the server's socket; a server's URL, with the role's certificate.
	Dial        func(ctx context.Context) (net.Conn, error)
	Socket      string
	URL         string
	Certificate *tls.Certificate
}

// Times of a connection.
const (
	sqlSession  = 15 * time.Minute       // how long its session holds
	sqlRenew    = 5 * time.Minute        // what is left of it when it is renewed
	sqlIdle     = time.Minute            // how long it is kept for the next call
	sqlPoll     = 250 * time.Millisecond // how often sessions are asked for
	sqlGrace    = time.Second            // between a cancellation and the end
	maxSQLBytes = 9 << 20                // of one message of the server's: more than any call keeps
)

// ErrSQLEnded is what a call on a connection that has ended is refused with: nothing was done.
var ErrSQLEnded = bourn.WithHint(fmt.Errorf("%w: the connection to the records has ended", bourn.ErrUnavailable), "try again")

// A SQL is such a connection. It is safe for concurrent use, one call at a time.
type SQL struct {
	all  *SQLs
	who  SQLFor
	conn net.Conn
	wire *pgproto3.Frontend
	pid  uint32
	key  []byte // with which it is cancelled
	busy chan struct{}
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	session Session
	ended   error // why, nil for not
	idle    *time.Timer
	used    time.Time
}

// SQLs are the connections that there are. Those whose sessions are over end within a second,
// whatever they do.
type SQLs struct {
	store *Store
	now   func() time.Time
	begin sync.Once // of what watches
	work  sync.WaitGroup
	stop  context.CancelFunc
	ctx   context.Context

	mu     sync.Mutex
	open   map[*SQL]struct{}
	closed bool // nothing is begun any more: who adds to work looks here first

	missed int // how often in turn the database did not say which sessions are live; of watch
}

// NewSQLs returns none yet. Close ends what it begins.
func (s *Store) NewSQLs(now func() time.Time) *SQLs {
	a := &SQLs{store: s, now: now, open: map[*SQL]struct{}{}}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// Close ends every connection, and waits until all is still.
func (a *SQLs) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stop()
	for _, c := range a.all() {
		c.end(ErrSQLEnded)
	}
	a.work.Wait()
}

func (a *SQLs) all() []*SQL {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*SQL
	for c := range a.open {
		all = append(all, c)
	}
	return all
}

// EndOf ends every connection of a member's.
func (a *SQLs) EndOf(member MemberID) {
	for _, c := range a.all() {
		if c.who.Member == member {
			c.end(ErrSessionEnded)
		}
	}
}

// Open makes a connection and a session for it.
func (a *SQLs) Open(ctx context.Context, who SQLFor) (*SQL, error) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil, ErrSQLEnded
	}
	a.work.Add(1) // Close waits for it, and so for what it begins
	a.mu.Unlock()
	defer a.work.Done()
	config, err := a.config(who)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	var undialled error
	if who.Dial != nil {
		config.DialFunc = func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			conn, undialled = who.Dial(ctx)
			return conn, undialled
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err == nil {
		conn, err = asMade(ctx, conn, config)
	}
	if undialled != nil {
		err = undialled // it says more, and what to do
	}
	if err != nil {
		if undialled == nil {
			err = notLetIn(who.Role, err)
		}
		return nil, err
	}
	session, err := a.store.IssueFor(ctx, who.Member, who.Role, who.Kind, sqlSession, who.ReadOnly, conn.PID())
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		err = notLetIn(who.Role, err)
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)), a.store.Records.Revoke(context.WithoutCancel(ctx), session))
	}
	c := &SQL{all: a, who: who, conn: hijacked.Conn, wire: hijacked.Frontend, pid: hijacked.PID, key: hijacked.SecretKey,
		busy: make(chan struct{}, 1), done: make(chan struct{}), session: session, used: a.now()}
	c.wire.SetMaxBodyLen(maxSQLBytes)
	c.mu.Lock()
	c.idle = time.AfterFunc(sqlIdle, c.unused)
	c.mu.Unlock()
	a.mu.Lock()
	a.open[c] = struct{}{}
	a.begin.Do(func() { a.work.Go(a.watch) })
	closed := a.closed
	a.mu.Unlock()
	if closed { // meanwhile, and Close may not have seen this one
		c.end(ErrSQLEnded)
		return nil, ErrSQLEnded
	}
	return c, nil
}

// config is how a connection begins. What the role could have set for itself is set here.
func (a *SQLs) config(who SQLFor) (*pgconn.Config, error) {
	text := cluster.ConnString(who.Socket, who.Role, a.store.recordsName())
	switch {
	case who.URL != "":
		text = WithLogin(who.URL, who.Role, "", a.store.recordsName())
	case who.Dial != nil:
		text = cluster.ConnString("/", who.Role, a.store.recordsName())
	case who.Socket == "":
		return nil, fmt.Errorf("%w: there is no way to the database", bourn.ErrInternal)
	}
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot read the database's URL", bourn.ErrInvalid) // the error would hold it
	}
	config.ConnectTimeout, config.Fallbacks, config.Password = connectWithin, nil, ""
	if who.URL != "" {
		if err := secured(config, who); err != nil {
			return nil, err
		}
	}
	config.RuntimeParams = maps.Clone(sqlSettings)
	if who.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	return config, nil
}

// asMade returns a connection whose role has the settings that it was made with: what SQL has
// set for the role since, also SQL that only reads, is to hold for no other run.
func asMade(ctx context.Context, conn *pgconn.PgConn, config *pgconn.Config) (*pgconn.PgConn, error) {
	changed := conn.ExecParams(ctx, `select from pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c
		where s.setrole = (select r.oid from pg_catalog.pg_roles r where r.rolname = session_user)
			and not exists (select from pg_catalog.pg_settings g where g.name = pg_catalog.split_part(c, '=', 1) and g.context like 'superuser%')`,
		nil, nil, nil, nil).Read()
	if changed.Err == nil && len(changed.Rows) == 0 {
		return conn, nil
	}
	// What a superuser has set stays. This connection has begun with the rest.
	reset := "alter role " + pgx.Identifier{config.User}.Sanitize()
	_, err := conn.Exec(ctx, "begin read write; set role none; "+reset+" reset all; "+reset+" in database "+pgx.Identifier{config.Database}.Sanitize()+" reset all; commit").ReadAll()
	if err := errors.Join(changed.Err, err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	return pgconn.ConnectConfig(ctx, config)
}

// sqlSettings are those that a connection begins with. None is a boundary: SQL may set them.
var sqlSettings = map[string]string{
	"search_path": "app, pg_temp", "application_name": "bourn-sql", "client_encoding": "UTF8", "standard_conforming_strings": "on",
	"DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "UTC", "bytea_output": "hex", "extra_float_digits": "1",
	"default_transaction_isolation": "read committed", "default_transaction_read_only": "off", "default_transaction_deferrable": "off",
	"row_security": "on", "jit": "off", "max_parallel_workers_per_gather": "0",
	"lock_timeout": "5s", "statement_timeout": "0", "idle_in_transaction_session_timeout": "60s",
	"idle_session_timeout": "0", "local_preload_libraries": "", // with these a role could shut itself out
}

// secured sees that a server elsewhere is the one that is meant and that the role shows its
// certificate to it.
func secured(config *pgconn.Config, who SQLFor) error {
	t := config.TLSConfig
	switch {
	case t == nil || t.InsecureSkipVerify: // only verify-full leaves it to Go to look at name and chain
		return bourn.WithHint(fmt.Errorf("%w: the database's URL does not say that the server's certificate is checked", bourn.ErrDenied), "add sslmode=verify-full to it")
	case who.Certificate == nil:
		return fmt.Errorf("%w: the role %s has no certificate", bourn.ErrInternal, who.Role)
	}
	config.TLSConfig = t.Clone()
	config.TLSConfig.Certificates = []tls.Certificate{*who.Certificate}
	config.TLSConfig.GetClientCertificate = nil
	return nil
}

// notLetIn is why there is no connection: the server's words hold no secret, and are for
// whoever administers it.
func notLetIn(role string, err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return classify(err)
	}
	switch refused.Code {
	case "53300":
		return bourn.WithHint(fmt.Errorf("%w: the role %s has as many connections as it may have", bourn.ErrUnavailable, role), "end another run, or wait a minute: connections that nobody uses end")
	case "28000", "28P01", "42501":
		return wrapped{bourn.WithHint(fmt.Errorf("%w: the database does not let the role %s in", bourn.ErrDenied, role), "ask an administrator of the database, who may look at its log"), err}
	}
	return classify(err)
}

// recordsName is the name of the database.
func (s *Store) recordsName() string { return s.issuer.Config().ConnConfig.Database }

// Done is closed when the connection has ended.
func (c *SQL) Done() <-chan struct{} { return c.done }

// ReadOnly reports whether its session changes nothing.
func (c *SQL) ReadOnly() bool { return c.who.ReadOnly }

// End ends the connection. What runs on it is ended, too.
func (c *SQL) End() { c.end(ErrSQLEnded) }

// Yield ends the connection unless a call is on it, and reports whether it has ended.
func (c *SQL) Yield() bool {
	select {
	case c.busy <- struct{}{}:
		c.end(ErrSQLEnded)
		<-c.busy
		return true
	case <-c.done:
		return true
	default:
		return false
	}
}

// Used is when a call was on it last.
func (c *SQL) Used() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// unused ends the connection that nobody has used for its time.
func (c *SQL) unused() { c.Yield() }

// end closes the socket first: from there on nobody gets a row. Then the backend is ended: one
// in the midst of a statement would not look at its socket.
func (c *SQL) end(why error) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	c.ended = why
	c.idle.Stop()
	session := c.session
	c.mu.Unlock()
	_ = c.conn.Close() // nothing is lost with it
	close(c.done)
	a := c.all
	a.mu.Lock()
	delete(a.open, c)
	a.work.Add(1)
	a.mu.Unlock()
	go func() {
		defer a.work.Done()
		ctx, cancel := context.WithTimeout(context.Background(), connectWithin)
		defer cancel()
		// Neither can be told to anybody: the session ends by itself, and the backend with its
		// next look at the socket.
		_, _ = a.store.issuer.Exec(ctx, "select auth.end_backend($1)", int32(c.pid))
		_ = a.store.Records.Revoke(ctx, session)
	}()
}

// watch ends connections whose sessions are over. Where the database cannot say which are, all
// end.
func (a *SQLs) watch() {
	tick := time.NewTicker(sqlPoll)
	defer tick.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-tick.C:
			a.look()
		}
	}
}

func (a *SQLs) look() {
	open := a.all()
	if len(open) == 0 {
		return
	}
	var hashes [][]byte
	of := map[*SQL]string{}
	for _, c := range open {
		c.mu.Lock()
		hash := c.session.hash()
		c.mu.Unlock()
		hashes, of[c] = append(hashes, hash), string(hash)
	}
	live, err := a.live(hashes)
	if err != nil {
		if a.missed++; a.missed < 2 {
			return
		}
	} else {
		a.missed = 0
	}
	for _, c := range open {
		if live[of[c]] {
			continue
		}
		c.mu.Lock()
		renewed := string(c.session.hash()) != of[c]
		c.mu.Unlock()
		switch {
		case err != nil:
			c.end(errAway)
		case !renewed:
			c.end(ErrSessionEnded)
		}
	}
}

// live asks which sessions are. What it may take leaves time to ask once more, and to end
// those that are not live within a second.
func (a *SQLs) live(hashes [][]byte) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(a.ctx, sqlPoll)
	defer cancel()
	rows, err := a.store.issuer.Query(ctx, "select auth.live($1)", hashes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	live := map[string]bool{}
	for rows.Next() {
		var hash []byte
		if err := rows.Scan(&hash); err != nil {
			return nil, err
		}
		live[string(hash)] = true
	}
	return live, rows.Err()
}

// renew gives the connection another session where its own is near its end.
func (c *SQL) renew(ctx context.Context) error {
	c.mu.Lock()
	old := c.session
	c.mu.Unlock()
	if old.Expires.Sub(c.all.now()) > sqlRenew {
		return nil
	}
	fresh, err := c.all.store.IssueFor(ctx, c.who.Member, c.who.Role, c.who.Kind, sqlSession, c.who.ReadOnly, c.pid)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.ended == nil {
		c.session = fresh
	} else {
		old = fresh // end has revoked the other, and does not know this one
	}
	c.mu.Unlock()
	return c.all.store.Records.Revoke(ctx, old)
}
