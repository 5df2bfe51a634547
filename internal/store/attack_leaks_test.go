package store_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"bourn/internal/store/storetest"
)

// many gives Bob 2,000 private records and tasks with contents that occur nowhere else.
func (w *world) many(t *testing.T) {
	t.Helper()
	w.db.Admin(t, "records",
		w.fill(`insert into app.record (collection, owner_id, body) select 'mark-payroll', '{bob}', jsonb_build_object('text', 'salary '||i) from generate_series(1, 2000) i`),
		w.fill(`insert into app.task (title, owner_id, due) select 'mark-dismissal', '{bob}', '2031-01-01' from generate_series(1, 2000) i`),
		"vacuum analyze app.record", "vacuum analyze app.task")
}

// probes are pairs of conditions, of which the first fits hidden rows alone and the second
// fits none: whoever can tell one from the other knows what hidden rows hold.
var probes = []struct{ name, table, hidden, nowhere string }{
	{"equal", "app.record", "collection = 'mark-payroll'", "collection = 'mark-xxxxxxx'"},
	{"range", "app.record", "collection >= 'mark-p' and collection < 'mark-q'", "collection >= 'mark-x' and collection < 'mark-y'"},
	{"prefix", "app.record", "collection ^@ 'mark-p'", "collection ^@ 'mark-x'"},
	{"pattern", "app.record", "collection like 'mark-p%'", "collection like 'mark-x%'"},
	{"word", "app.record", "search @@ 'salary'", "search @@ 'nowhere'"},
	{"words", "app.record", "search @@ 'salary & 1000'", "search @@ 'nowhere & 1000'"},
	{"beginning of a word", "app.record", "search @@ 'sal:*'", "search @@ 'now:*'"},
	{"in the body", "app.record", `body @> '{"text": "salary 5"}'`, `body @> '{"text": "nowhere "}'`},
	{"of the body", "app.record", "body->>'text' = 'salary 5'", "body->>'text' = 'nowhere '"},
	{"whole body", "app.record", `body = '{"text": "salary 5"}'`, `body = '{"text": "nowhere "}'`},
	{"title", "app.task", "title = 'mark-dismissal'", "title = 'mark-xxxxxxxxx'"},
	{"title in order", "app.task", "title > 'mark-d' and title < 'mark-e'", "title > 'mark-x' and title < 'mark-y'"},
	{"due", "app.task", "due = '2031-01-01'", "due = '2033-01-01'"},
}

// shapes are what makes the planner or the server show what it met.
var shapes = []struct{ name, sql string }{
	{"estimate", "explain (verbose) select * from %s where %s"},
	{"run", "explain (analyze, timing off, summary off, buffers off) select * from %s where %s"},
	{"run by index", "set enable_seqscan = off\nexplain (analyze, timing off, summary off, buffers off) select * from %s where %s"},
	{"in order", "set enable_seqscan = off\nexplain (analyze, timing off, summary off, buffers off) select * from %s where %s order by created_at desc limit 1"},
	{"pages", "set enable_seqscan = off\nexplain (analyze, timing off, summary off, buffers on) select count(*) from %s where %s"},
	{"grouped", "explain select owner_id, count(*) from %s where %s group by owner_id"},
}

// What stands in a hidden row cannot be guessed at by EXPLAIN: neither its estimates nor
// what it counts tell a content that hidden rows have from one that there is not.
func TestExplainTellsNoContent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		w.many(t)
		for _, told := range w.explained(t) {
			t.Error(told)
		}
	})
}

// That test finds what it looks for: operators that the planner trusts, and statistics of
// words.
func TestExplainFinds(t *testing.T) {
	for _, planted := range []string{
		"alter function pg_catalog.texteq(text, text) leakproof",
		"alter function pg_catalog.text_lt(text, text) leakproof; alter function pg_catalog.text_gt(text, text) leakproof",
		"alter function pg_catalog.date_eq(date, date) leakproof",
		"alter table app.record alter column search set statistics 100",
		"alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof",
	} {
		t.Run(planted, func(t *testing.T) {
			w := newWorld(t, storetest.New(t))
			w.db.Admin(t, "records", planted)
			w.many(t)
			if len(w.explained(t)) == 0 {
				t.Error("not found")
			}
		})
	}
}

