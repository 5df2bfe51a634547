package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// A Visibility says who sees a record or a task besides its owner.
type Visibility string

// The visibilities.
const (
	Private Visibility = "private"
	Circle  Visibility = "circle"  // who is in the circle
	Company Visibility = "company" // every member
)

// A Record is one thing that a member keeps. Only its owner changes it.
type Record struct {
	ID         ID
	Collection string // of records of one kind, such as notes
	Owner      MemberID
	Circle     *ID // of the visibility Circle, else nil
	Visibility Visibility
	Body       json.RawMessage // a JSON object
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

const recordColumns = "id, collection, owner_id, circle_id, visibility, body::text, created_at, updated_at"

// readRecord reads a row of recordColumns.
func readRecord(row pgx.CollectableRow) (Record, error) { return scanRecord(row) }

// scanRecord reads a row of recordColumns and of more.
func scanRecord(row pgx.CollectableRow, more ...any) (r Record, err error) {
	var visibility, body string
	err = row.Scan(append([]any{&r.ID, &r.Collection, &r.Owner, &r.Circle, &visibility, &body, &r.CreatedAt, &r.UpdatedAt}, more...)...)
	r.Visibility, r.Body = Visibility(visibility), json.RawMessage(body)
	return r, err
}

// A RecordFilter says which records are wanted; its zero value means all that are seen.
type RecordFilter struct {
	Collection string
	Words      string // that are in the values of the body, as in a web search
	Circle     *ID
	Visibility Visibility
	Limit      int // 0 means PageDefault, and no page has more than PageMost
	After      Place
}

// PageBytes is how much of bodies is on one page, unless one alone has more.
const PageBytes = 4 << 20

// query is the statement that finds a page, the newest first, and with each record how many are
// there for it: more than are on the page where there is a next one. The server adds up what the
// bodies have, and sends none that has no room.
func (f RecordFilter) query() (string, []any) {
	c := conditions{}
	if f.Collection != "" {
		c.add("collection = %s", f.Collection)
	}
	if f.Words != "" {
		c.add("search @@ websearch_to_tsquery('simple', %s)", f.Words)
	}
	c.shared(f.Circle, f.Visibility)
	c.after(f.After, true)
	return fmt.Sprintf(`select %[1]s, found from (
			select *, sum(octet_length(body::text)) over sofar as bytes, row_number() over sofar as n, count(*) over () as found from (
				select * from app.record where deleted_at is null%[2]s order by created_at desc, id desc limit %[3]d) r
			window sofar as (order by created_at desc, id desc rows unbounded preceding)) r
		where (bytes <= %[4]d or n = 1) and n < %[3]d order by created_at desc, id desc`, recordColumns, c.where, page(f.Limit), PageBytes), c.args
}

// shared adds which circle, and which visibility.
func (c *conditions) shared(circle *ID, v Visibility) {
	if circle != nil {
		// The visibility is what the index is of.
		c.add("visibility = 'circle' and circle_id = %s", *circle)
	}
	if v != "" {
		c.add("visibility = %s", string(v))
	}
}

// Records returns a page of the records that the member sees, the newest first, and where the
// next page begins.
func Records(ctx context.Context, q Querier, f RecordFilter) ([]Record, Place, error) {
	sql, args := f.query()
	found := 0
	all, err := collect(ctx, q, func(row pgx.CollectableRow) (Record, error) { return scanRecord(row, &found) }, sql, args...)
	if err != nil {
		return nil, Place{}, fmt.Errorf("cannot list records: %w", err)
	}
	if n := len(all); n > 0 && n < found {
		return all, Place{all[n-1].CreatedAt, all[n-1].ID}, nil
	}
	return all, Place{}, nil
}

// collect reads the rows of a statement.
func collect[T any](ctx context.Context, q Querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err)
	}
	all, err := pgx.CollectRows(rows, scan)
	return all, classify(err)
}

// GetRecord returns a record that the member sees. One that is hidden and one that is not
// there are the same ErrNotFound.
func GetRecord(ctx context.Context, q Querier, id ID) (Record, error) {
	all, err := collect(ctx, q, readRecord, "select "+recordColumns+" from app.record where id = $1 and deleted_at is null", id)
	return one(all, err, "record", id)
}

func one[T any](all []T, err error, what string, id ID) (one T, _ error) {
	if err != nil {
		return one, fmt.Errorf("cannot read the %s %s: %w", what, id, err)
	}
	if len(all) != 1 {
		return one, errNone(what, id)
	}
	return all[0], nil
}

func errNone(what string, id ID) error {
	return bourn.WithHint(fmt.Errorf("%w: there is no %s %s, or it is not yours to see", bourn.ErrNotFound, what, id), "list them to see which there are")
}

