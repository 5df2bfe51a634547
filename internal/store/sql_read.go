package store

import (
	"errors"
	"fmt"
	"strings"

	"bourn"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// A reading is what has been read of an answer.
type reading struct {
	limits SQLLimits
	enough chan<- struct{} // nil: everything is read

	result  SQLResult
	err     *SQLError
	copied  bool
	now     *SQLStatement // that rows come of
	skip    bool          // its result is not kept
	rows    int
	bytes   int
	drained int
	after   int
}

// exchange sends messages and reads until the server waits for the next ones. It returns the
// state of the transaction. An error is the connection's.
func (c *SQL) exchange(r *reading, messages []pgproto3.FrontendMessage) (byte, error) {
	for _, m := range messages {
		c.wire.Send(m)
	}
	if err := c.wire.Flush(); err != nil {
		return 0, err
	}
	for {
		m, err := c.wire.Receive()
		if err != nil {
			return 0, err
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery:
			return m.TxStatus, nil
		case *pgproto3.CopyInResponse:
			r.copied = true
			c.wire.Send(&pgproto3.CopyFail{Message: "nothing is copied from the client here"})
			if err := c.wire.Flush(); err != nil {
				return 0, err
			}
		case *pgproto3.CopyBothResponse:
			return 0, errors.New("the server wants to replicate")
		default:
			r.take(m)
			if r.err != nil && (r.err.State[:2] == "57" && r.err.State != "57014" || isFatal(m)) {
				return 0, errors.New(r.err.Error()) // the server closes: it is no answer to the SQL
			}
		}
	}
}

// isFatal reports whether a message says that the server closes the connection.
func isFatal(m pgproto3.BackendMessage) bool {
	e, is := m.(*pgproto3.ErrorResponse)
	return is && (e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC")
}

// take keeps a message, as far as the limits let it.
func (r *reading) take(m pgproto3.BackendMessage) {
	switch m := m.(type) {
	case *pgproto3.RowDescription:
		r.columns(m)
	case *pgproto3.DataRow:
		r.row(m)
	case *pgproto3.CommandComplete:
		r.complete(string(m.CommandTag))
	case *pgproto3.EmptyQueryResponse:
		r.now = nil
	case *pgproto3.CopyOutResponse:
		r.copied = true
	case *pgproto3.CopyData:
		r.drain(len(m.Data))
	case *pgproto3.NoticeResponse:
		if len(r.result.Notices) < maxNotices {
			r.result.Notices = append(r.result.Notices, fmt.Sprintf("%s: %s (SQLSTATE %s)", said(m.Severity), said(m.Message), said(m.Code)))
			return
		}
		r.drain(len(m.Message) + noticeBytes)
	case *pgproto3.ErrorResponse:
		if r.err == nil {
			r.err = &SQLError{State: fmt.Sprintf("%.5s", said(m.Code)+"XXXXX"), Text: said(m.Message), Detail: said(m.Detail), Hint: said(m.Hint), Position: int(m.Position), After: r.after}
		}
	}
}

// said is a text of the server's, which may hold what others wrote.
func said(text string) string {
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return bourn.Printable(text)
}

func (r *reading) columns(m *pgproto3.RowDescription) {
	if r.skip = len(r.result.Statements) >= maxStatements; r.skip {
		return
	}
	r.now = &SQLStatement{Columns: []SQLColumn{}, Rows: [][]*string{}}
	for _, f := range m.Fields[:min(len(m.Fields), maxColumns)] {
		r.now.Columns = append(r.now.Columns, SQLColumn{Name: string(f.Name), Type: typeName(f.DataTypeOID)})
	}
}

func (r *reading) row(m *pgproto3.DataRow) {
	size := 0
	for _, v := range m.Values {
		size += len(v) + 8
	}
	if r.skip || r.now == nil || r.rows >= r.limits.Rows || r.bytes+size > r.limits.Bytes {
		r.result.Truncated = true
		r.drain(size)
		return
	}
	r.rows, r.bytes = r.rows+1, r.bytes+size
	row := make([]*string, len(m.Values))
	for i, v := range m.Values {
		if v != nil {
			text := string(v)
			row[i] = &text
		}
	}
	r.now.Rows = append(r.now.Rows, row)
}

// drain counts what is read and not kept: a statement that changes something is not cut short
// for what it says, until it says very much.
func (r *reading) drain(size int) {
	if r.drained += size; r.drained > maxDrained {
		r.tooMuch()
	}
}

func (r *reading) tooMuch() {
	select {
	case r.enough <- struct{}{}:
	default:
	}
}

func (r *reading) complete(tag string) {
	r.after++
	if r.skip || len(r.result.Statements) >= maxStatements {
		r.result.Truncated = true
		return
	}
	s := SQLStatement{}
	if r.now != nil {
		s = *r.now
	}
	s.Tag, r.now = said(tag), nil
	r.result.Statements = append(r.result.Statements, s)
}

// typeName is the name of a type that every server has.
func typeName(oid uint32) string {
	if t, known := sqlTypes.TypeForOID(oid); known {
		return t.Name
	}
	return fmt.Sprintf("type %d", oid)
}

var sqlTypes = pgtype.NewMap()
