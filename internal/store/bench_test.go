package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// visibleTo is the policy `visible` as a query would have it that filters by hand.
const visibleTo = "(owner_id = $1 or visibility = 'company' or visibility = 'circle' and circle_id = any ($2::uuid[]))"

// recordQueries are asked of the record: by row security, and filtered by hand.
var recordQueries = []struct{ name, policy, hand string }{
	{"point", "select body from app.record where id = $1", "select body from app.record where id = $3 and " + visibleTo},
	{"my latest 50", "select id, body from app.record where owner_id = $1 order by created_at desc limit 50", "select id, body from app.record where owner_id = $1 and $2::uuid[] is not null order by created_at desc limit 50"},
	{"visible latest 50", "select id, body from app.record order by created_at desc limit 50", "select id, body from app.record where " + visibleTo + " order by created_at desc limit 50"},
	{"count", "select count(*) from app.record", "select count(*) from app.record where " + visibleTo},
}

// BenchmarkRowSecurity compares what a member asks through row security with the same query
// filtered by hand, by a role that row security does not hold: by turns, on one server.
func BenchmarkRowSecurity(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db := storetest.New(b)
			me := member(b, db, "Me", false)
			fill(b, db, me, n)
			s := issue(b, db.Records, me, time.Hour)
			hand := db.Connect(b, cluster.Admin, "records")
			var id pgx.Row = hand.QueryRow(b.Context(), "select id::text from app.record where owner_id = $1 limit 1", me)
			var mine string
			if err := id.Scan(&mine); err != nil {
				b.Fatal(err)
			}
			var circles []string
			if err := hand.QueryRow(b.Context(), "select coalesce(array_agg(circle_id::text), '{}') from auth.circle_members where member_id = $1", me).Scan(&circles); err != nil {
				b.Fatal(err)
			}
			for _, q := range recordQueries {
				b.Run(q.name, func(b *testing.B) {
					var policy, by []time.Duration
					for b.Loop() {
						err := db.Records.As(b.Context(), s, func(ctx context.Context, tx store.Querier) error {
							for range 40 {
								args := map[string][]any{"point": {mine}, "my latest 50": {me}}[q.name]
								policy = append(policy, drained(b, ctx, tx, q.policy, args...))
								// Planned anew each time, as what goes through a door is.
								args = []any{pgx.QueryExecModeCacheDescribe, me, circles}
								if q.name == "point" {
									args = append(args, mine)
								}
								by = append(by, drained(b, ctx, hand, q.hand, args...))
							}
							return nil
						})
						if err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(middle(policy).Nanoseconds())/1e3, "policy-µs")
					b.ReportMetric(float64(middle(by).Nanoseconds())/1e3, "hand-µs")
					b.ReportMetric(float64(middle(policy))/float64(middle(by)), "ratio")
				})
			}
		})
	}
}

// querying is what both sides have.
type querying interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func drained(b *testing.B, ctx context.Context, q querying, sql string, args ...any) time.Duration {
	began := time.Now()
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil || n == 0 {
		b.Fatalf("%d rows of %s: %v", n, sql, err)
	}
	return time.Since(began)
}

func middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// fill makes n records of 100 members, a tenth of them everybody's and a tenth a circle's.
func fill(b *testing.B, db *storetest.Database, me store.MemberID, n int) {
	b.Helper()
	db.Admin(b, "records",
		"insert into auth.members (name) select 'member '||i from generate_series(1, 99) i",
		"insert into auth.circles (name) select 'circle '||i from generate_series(1, 20) i",
		fmt.Sprintf("insert into auth.circle_members select id, '%s' from auth.circles order by name limit 5", me),
		fmt.Sprintf(`with m as (select array_agg(id) ids from auth.members), c as (select array_agg(id) ids from auth.circles)
			insert into app.record (collection, owner_id, circle_id, visibility, body, created_at)
			select 'notes', m.ids[1 + i %% 100], case when i %% 10 = 1 then c.ids[1 + i %% 20] end,
				case i %% 10 when 0 then 'company' when 1 then 'circle' else 'private' end,
				jsonb_build_object('title', 'note '||i, 'text', repeat('x', 200)), now() - i * interval '1 second'
			from generate_series(1, %d) i, m, c`, n),
		"vacuum analyze app.record", "analyze auth.members", "analyze auth.circle_members")
}

// BenchmarkSession counts sessions that are issued, and transactions that act as one.
func BenchmarkSession(b *testing.B) {
	db := storetest.New(b)
	me := member(b, db, "Me", false)
	b.Run("issue", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				issue(b, db.Records, me, time.Minute)
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sessions/s")
	})
	s := issue(b, db.Records, me, time.Hour)
	b.Run("act", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := db.Records.As(b.Context(), s, func(context.Context, store.Querier) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sessions/s")
	})
}