// A NewRecord is what a member gives to keep.
type NewRecord struct {
	Collection string
	Circle     *ID
	Visibility Visibility // "" means Circle with a circle, and else Private
	Body       json.RawMessage
}

// AddRecord keeps a record of the member's.
func AddRecord(ctx context.Context, q Querier, n NewRecord) (Record, error) {
	visibility, err := seenBy(n.Visibility, n.Circle)
	if err != nil {
		return Record{}, err
	}
	all, err := collect(ctx, q, readRecord, "insert into app.record (collection, circle_id, visibility, body) values ($1, $2, $3, $4::text::jsonb) returning "+recordColumns,
		n.Collection, n.Circle, string(visibility), string(n.Body))
	if err != nil {
		return Record{}, refused("make the record", err)
	}
	return one(all, nil, "record", ID{})
}

// seenBy is the visibility of what is new: without a word that which a circle, or none, says.
func seenBy(v Visibility, circle *ID) (Visibility, error) {
	switch {
	case v == "" && circle != nil:
		return Circle, nil
	case v == "":
		return Private, nil
	case (v == Circle) != (circle != nil):
		return "", fmt.Errorf("%w: the visibility circle, and no other, has a circle", bourn.ErrInvalid)
	}
	return v, nil
}

// refused says what the database did not let a member do. What is not there is not told from
// what is hidden.
func refused(what string, err error) error {
	of := func(code error) error {
		return wrapped{fmt.Errorf("%w: cannot %s: %s", code, what, strings.TrimPrefix(err.Error(), code.Error()+": ")), err}
	}
	switch {
	case errors.Is(err, bourn.ErrDenied):
		return bourn.WithHint(of(bourn.ErrDenied), "a circle is one that you are in, a record one that you see, an assignee a member, and the session one that may write")
	case errors.Is(err, bourn.ErrInvalid):
		return of(bourn.ErrInvalid)
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// A RecordChange is what becomes of a record; what is nil stays. A visibility that is not
// Circle takes the record out of its circle, and a circle alone is the visibility Circle.
type RecordChange struct {
	Collection *string
	Circle     *ID
	Visibility *Visibility
	Body       json.RawMessage
}

// sharedAs are the assignments of what may become of circle and visibility: $2 and $3.
const sharedAs = `visibility = coalesce($3::text, case when $2::uuid is not null then 'circle' end, visibility),
	circle_id = case when coalesce($3::text, 'circle') = 'circle' then coalesce($2::uuid, circle_id) end`

// ChangeRecord changes a record of the member's own. Another's that they see is ErrDenied.
func ChangeRecord(ctx context.Context, q Querier, id ID, c RecordChange) (Record, error) {
	var body *string
	if c.Body != nil {
		text := string(c.Body)
		body = &text
	}
	all, err := collect(ctx, q, readRecord, "update app.record set collection = coalesce($4::text, collection), body = coalesce($5::text::jsonb, body), "+sharedAs+
		" where id = $1 and deleted_at is null returning "+recordColumns, id, c.Circle, (*string)(c.Visibility), c.Collection, body)
	if err != nil {
		return Record{}, refused("change the record "+id.String(), err)
	}
	if len(all) == 0 {
		return Record{}, unchanged(ctx, q, "record", id)
	}
	return all[0], nil
}

// unchanged tells why a change met no row: it is seen and not the member's to change, or it
// is not seen.
func unchanged(ctx context.Context, q Querier, table string, id ID) error {
	var seen bool
	// table is one of two names that stand in this package.
	err := q.QueryRow(ctx, "select exists (select from app."+table+" where id = $1 and deleted_at is null)", id).Scan(&seen)
	if err != nil {
		return fmt.Errorf("cannot read the %s %s: %w", table, id, classify(err))
	}
	if !seen {
		return errNone(table, id)
	}
	return bourn.WithHint(fmt.Errorf("%w: the %s %s is not yours to change", bourn.ErrDenied, table, id), "only its owner changes it, and only with a session that may write")
}

// deleted are the assignments of what is deleted: it leaves its circle, so that who is not in
// that any more can delete what they left there. The server says when.
const deleted = "deleted_at = clock_timestamp(), visibility = 'private', circle_id = null"

// DeleteRecord deletes a record of the member's own: nobody else sees it any more. The row
// stays, with its owner.
func DeleteRecord(ctx context.Context, q Querier, id ID) error {
	return remove(ctx, q, "record", id)
}

func remove(ctx context.Context, q Querier, table string, id ID) error {
	tag, err := q.Exec(ctx, "update app."+table+" set "+deleted+" where id = $1 and deleted_at is null", id)
	if err != nil {
		return refused("delete the "+table+" "+id.String(), classify(err))
	}
	if tag.RowsAffected() == 0 {
		return unchanged(ctx, q, table, id)
	}
	return nil
}
