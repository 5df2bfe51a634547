package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"
)

// another opens a second store on the same databases, as another daemon would.
func another(t testing.TB, db *storetest.Database) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Two daemons that write, chain and read at once keep one log that verifies.
func TestTwoDaemons(t *testing.T) {
	db := storetest.New(t)
	two := another(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	var chaining, writing sync.WaitGroup
	for _, s := range []*store.Store{db.Store, two, db.Store} {
		c, err := s.Chainer(t.Context(), logKey, audit.Signed{})
		if err != nil {
			t.Fatal(err)
		}
		chaining.Go(func() {
			if err := c.Run(ctx, time.Millisecond, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 4 {
		writing.Go(func() {
			for n := range 10 {
				write(t, db, fmt.Sprint(i, n), 20)
			}
		})
	}
	ids := make(chan string, 8)
	for range 4 {
		for _, s := range []*store.Store{db.Store, two} {
			writing.Go(func() {
				id, err := s.LogID(context.WithoutCancel(t.Context()))
				if err != nil {
					t.Error(err)
				}
				ids <- id
			})
		}
	}
	writing.Wait()
	cancel()
	chaining.Wait()
	write(t, db, "last", 1) // a chain has something to do
	chain(t, db)
	if r := verify(t, db); !r.OK() || r.Entries != 801 || r.Unchained != 0 {
		t.Errorf("%+v", r)
	}
	first := <-ids
	for range 7 {
		if id := <-ids; id != first {
			t.Errorf("two logs: %s and %s", first, id)
		}
	}
}

// A chainer that no longer finds what it signed last signs nothing more.
func TestChainerFindsCut(t *testing.T) {
	db := storetest.New(t)
	write(t, db, "a", 20)
	chain(t, db)
	head := newestCheckpoint(t, db)
	db.Admin(t, "control", "delete from log.link where position > 10; delete from log.entry where seq not in (select seq from log.link); delete from log.checkpoint")
	write(t, db, "b", 50)
	c, err := db.Chainer(t.Context(), logKey, head)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Run(t.Context(), time.Millisecond, nil)
	if !errors.Is(err, store.ErrLogCut) || bourn.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	if r := verify(t, db); r.Unchained != 50 {
		t.Errorf("it went on: %+v", r)
	}
}

// newestCheckpoint is what was signed last.
func newestCheckpoint(t *testing.T, db *storetest.Database) audit.Signed {
	t.Helper()
	kept, end, err := db.KeptLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end()
	return kept.Checkpoints[len(kept.Checkpoints)-1]
}

// A log that is emptied while the chainer looks at it is not taken for a new one.
func TestLogCutMeanwhile(t *testing.T) {
	db := storetest.New(t)
	write(t, db, "a", 20)
	chain(t, db)
	head := newestCheckpoint(t, db)
	admin, watch := db.Connect(t, cluster.Admin, "control"), db.Connect(t, cluster.Admin, "control")
	do := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever reads a link waits until the lock is given back.
	do(`select pg_advisory_lock(1);
		create function log.wait() returns boolean language plpgsql security definer as $$ begin perform pg_advisory_xact_lock_shared(1); return true; end $$;
		grant execute on function log.wait() to bourn_control;
		create policy wait on log.link as restrictive for select to bourn_control using (log.wait())`)
	c, err := db.Chainer(t.Context(), logKey, head)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, time.Millisecond, nil) }()
	for waits := false; !waits; {
		if err := watch.QueryRow(ctx, "select exists (select from pg_locks where locktype = 'advisory' and objid = 1 and not granted)").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	do("delete from log.link; delete from log.entry; delete from log.checkpoint")
	write(t, db, "b", 50)
	do("select pg_advisory_unlock(1)")
	if err := <-done; !errors.Is(err, store.ErrLogCut) {
		t.Errorf("got %v", err)
	}
}

// Of two that prune at once, one does; what does not fit its checkpoint is not pruned.
func TestPruneAtOnce(t *testing.T) {
	db := storetest.New(t)
	two := another(t, db)
	for i := range 5 {
		write(t, db, fmt.Sprint(i), 20)
		chain(t, db)
	}
	var wg sync.WaitGroup
	for i := range 6 {
		s := []*store.Store{db.Store, two}[i%2]
		wg.Go(func() {
			if _, err := s.PruneLog(context.WithoutCancel(t.Context()), logKey, time.Now().Add(time.Hour)); err != nil && bourn.CodeOf(err) != bourn.CodeConflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	write(t, db, "more", 20)
	chain(t, db)
	if r := verify(t, db); !r.OK() || r.Pruned != 100 {
		t.Errorf("%+v", r)
	}
	write(t, db, "forged", 20)
	chain(t, db)
	db.Admin(t, "control", "update log.link set hash = sha256('x') where position = (select max(position) from log.link)")
	if _, err := db.PruneLog(t.Context(), logKey, time.Now().Add(time.Hour)); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("a closing vouches for what does not fit: %v", err)
	}
}

// What a member sees in control is for the policies to say, in every table: an
// administrator all of it, anybody else none. bourn_control reads no row of records.
func TestMembersInControl(t *testing.T) {
	db := storetest.New(t)
	write(t, db, "a", 3)
	chain(t, db)
	db.Admin(t, "control", "insert into log.segment (last, at, signed, signature) values (1, now(), 'x', decode(repeat('00', 64), 'hex'))")
	if _, _, err := db.NewDiagnosticsToken(t.Context(), "x", "x", nil); err != nil {
		t.Fatal(err)
	}
	ann, bob := member(t, db, "Ann", true), member(t, db, "Bob", false)
	if _, _, err := db.NewAgentToken(t.Context(), store.AgentToken{Name: "x", Member: bob, Agent: "builder", Dir: "/srv", Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	tables := rows(t, db.Connect(t, cluster.Admin, "control"), "select schemaname||'.'||tablename from pg_tables where schemaname in ('control', 'log')")
	if len(tables) < 6 {
		t.Fatalf("%v", tables)
	}
	for _, table := range tables {
		for who, m := range map[string]store.MemberID{"an administrator": ann, "a member": bob} {
			var n int
			err := db.Control.As(t.Context(), issue(t, db.Control, m, time.Minute), func(ctx context.Context, q store.Querier) error {
				return q.QueryRow(ctx, "select count(*) from "+table).Scan(&n)
			})
			if err != nil || (n > 0) != (m == ann) {
				t.Errorf("%s sees %d rows of %s, %v", who, n, table, err)
			}
			for _, sql := range []string{"insert into " + table + " default values", "delete from " + table, "truncate " + table} {
				err := db.Control.As(t.Context(), issue(t, db.Control, m, time.Minute), func(ctx context.Context, q store.Querier) error {
					_, err := q.Exec(ctx, sql)
					return err
				})
				if bourn.CodeOf(err) != bourn.CodeDenied {
					t.Errorf("%s: %s: %v, want denied", who, sql, err)
				}
			}
		}
	}
	conn := db.Connect(t, "bourn_control", "records")
	for _, table := range rows(t, db.Connect(t, cluster.Admin, "records"), "select schemaname||'.'||tablename from pg_tables where schemaname in ('auth', 'app')") {
		if _, err := conn.Exec(t.Context(), "select * from "+table); err == nil {
			t.Errorf("bourn_control reads %s", table)
		}
	}
}

// A look into a long history is bounded, and has at least the newest.
func TestHistoryBounded(t *testing.T) {
	db := storetest.New(t)
	large := []byte(`"` + strings.Repeat("x", 3<<20) + `"`)
	for v := range int64(5) {
		if _, err := db.SaveMetadata(t.Context(), "k", large, v, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := db.History(t.Context(), "k", 5); err != nil || len(all) != 3 || all[0].Version != 5 {
		t.Errorf("%d versions, %v", len(all), err)
	}
}

// What the database cannot hold is the caller's mistake; what cuts a connection is for later.
func TestClassified(t *testing.T) {
	db := storetest.New(t)
	if _, err := db.LogLines(t.Context(), store.LogFilter{Run: "a\x00"}); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Errorf("a NUL: %v", err)
	}
	if _, _, err := db.NewDiagnosticsToken(t.Context(), "a\xff", "x", nil); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Errorf("no UTF-8: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Roster(ctx); bourn.CodeOf(err) != bourn.CodeUnavailable || bourn.HintOf(err) == "" {
		t.Errorf("ended: %v", err)
	}
	gone := store.Login(func(role, database string) string { return cluster.ConnString(t.TempDir(), role, database) })
	s, err := store.Open(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(t.Context()); bourn.CodeOf(err) != bourn.CodeUnavailable || strings.Contains(err.Error(), "/") {
		t.Errorf("nobody there: %v", err)
	}
	m := member(t, db, "Ann", false)
	err = db.Records.As(t.Context(), issue(t, db.Records, m, time.Minute), func(ctx context.Context, q store.Querier) error { return io.ErrUnexpectedEOF })
	if bourn.CodeOf(err) != bourn.CodeUnavailable {
		t.Errorf("cut off: %v", err)
	}
}
