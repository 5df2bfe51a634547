package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"bourn"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A SQLQuery is what is run in one call.
type SQLQuery struct {
	// Text is one statement or several; with Parameters it is one.
	Text string
	// Parameters stand for $1, $2, … as text, nil for null. The server tells their types.
	Parameters []*string
	Limits     SQLLimits
}

// SQLLimits bound a call from outside: no setting of the connection's is part of it. Zero
// fields are those of a call that names none: 1000 rows, 1 MiB, 30 seconds.
type SQLLimits struct {
	Rows  int // that are kept, of all statements
	Bytes int // of what is kept
	Time  time.Duration
}

// defaultSQLLimits are those of a call that names none.
var defaultSQLLimits = SQLLimits{Rows: 1000, Bytes: 1 << 20, Time: 30 * time.Second}

// A SQLResult is what a call gave.
type SQLResult struct {
	Statements []SQLStatement
	Notices    []string
	Truncated  bool // there is more than the limits keep
	Cancelled  bool // and so much more that it was cancelled: what was not committed is undone
	RolledBack bool
}

// A SQLStatement is what one statement gave.
type SQLStatement struct {
	Columns []SQLColumn
	Rows    [][]*string // in the server's own text; nil is null
	Tag     string      // as SELECT 3
}

// A SQLColumn is a column of a result.
type SQLColumn struct {
	Name string
	Type string // the server's name of it, or its number
}

// A SQLError is what the server refused a call with, printable.
type SQLError struct {
	State    string // SQLSTATE
	Text     string
	Detail   string
	Hint     string
	Position int // in the text, in characters from 1; 0 for none
	// After is how many statements of the text were done before it; what they changed is undone
	// unless the text commits in between.
	After int
}

// Error implements error.
func (e *SQLError) Error() string {
	s := fmt.Sprintf("%s (SQLSTATE %s)", e.Text, e.State)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Limits of what is kept beside rows, and read beyond them.
const (
	maxSQLText    = 1 << 20  // bytes of a call's text and parameters
	maxParameters = 1000     //
	maxColumns    = 1664     // PostgreSQL's own limit of a result
	maxStatements = 200      // whose results are kept
	maxNotices    = 20       //
	maxDrained    = 16 << 20 // bytes beyond the limits that are read before it is cancelled
	maxSaid       = 2000     // bytes of one notice or error
	noticeBytes   = 100      // that a notice has beside its text
)

// check refuses what cannot be sent.
func (q *SQLQuery) check() error {
	size := len(q.Text)
	texts := []string{q.Text}
	for _, p := range q.Parameters {
		if p != nil {
			size += len(*p)
			texts = append(texts, *p)
		}
	}
	for _, s := range texts {
		if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
			return fmt.Errorf("%w: SQL and parameters are text, without a NUL", bourn.ErrInvalid)
		}
	}
	switch {
	case strings.TrimSpace(q.Text) == "":
		return fmt.Errorf("%w: there is no SQL", bourn.ErrInvalid)
	case size > maxSQLText || len(q.Parameters) > maxParameters:
		return bourn.WithHint(fmt.Errorf("%w: SQL with its parameters has at most %d bytes and %d parameters", bourn.ErrInvalid, maxSQLText, maxParameters), "do it in parts")
	}
	l, d := &q.Limits, defaultSQLLimits
	l.Rows, l.Bytes, l.Time = cmp.Or(l.Rows, d.Rows), cmp.Or(l.Bytes, d.Bytes), cmp.Or(l.Time, d.Time)
	return nil
}

// Run runs a call. A [SQLError] is the server's word; ErrSQLEnded says that nothing was done;
// any other error that the connection has ended.
func (c *SQL) Run(ctx context.Context, q SQLQuery) (*SQLResult, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	select {
	case c.busy <- struct{}{}:
	case <-c.done:
		return nil, ErrSQLEnded
	case <-ctx.Done():
		return nil, classify(ctx.Err())
	}
	defer c.rest()
	if err := c.begin(ctx); err != nil {
		c.end(err)
		return nil, err
	}
	return c.run(ctx, q)
}

// rest lets the connection wait for the next call.
func (c *SQL) rest() {
	c.mu.Lock()
	c.used = c.all.now()
	if c.ended == nil {
		c.idle.Reset(sqlIdle)
	}
	c.mu.Unlock()
	<-c.busy
}

// begin makes the connection as it was at first, whatever the last call has left, and gives it
// its session: as a parameter, so that no other connection can see it.
func (c *SQL) begin(ctx context.Context) error {
	c.mu.Lock()
	c.idle.Stop()
	ended := c.ended
	c.mu.Unlock()
	if ended != nil {
		return ErrSQLEnded
	}
	if err := c.renew(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	token := c.session.token
	c.mu.Unlock()
	// In the midst of it there is nobody to cancel: it takes no time.
	if err := c.conn.SetDeadline(time.Now().Add(connectWithin)); err != nil {
		return ErrSQLEnded
	}
	if err := c.own(&pgproto3.Query{String: "discard all"}); err != nil {
		return wrapped{ErrSQLEnded, err}
	}
	if err := c.own(bound("select pg_catalog.set_config('app.session', $1, false)", []*string{&token})...); err != nil {
		return wrapped{ErrSQLEnded, err}
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		return ErrSQLEnded
	}
	return nil
}

// own runs what is this package's, and fails unless it is done and leaves no transaction.
func (c *SQL) own(messages ...pgproto3.FrontendMessage) error {
	r := reading{limits: defaultSQLLimits}
	state, err := c.exchange(&r, messages)
	if err == nil && r.err != nil {
		err = r.err
	}
	if err == nil && state != 'I' {
		err = errors.New("a transaction is open")
	}
	return err
}

// bound are the messages of one statement with parameters.
func bound(text string, parameters []*string) []pgproto3.FrontendMessage {
	values := make([][]byte, len(parameters))
	for i, p := range parameters {
		if p != nil {
			values[i] = []byte(*p)
		}
	}
	return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: text}, &pgproto3.Bind{Parameters: values},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}}
}