// explained are the probes and shapes that tell.
func (w *world) explained(t *testing.T) (told []string) {
	t.Helper()
	a := w.connect(t, "ann", false)
	for _, p := range probes {
		for _, shape := range shapes {
			var plans []string
			for _, condition := range []string{p.hidden, p.nowhere} {
				var plan string
				a.do(t.Context(), "reset enable_seqscan")
				// Twice: what was read once comes from memory.
				for line := range strings.SplitSeq(strings.Repeat(shape.sql+"\n", 2), "\n") {
					if strings.Contains(line, "%s") {
						line = fmt.Sprintf(line, p.table, condition)
					}
					if line != "" {
						plan = a.do(t.Context(), line)
					}
				}
				if a.refused || !strings.Contains(plan, "(") {
					t.Fatalf("%s, %s: %s", p.name, shape.name, plan)
				}
				plans = append(plans, words.ReplaceAllString(plan, ""))
			}
			if plans[0] != plans[1] {
				told = append(told, fmt.Sprintf("%s, %s:\n%s\n%s", p.name, shape.name, plans[0], plans[1]))
			}
		}
	}
	return told
}

// words are the contents that a plan repeats from its condition.
var words = regexp.MustCompile(`mark-\w*|'(sal|now|salary|nowhere)'(:\*)?|salary 5|nowhere |203\d-01-01`)

// estimate is how many rows the planner expects, and met how many it left out.
func (a *attacker) estimate(t *testing.T, sql string) (expected, removed float64) {
	t.Helper()
	said := a.do(t.Context(), "explain (format json, analyze, timing off, summary off) "+sql)
	var plans []struct {
		Plan struct {
			Expected float64 `json:"Plan Rows"`
			Removed  float64 `json:"Rows Removed by Filter"`
		}
	}
	if err := json.Unmarshal([]byte(said), &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%s: %s", err, said)
	}
	return plans[0].Plan.Expected, plans[0].Plan.Removed
}

// What PostgreSQL keeps open, and docs/records-sql.md says: numbers, and no content. Each
// line is as much as there is, so that a change of it is seen.
func TestWhatStaysOpen(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newWorld(t, db)
		w.many(t)
		a := w.connect(t, "ann", false)
		t.Run("how many rows somebody has", func(t *testing.T) {
			a.do(t.Context(), "set enable_indexscan = off; set enable_bitmapscan = off")
			expected, removed := a.estimate(t, w.fill("select * from app.record where owner_id = '{bob}'"))
			a.do(t.Context(), "reset enable_indexscan; reset enable_bitmapscan")
			if expected < 500 || removed < 2000 {
				t.Errorf("expected %v, left out %v: is it closed?", expected, removed)
			}
		})
		t.Run("that a row exists whose id one has", func(t *testing.T) {
			a.do(t.Context(), "set enable_seqscan = off")
			_, hidden := a.estimate(t, w.fill("select * from app.record where id = '{bobs}'"))
			_, none := a.estimate(t, "select * from app.record where id = '00000000-0000-0000-0000-000000000000'")
			if hidden != 1 || none != 0 {
				t.Errorf("left out %v and %v: is it closed?", hidden, none)
			}
			a.do(t.Context(), "reset enable_seqscan")
		})
		for _, open := range []struct{ name, sql, want string }{
			{"how large a table is", "select reltuples >= 2000 from pg_class where oid = 'app.record'::regclass", "t"},
			{"how many transactions change something", "select age(xmin) >= 0 from app.record where id = '{anns}'", "t"},
			{"where a row lies", "select ctid <> '(0,0)' from app.record where id = '{anns}'", "t"},
			{"names of database roles", "select count(*) from pg_roles where rolname = 'bc_m_bob'", "1"},
			{"names of databases", "select count(*) > 2 from pg_database", "t"},
			{"source of functions", "select prosrc like '%token_hash%' from pg_proc where oid = 'auth.me()'::regprocedure", "t"},
			{"own settings that hold for later", "alter role bc_m_ann set work_mem = '1MB'", "ALTER ROLE"},
		} {
			t.Run(open.name, func(t *testing.T) {
				if got := a.do(t.Context(), w.fill(open.sql)); got != open.want {
					t.Errorf("got %s, want %s: is it closed?", got, open.want)
				}
			})
		}
		t.Run("what others notify", func(t *testing.T) {
			a.do(t.Context(), "listen hints")
			bob := w.connect(t, "bob", false)
			bob.do(t.Context(), "notify hints, 'a payload'")
			if err := a.conn.WaitForNotification(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := a.said.String(); !strings.Contains(got, "hints a payload") {
				t.Errorf("got %q: is it closed?", got)
			}
		})
	})
}
