package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"bourn/internal/audit"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
)

// largeLog fills a log with 20,000 entries that are linked, in the time before now. Their
// bodies hold what is asked by, and no hash fits.
func largeLog(t testing.TB, db *storetest.Database) {
	t.Helper()
	db.Admin(t, "control",
		`insert into log.entry (id, at, body)
			select gen_random_uuid(), now() - (20000 - i) * interval '1 second', json_build_object('kind', case when i % 2000 = 0 then 'change' else 'action' end,
				'agent', 'agent-'||i / 5000, 'run', 'run-'||i / 50, 'outcome', case when i % 2000 = 1 then 'denied' else 'allowed' end)
			from generate_series(1, 20000) i`,
		"insert into log.link select seq, seq, sha256(seq::text::bytea) from log.entry order by seq",
		"insert into log.checkpoint select e.seq, e.at, 'x', decode(repeat('00', 64), 'hex') from log.entry e where seq % 100 = 0",
		"vacuum analyze log.entry", "vacuum analyze log.link", "vacuum analyze log.checkpoint")
}

// Whatever a log is asked by is found by an index, in the order that is wanted.
func TestLogLinesByIndex(t *testing.T) {
	db := storetest.New(t)
	largeLog(t, db)
	conn := db.Connect(t, "bourn_control", "control")
	for _, test := range []struct {
		index  string
		filter store.LogFilter
		want   int
	}{
		{"entry_pkey", store.LogFilter{}, 1000},
		{"entry_by_run", store.LogFilter{Run: "run-7"}, 50},
		{"entry_by_run", store.LogFilter{Run: "none"}, 0},
		{"entry_by_agent", store.LogFilter{Agent: "agent-1", Most: 100}, 100},
		{"entry_by_agent", store.LogFilter{Agent: "none"}, 0},
		{"entry_by_kind", store.LogFilter{Kind: audit.KindChange}, 10},
		{"entry_by_outcome", store.LogFilter{Outcome: audit.Denied}, 10},
		{"entry_by_age", store.LogFilter{Since: time.Now().Add(-20 * time.Second)}, 20},
		{"entry_by_run", store.LogFilter{Run: "run-7", Agent: "agent-0", Kind: audit.KindAction, Outcome: audit.Allowed, After: 360, Since: time.Now().Add(-time.Hour * 24)}, 39},
	} {
		for _, newest := range []bool{false, true} {
			test.filter.Newest = newest
			t.Run(fmt.Sprintf("%s/%d/newest=%t", test.index, test.want, newest), func(t *testing.T) {
				sql, args := test.filter.Query()
				plan := strings.Join(rows(t, conn, "explain "+sql, append([]any{pgx.QueryExecModeExec}, args...)...), "\n")
				if !strings.Contains(plan, test.index+" ") || strings.Contains(plan, "Seq Scan on entry") {
					t.Errorf("%s is not used:\n%s", test.index, plan)
				}
				lines, err := db.LogLines(t.Context(), test.filter)
				// A second may pass while it is filled.
				if err != nil || len(lines) > test.want || len(lines) < test.want-test.want/2 {
					t.Fatalf("%d lines, %v; want %d", len(lines), err, test.want)
				}
				for i := 1; i < len(lines); i++ {
					if lines[i].Seq <= lines[i-1].Seq {
						t.Fatalf("line %d comes after line %d", lines[i].Seq, lines[i-1].Seq)
					}
				}
			})
		}
	}
}

// A chainer that starts looks at a whole log once; what was committed late before that it
// finds then.
func TestChainerStartsLate(t *testing.T) {
	db := storetest.New(t)
	largeLog(t, db)
	db.Admin(t, "control", "delete from log.link where seq between 100 and 102", "update log.link set position = position - 3 where seq > 102 and seq < 200")
	c, err := db.Chainer(t.Context(), logKey, audit.Signed{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	if err := c.Run(ctx, time.Millisecond, func(audit.Signed) {
		if steps++; steps == 3 {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	conn := db.Connect(t, cluster.Admin, "control")
	if late := rows(t, conn, "select e.seq::text from log.entry e where not exists (select from log.link l where l.seq = e.seq)"); len(late) != 0 {
		t.Errorf("not linked: %v", late)
	}
	if low := c.Low(); low < 19_000 || low > 20_000 {
		t.Errorf("after a start it looks from %d on", low)
	}
}