// run runs what was asked, and leaves no transaction.
func (c *SQL) run(ctx context.Context, q SQLQuery) (*SQLResult, error) {
	messages := []pgproto3.FrontendMessage{&pgproto3.Query{String: q.Text}}
	if len(q.Parameters) > 0 {
		messages = bound(q.Text, q.Parameters)
	}
	w := c.watchOver(ctx, q.Limits.Time)
	r := reading{limits: q.Limits, enough: w.enough}
	state, err := c.exchange(&r, messages)
	why := w.over()
	if err != nil {
		c.end(ErrSQLEnded)
		return nil, c.whyGone(why, err)
	}
	if state != 'I' {
		r.result.RolledBack = true
		_ = c.conn.SetDeadline(time.Now().Add(connectWithin))
		err := c.own(&pgproto3.Query{String: "rollback"})
		_ = c.conn.SetDeadline(time.Time{})
		if err != nil {
			c.end(ErrSQLEnded)
		}
	}
	cancelled := r.err != nil && r.err.State == "57014"
	if why != nil && !cancelled {
		c.end(ErrSQLEnded) // the cancellation may be on its way yet, and is not to meet the next call
	}
	switch {
	case r.copied:
		return nil, bourn.WithHint(fmt.Errorf("%w: COPY to or from the client is not answered here", bourn.ErrInvalid), "use SELECT, or INSERT … VALUES; what stands before it in the text may be done")
	case errors.Is(why, errEnough) && cancelled:
		r.result.Cancelled = true
		r.complete("cancelled")
		return &r.result, nil
	case why != nil && cancelled:
		return nil, why // the server's word on it says less
	case r.err != nil:
		return nil, r.err
	}
	return &r.result, nil
}

// whyGone is what who asked is told of a call that has come to nothing.
func (c *SQL) whyGone(why, err error) error {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	switch {
	case why != nil:
		return wrapped{why, err}
	case errors.Is(ended, ErrSessionEnded):
		return wrapped{errRevoked, err}
	}
	var larger *pgproto3.ExceededMaxBodyLenErr
	if errors.As(err, &larger) {
		return wrapped{bourn.WithHint(fmt.Errorf("%w: a row has more than %d bytes", bourn.ErrInvalid, maxSQLBytes), "select less of it, as with left(column, 1000)"), err}
	}
	return wrapped{bourn.WithHint(fmt.Errorf("%w: the connection to the records has ended in the midst of it", bourn.ErrUnavailable), "look at whether it was done before you do it again"), err}
}

// Reasons for which a call is cut short.
var (
	errEnough  = errors.New("there is more than is read")
	errTooLong = bourn.WithHint(fmt.Errorf("%w: the SQL took too long and was cancelled", bourn.ErrUnavailable), "narrow it down, as with a WHERE or a LIMIT; an index may serve it")
	errCalled  = bourn.WithHint(fmt.Errorf("%w: the call was cancelled", bourn.ErrUnavailable), "its changes are undone unless the text commits in between")
	errRevoked = bourn.WithHint(fmt.Errorf("%w in the midst of it", ErrSessionEnded), "look at whether it was done before you do it again; what the member may do may have changed")
)

// A sqlWatch cuts a call short.
type sqlWatch struct {
	enough chan struct{} // gets one when there is more than is read
	ready  chan struct{} // closed when the call is over
	why    chan error    // gets the reason, nil for none, when nothing more is done
}

// watchOver cuts a call short that takes too long, gives too much, or is not waited for any
// more: it is cancelled, and if that does not end it, the backend is.
func (c *SQL) watchOver(ctx context.Context, within time.Duration) *sqlWatch {
	w := &sqlWatch{make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)}
	go func() {
		late := time.NewTimer(within)
		defer late.Stop()
		var why error
		select {
		case <-w.ready:
			w.why <- nil
			return
		case <-late.C:
			why = errTooLong
		case <-ctx.Done():
			why = errCalled
		case <-w.enough:
			why = errEnough
		}
		c.cancel()
		late.Reset(sqlGrace)
		select {
		case <-w.ready:
		case <-late.C:
			c.end(ErrSQLEnded)
		}
		w.why <- why
	}()
	return w
}

// over says that the call is, and returns why it was cut short.
func (w *sqlWatch) over() error {
	close(w.ready)
	return <-w.why
}

// cancel asks the server to end the statement that runs. A server elsewhere is not asked: the
// request would go there in the clear.
func (c *SQL) cancel() {
	ctx, cancel := context.WithTimeout(context.Background(), sqlGrace)
	defer cancel()
	var conn net.Conn
	var err error
	switch {
	case c.who.URL != "":
		return
	case c.who.Dial != nil:
		conn, err = c.who.Dial(ctx)
	default:
		conn, err = new(net.Dialer).DialContext(ctx, "unix", cluster.Socket(c.who.Socket))
	}
	if err != nil {
		return // it ends the other way
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(sqlGrace))
	text, err := (&pgproto3.CancelRequest{ProcessID: c.pid, SecretKey: c.key}).Encode(nil)
	if err == nil {
		_, _ = conn.Write(text)
		_, _ = conn.Read(text[:1]) // the server closes when the signal is sent
	}
}
