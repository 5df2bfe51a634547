package store_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn/internal/audit"
	"bourn/internal/store"
	"bourn/internal/store/storetest"
)

var logKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func logPublic() ed25519.PublicKey { return logKey.Public().(ed25519.PublicKey) }

// write appends n entries that say which.
func write(t testing.TB, db *storetest.Database, which string, n int) {
	t.Helper()
	var entries []store.EncodedEntry
	for i := range n {
		e := audit.Entry{Kind: audit.KindAction, Who: "host", What: fmt.Sprintf("%s %d", which, i), Run: which}
		body, err := e.Encode(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, store.EncodedEntry{ID: e.ID, At: e.At, Body: body})
	}
	if err := db.AppendLog(context.WithoutCancel(t.Context()), entries); err != nil {
		t.Error(err)
	}
}

// chain links and signs all that is committed, by a chainer of its own.
func chain(t testing.TB, db *storetest.Database) {
	t.Helper()
	c, err := db.Chainer(t.Context(), logKey, audit.Signed{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// One that is cancelled links once more if it has the lock: so it must get it first.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	signed := make(chan struct{}, 100)
	go func() {
		done <- c.Run(ctx, time.Millisecond, func(s audit.Signed) {
			if len(s.Bytes) > 0 {
				signed <- struct{}{}
			}
		})
	}()
	select {
	case <-signed:
	case err := <-done:
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, db *storetest.Database, trusted ...audit.Signed) audit.Result {
	t.Helper()
	kept, end, err := db.KeptLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	r, err := audit.Verify(kept, logPublic(), trusted)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLog(t *testing.T) {
	db := storetest.New(t)
	write(t, db, "first", 100)
	if r := verify(t, db); r.Unchained != 100 || r.Entries != 0 {
		t.Errorf("%+v", r)
	}
	chain(t, db)
	write(t, db, "second", 50)
	chain(t, db)
	if r := verify(t, db); !r.OK() || r.Entries != 150 || r.Covered != 150 || r.Unchained != 0 {
		t.Errorf("%+v", r)
	}
	lines, err := db.LogLines(t.Context(), store.LogFilter{Run: "second", Most: 10, Newest: true})
	if err != nil || len(lines) != 10 || !strings.Contains(string(lines[9].Body), "second 49") || lines[9].Position != 150 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// An entry can be appended again and stays as it is.
func TestLogAgain(t *testing.T) {
	db := storetest.New(t)
	e := audit.Entry{Kind: audit.KindRun, Who: "host", What: "run"}
	body, err := e.Encode(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.AppendLog(t.Context(), []store.EncodedEntry{{ID: e.ID, At: e.At, Body: body}}); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := db.LogLines(t.Context(), store.LogFilter{})
	if err != nil || len(lines) != 1 || !bytes.Equal(lines[0].Body, body) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// What a transaction commits late is linked late, and what was never committed leaves no gap.
func TestLogCommittedLate(t *testing.T) {
	db := storetest.New(t)
	late := db.Connect(t, "bourn_control", "control")
	tx, err := late.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := audit.Entry{Kind: audit.KindAction, Who: "host", What: "late"}
	body, err := e.Encode(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into log.entry (id, at, body) values ($1::text::uuid, $2, $3::text::json)", e.ID, e.At, string(body)); err != nil {
		t.Fatal(err)
	}
	gone, err := db.Connect(t, "bourn_control", "control").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Exec(t.Context(), "insert into log.entry (id, at, body) values (gen_random_uuid(), now(), '{}')"); err != nil {
		t.Fatal(err)
	}
	if err := gone.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, db, "early", 3)
	chain(t, db)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	chain(t, db)
	if r := verify(t, db); !r.OK() || r.Entries != 4 || r.Unchained != 0 {
		t.Errorf("%+v", r)
	}
}

// Two daemons chain one log, and many write it.
func TestLogTwoChainers(t *testing.T) {
	db := storetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var chainers, writers sync.WaitGroup
	for range 2 {
		c, err := db.Chainer(ctx, logKey, audit.Signed{})
		if err != nil {
			t.Fatal(err)
		}
		chainers.Go(func() {
			if err := c.Run(ctx, time.Millisecond, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 6 {
		writers.Go(func() {
			for j := range 10 {
				write(t, db, fmt.Sprintf("%d-%d", i, j), 20)
			}
		})
	}
	writers.Wait()
	cancel()
	chainers.Wait()
	chainLeft(t, db)
	if r := verify(t, db); !r.OK() || r.Entries != 1200 || r.Unchained != 0 {
		t.Errorf("%+v", r)
	}
}

// chainLeft links what the chainers had not when they were ended.
func chainLeft(t testing.TB, db *storetest.Database) {
	t.Helper()
	if verify(t, db).Unchained > 0 {
		chain(t, db)
	}
}

// The daemon's own role cannot change what is written.
func TestLogIsNotChanged(t *testing.T) {
	db := storetest.New(t)
	write(t, db, "kept", 3)
	chain(t, db)
	for _, role := range []string{"bourn_control", "bourn_member"} {
		conn := db.Connect(t, role, "control")
		for _, table := range []string{"entry", "link", "checkpoint", "segment"} {
			for _, sql := range []string{"update log.%s set ctid = ctid", "delete from log.%s", "truncate log.%s", "drop table log.%s", "alter table log.%s disable row level security"} {
				if _, err := conn.Exec(t.Context(), fmt.Sprintf(sql, table)); err == nil {
					t.Errorf("%s may %s", role, fmt.Sprintf(sql, table))
				}
			}
		}
		if _, err := conn.Exec(t.Context(), "select log.prune(3)"); err == nil {
			t.Errorf("%s pruned without a closing", role)
		}
	}
}

// Tampering by who administers the database is found.
func TestLogTampered(t *testing.T) {
	for _, sql := range []string{
		"update log.entry set body = replace(body::text, 'kept 3', 'kept 4')::json where body->>'what' = 'kept 3'",
		"delete from log.entry where body->>'what' = 'kept 3'",
		"with gone as (delete from log.entry where body->>'what' = 'kept 3' returning seq) delete from log.link where seq in (select seq from gone)",
		"with gone as (delete from log.link where position > 5 returning seq) delete from log.entry where seq in (select seq from gone)",
		"truncate log.entry, log.link",
		"update log.link set hash = sha256('') where position = 5",
	} {
		t.Run(sql, func(t *testing.T) {
			db := storetest.New(t)
			write(t, db, "kept", 10)
			chain(t, db)
			if r := verify(t, db); !r.OK() {
				t.Fatalf("%+v", r)
			}
			db.Admin(t, "control", sql)
			if r := verify(t, db); r.OK() {
				t.Errorf("not found: %+v", r)
			}
		})
	}
}

func TestPrune(t *testing.T) {
	db := storetest.New(t)
	write(t, db, "old", 30)
	chain(t, db)
	between := time.Now()
	write(t, db, "new", 20)
	chain(t, db)
	n, err := db.PruneLog(t.Context(), logKey, between)
	if err != nil || n != 30 {
		t.Fatalf("pruned %d, %v", n, err)
	}
	if r := verify(t, db); !r.OK() || r.Pruned != 30 || r.Entries != 20 || r.First != 31 {
		t.Errorf("%+v", r)
	}
	if n, err := db.PruneLog(t.Context(), logKey, between); err != nil || n != 0 {
		t.Errorf("pruned %d again, %v", n, err)
	}
	if n, err := db.PruneLog(t.Context(), logKey, time.Now().Add(time.Hour)); err != nil || n != 20 {
		t.Errorf("pruned %d, %v", n, err)
	}
	// The chain goes on after all was pruned.
	write(t, db, "after", 5)
	chain(t, db)
	if r := verify(t, db); !r.OK() || r.Pruned != 50 || r.Entries != 5 || r.Covered != 55 {
		t.Errorf("%+v", r)
	}
}
