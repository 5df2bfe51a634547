package store_test

import (
	"context"
	"fmt"
	"testing"

	"bourn/internal/store"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// A page has no more than a page's bytes of bodies, and one record at least; the next begins
// where it was cut.
func TestRecordPagesBytes(t *testing.T) {
	c := newCast(t, storetest.New(t))
	const records, size = 40, 262_000
	c.db.Admin(t, "records", "alter table app.record drop constraint record_body_size",
		fmt.Sprintf("insert into app.record (collection, owner_id, body) select 'n', '%s', jsonb_build_object('a', repeat('x', case i when 20 then %d else %d end)) from generate_series(1, %d) i", annID, store.PageBytes+1, size, records))
	found, sizes := map[store.ID]bool{}, []int{}
	for f := (store.RecordFilter{Limit: 200}); ; {
		var next store.Place
		kept := &counted{}
		err := c.as(t, "ann", func(ctx context.Context, q store.Querier) (err error) {
			kept.Querier = q
			var all []store.Record
			all, next, err = store.Records(ctx, kept, f)
			for _, r := range all {
				found[r.ID] = true
			}
			sizes = append(sizes, len(all))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if most := max(store.PageBytes, kept.largest) + 64<<10; kept.bytes > most {
			t.Errorf("the server sends %d bytes for a page", kept.bytes)
		}
		if f.After = next; next == (store.Place{}) {
			break
		}
	}
	if len(found) != records || fmt.Sprint(sizes) != "[16 4 1 16 3]" {
		t.Errorf("%d records on pages of %v", len(found), sizes)
	}
}

// A counted counts the bytes of the rows that a server sends.
type counted struct {
	store.Querier
	bytes, largest int
}

func (c *counted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := c.Querier.Query(ctx, sql, args...)
	return countedRows{rows, c}, err
}

type countedRows struct {
	pgx.Rows
	of *counted
}

func (r countedRows) Next() bool {
	next := r.Rows.Next()
	if next {
		for _, v := range r.RawValues() {
			r.of.bytes, r.of.largest = r.of.bytes+len(v), max(r.of.largest, len(v))
		}
	}
	return next
}
