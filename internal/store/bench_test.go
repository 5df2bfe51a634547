package store_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// visibleTo is the policy `visible` as a query would have it that filters by hand.
const visibleTo = "(owner_id = $1 or visibility = 'company' and deleted_at is null or visibility = 'circle' and deleted_at is null and circle_id = any ($2::uuid[]))"

// recordQueries are asked of the record: by row security, and filtered by hand. $1 is me,
// $2 my circles and $3 what of says, by hand; the policy's have $1 for what of says alone.
var recordQueries = []struct{ name, of, policy, hand string }{
	{"point", "id", "select body from app.record where id = $1", "select body from app.record where id = $3 and " + visibleTo},
	{"my latest 50", "me", "select id, body from app.record where owner_id = $1 order by created_at desc limit 50",
		"select id, body from app.record where owner_id = $3 and " + visibleTo + " order by created_at desc limit 50"},
	{"visible latest 50", "", "select id, body from app.record order by created_at desc limit 50",
		"select id, body from app.record where " + visibleTo + " order by created_at desc limit 50"},
	{"count", "", "select count(*) from app.record", "select count(*) from app.record where " + visibleTo},
	{"insert", "body", "insert into app.record (collection, body) values ('bench', $1) returning id",
		"insert into app.record (collection, body, owner_id) select 'bench', $3, $1 where $2::uuid[] is not null returning id"},
	{"full text", "word", "select id from app.record where search @@ to_tsquery('simple', $1) order by created_at desc limit 50",
		"select id from app.record where search @@ to_tsquery('simple', $3) and " + visibleTo + " order by created_at desc limit 50"},
}

// sizes are the numbers of rows: those in BOURN_BENCH_ROWS, with commas between, or as many
// as a machine fills while one waits. A million take some minutes and 2 GB.
func sizes(b *testing.B) []int {
	b.Helper()
	var all []int
	for text := range strings.SplitSeq(os.Getenv("BOURN_BENCH_ROWS"), ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			b.Fatalf("BOURN_BENCH_ROWS: cannot read %q as a number of rows, of at least 1000", text)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return []int{10_000, 100_000}
	}
	return all
}

// BenchmarkRowSecurity compares what a member asks through row security with the same query
// filtered by hand, by a role that row security does not hold: by turns, on one server.
func BenchmarkRowSecurity(b *testing.B) {
	for _, n := range sizes(b) {
		for _, members := range []int{10, 100, 1000, 10_000} {
			if members > n/10 {
				continue
			}
			b.Run(fmt.Sprintf("rows=%d/members=%d", n, members), func(b *testing.B) {
				db := storetest.New(b)
				me := member(b, db, "Me", false)
				fill(b, db, me, n, members)
				benchmarkRecord(b, db, me)
			})
		}
	}
}

func benchmarkRecord(b *testing.B, db *storetest.Database, me store.MemberID) {
	s := issue(b, db.Records, me, time.Hour)
	hand := db.Connect(b, cluster.Admin, "records")
	var mine string
	if err := hand.QueryRow(b.Context(), "select id::text from app.record where owner_id = $1 limit 1", me).Scan(&mine); err != nil {
		b.Fatal(err)
	}
	var circles []string
	if err := hand.QueryRow(b.Context(), "select coalesce(array_agg(circle_id::text), '{}') from auth.circle_members where member_id = $1", me).Scan(&circles); err != nil {
		b.Fatal(err)
	}
	var word string
	if err := hand.QueryRow(b.Context(), "select split_part(body->>'text', ' ', 1) from app.record where id = $1", mine).Scan(&word); err != nil {
		b.Fatal(err)
	}
	given := map[string][]any{"": {}, "id": {mine}, "me": {me}, "body": {`{"text": "a new one"}`}, "word": {word}}
	for _, q := range recordQueries {
		b.Run(q.name, func(b *testing.B) {
			var policy, by, whole []time.Duration
			// Planned anew each time, as what goes through a door is.
			byHand := append([]any{pgx.QueryExecModeCacheDescribe, me, circles}, given[q.of]...)
			for b.Loop() {
				err := db.Records.As(b.Context(), s, func(ctx context.Context, tx store.Querier) error {
					if _, err := hand.Exec(ctx, "begin"); err != nil {
						return err
					}
					for range 40 {
						policy = append(policy, drained(b, ctx, tx, q.policy, given[q.of]...))
						by = append(by, drained(b, ctx, hand, q.hand, byHand...))
					}
					_, err := hand.Exec(ctx, "commit")
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				// With all that the door does for one statement: its session, and forgetting it.
				began := time.Now()
				err = db.Records.As(b.Context(), s, func(ctx context.Context, tx store.Querier) error {
					drained(b, ctx, tx, q.policy, given[q.of]...)
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				whole = append(whole, time.Since(began))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(middle(policy).Nanoseconds())/1e3, "policy-µs")
			b.ReportMetric(float64(middle(by).Nanoseconds())/1e3, "hand-µs")
			b.ReportMetric(float64(middle(policy))/float64(middle(by)), "ratio")
			b.ReportMetric(float64(middle(whole).Nanoseconds())/1e3, "door-µs")
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

// fill makes n records of as many members as there are to be: 60 of a hundred are their
// owners' alone, 35 a circle's and five the company's. A circle has ten members on average,
// and everybody is in up to five. Each of a thousand words is in one record of a thousand.
func fill(b testing.TB, db *storetest.Database, me store.MemberID, n, members int) {
	b.Helper()
	circles := max(members/10, 5)
	db.Admin(b, "records",
		fmt.Sprintf("insert into auth.members (name) select 'member '||i from generate_series(1, %d) i", members-1),
		fmt.Sprintf("insert into auth.circles (name) select 'circle '||i from generate_series(1, %d) i", circles),
		fmt.Sprintf(`with m as (select id, row_number() over (order by id) n from auth.members), c as (select id, row_number() over (order by id) - 1 n from auth.circles)
			insert into auth.circle_members (circle_id, member_id) select distinct c.id, m.id from m, generate_series(0, 4) k, c where c.n = (m.n * 7 + k * 13) %% %d on conflict do nothing`, circles),
		fmt.Sprintf(`with m as (select array_agg(id order by id = '%s' desc) ids from auth.members), c as (select array_agg(id) ids from auth.circles)
			insert into app.record (collection, owner_id, circle_id, visibility, body, created_at)
			select 'notes', m.ids[1 + abs(hashint4(i) %% %d)], case when i %% 100 < 35 then c.ids[1 + abs(hashint4(-i) %% %d)] end,
				case when i %% 100 < 35 then 'circle' when i %% 100 < 40 then 'company' else 'private' end,
				jsonb_build_object('title', 'note '||i, 'text', 'word'||abs(hashint4(i * 3) %% 1000)||' '||repeat('x', 180)), now() - i * interval '1 second'
			from generate_series(1, %d) i, m, c`, me, members, circles, n),
		"vacuum analyze app.record", "analyze auth.members", "analyze auth.circle_members", "analyze auth.circles", "checkpoint")
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

// BenchmarkAgentConnection measures what an agent waits for at its first statement: a
// session, a connection of the person's own role, and the statement; and at each one after.
func BenchmarkAgentConnection(b *testing.B) {
	db := storetest.New(b)
	const role = "bc_m_bench"
	if _, err := store.AgentRoles(b.Context(), db.ServerURL(cluster.Admin, "postgres"), store.AgentRoleWish{Active: []string{role}}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Admin(b, "records", "drop role "+role) })
	me := member(b, db, "Me", false)
	all := db.NewSQLs(time.Now)
	b.Cleanup(all.Close)
	who := store.SQLFor{Member: me, Role: role, Kind: store.Agent, Socket: db.SocketDir()}
	ask := func(c *store.SQL) {
		if _, err := c.Run(b.Context(), store.SQLQuery{Text: "select count(*) from app.record"}); err != nil {
			b.Fatal(err)
		}
	}
	open := func() *store.SQL {
		c, err := all.Open(b.Context(), who)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			c := open()
			ask(c)
			b.StopTimer()
			c.End()
			b.StartTimer()
		}
	})
	b.Run("next", func(b *testing.B) {
		c := open()
		defer c.End()
		for b.Loop() {
			ask(c)
		}
	})
}
