package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// member makes a member of the test's.
func member(t testing.TB, db *storetest.Database, name string, administrator bool) store.MemberID {
	t.Helper()
	m := store.Member{ID: store.NewMemberID(), Name: name, Administrator: administrator}
	if err := db.PutMember(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m.ID
}

func issue(t testing.TB, door store.Door, m store.MemberID, valid time.Duration) store.Session {
	t.Helper()
	s, err := door.Issue(t.Context(), m, store.SignIn, valid)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Preparing what is prepared changes nothing, also by several at once.
func TestPrepareAgain(t *testing.T) {
	db := storetest.New(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			admin := func(name string) string {
				if name == "postgres" {
					return db.ServerURL(cluster.Admin, name)
				}
				return db.URL(cluster.Admin, name)
			}
			if err := store.Prepare(context.WithoutCancel(t.Context()), admin); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A database that a newer version migrated is left alone.
func TestNewerMigration(t *testing.T) {
	db := storetest.New(t)
	db.Admin(t, "control", "insert into goose_control (version_id, is_applied) values (999, true)")
	err := store.Prepare(t.Context(), func(name string) string {
		if name == "postgres" {
			return db.ServerURL(cluster.Admin, name)
		}
		return db.URL(cluster.Admin, name)
	})
	if bourn.CodeOf(err) != bourn.CodeConflict || bourn.HintOf(err) == "" {
		t.Errorf("got %v, want a conflict with a hint", err)
	}
}

func TestDoor(t *testing.T) {
	db := storetest.New(t)
	ann, bob := member(t, db, "Ann", false), member(t, db, "Bob", false)
	s := issue(t, db.Records, ann, time.Minute)

	add := func(s store.Session, body string) error {
		return db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
			_, err := q.Exec(ctx, "insert into app.record (collection, body) values ('notes', $1)", body)
			return err
		})
	}
	count := func(s store.Session) (n int) {
		err := db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
			return q.QueryRow(ctx, "select count(*) from app.record").Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := add(s, `{"mine": true}`); err != nil {
		t.Fatal(err)
	}
	if n := count(s); n != 1 {
		t.Errorf("Ann sees %d rows, want her own", n)
	}
	if n := count(issue(t, db.Records, bob, time.Minute)); n != 0 {
		t.Errorf("Bob sees %d rows of Ann's", n)
	}

	t.Run("a function that fails", func(t *testing.T) {
		mine := errors.New("mine")
		err := db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
			if _, err := q.Exec(ctx, "insert into app.record (collection) values ('gone')"); err != nil {
				t.Fatal(err)
			}
			return mine
		})
		if !errors.Is(err, mine) {
			t.Errorf("got %v", err)
		}
		if n := count(s); n != 1 {
			t.Errorf("%d rows: what failed was kept", n)
		}
	})
	t.Run("a function that panics", func(t *testing.T) {
		func() {
			defer func() { recover() }()
			_ = db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
				if _, err := q.Exec(ctx, "insert into app.record (collection) values ('gone')"); err != nil {
					t.Fatal(err)
				}
				panic("here")
			})
		}()
		if n := count(s); n != 1 {
			t.Errorf("%d rows: what panicked was kept", n)
		}
	})
	t.Run("an error that is kept to itself", func(t *testing.T) {
		err := db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
			_, _ = q.Exec(ctx, "select 1/0")
			return nil
		})
		if err == nil {
			t.Error("the transaction was rolled back, and nothing says so")
		}
	})
	t.Run("revoked", func(t *testing.T) {
		if err := db.Records.Revoke(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := add(s, "{}"); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("got %v, want denied", err)
		}
	})
	t.Run("expired", func(t *testing.T) {
		s := issue(t, db.Records, ann, time.Millisecond)
		err := db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
			// It ends while it is used, at the latest: nothing is visible then.
			for time.Now().Before(s.Expires.Add(time.Second)) {
				var n int
				if err := q.QueryRow(ctx, "select count(*) from app.record").Scan(&n); err != nil {
					return err
				}
				if n == 0 {
					return errors.New("nothing is visible")
				}
			}
			return nil
		})
		if err == nil {
			t.Error("an expired session still sees rows")
		}
	})
	t.Run("removed", func(t *testing.T) {
		s := issue(t, db.Records, bob, time.Minute)
		if err := db.PutMember(t.Context(), store.Member{ID: bob, Name: "Bob", Removed: true}); err != nil {
			t.Fatal(err)
		}
		if err := add(s, "{}"); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("got %v, want denied", err)
		}
		if _, err := db.Records.Issue(t.Context(), bob, store.SignIn, time.Minute); bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
			t.Errorf("got %v, want denied with a hint", err)
		}
	})
}

// A session is good for one database and one role.
func TestSessionElsewhere(t *testing.T) {
	db := storetest.New(t)
	ann := member(t, db, "Ann", true)
	s := issue(t, db.Records, ann, time.Minute)
	err := db.Control.As(t.Context(), s, func(context.Context, store.Querier) error { return nil })
	if bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("a session of records opens control: %v", err)
	}
}

// A connection given back to its pool carries nothing of who used it.
func TestNothingStays(t *testing.T) {
	db := storetest.New(t)
	ann, bob := member(t, db, "Ann", false), member(t, db, "Bob", false)
	as := func(m store.MemberID, f func(ctx context.Context, q store.Querier) error) {
		t.Helper()
		if err := db.Records.As(t.Context(), issue(t, db.Records, m, time.Minute), f); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // more than the pool has connections
		as(ann, func(ctx context.Context, q store.Querier) error {
			for _, sql := range []string{
				"select set_config('app.session', 'planted', false)",
				"select set_config('search_path', 'pg_temp', false)",
				"prepare planted as select 1",
				"declare planted cursor with hold for select 1",
				"listen planted",
			} {
				if _, err := q.Exec(ctx, sql); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return nil
		})
		as(bob, func(ctx context.Context, q store.Querier) error {
			var path string
			var prepared, cursors, listens int
			err := q.QueryRow(ctx, `select current_setting('search_path'),
				(select count(*) from pg_prepared_statements where name = 'planted'),
				(select count(*) from pg_cursors where name = 'planted'),
				(select count(*) from pg_listening_channels())`).Scan(&path, &prepared, &cursors, &listens)
			if err != nil {
				return err
			}
			if path != "pg_catalog, pg_temp" || prepared+cursors+listens != 0 {
				t.Errorf("left behind: search_path %q, %d statements, %d cursors, %d channels", path, prepared, cursors, listens)
			}
			return nil
		})
	}
}

// No way of printing a session shows its token.
func TestTokenIsNotShown(t *testing.T) {
	db := storetest.New(t)
	s := issue(t, db.Records, member(t, db, "Ann", false), time.Minute)
	var token string
	err := db.Records.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
		return q.QueryRow(ctx, "select current_setting('app.session')").Scan(&token)
	})
	if err != nil || len(token) < 40 {
		t.Fatalf("token %q, %v", token, err)
	}
	encoded, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), string(encoded), s.LogValue().String(), fmt.Sprintf("%s", struct{ S store.Session }{s})} {
		if strings.Contains(shown, token) {
			t.Errorf("shown: %s", shown)
		}
	}
	for _, database := range []string{"control", "records"} {
		var found int
		conn := db.Connect(t, cluster.Admin, database)
		if err := conn.QueryRow(t.Context(), "select count(*) from auth.sessions s where s::text like '%'||$1||'%'", token).Scan(&found); err != nil {
			t.Fatal(err)
		}
		if found != 0 {
			t.Errorf("%s keeps the token itself", database)
		}
	}
}

func TestRoster(t *testing.T) {
	db := storetest.New(t)
	uid := uint32(1000)
	ann := store.Member{ID: store.NewMemberID(), Name: "Ann", Administrator: true, UID: &uid}
	if err := db.PutMember(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	// Cut short between the two databases: control is behind.
	db.Admin(t, "control", "update auth.members set administrator = false, name = 'old'")
	if err := db.SyncRoster(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := db.Control.Issue(t.Context(), ann.ID, store.Socket, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var administrator bool
	err = db.Control.As(t.Context(), s, func(ctx context.Context, q store.Querier) error {
		return q.QueryRow(ctx, "select auth.am_administrator()").Scan(&administrator)
	})
	if err != nil || !administrator {
		t.Errorf("administrator %v, %v", administrator, err)
	}
	all, err := db.Roster(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "Ann" || *all[0].UID != uid {
		t.Errorf("roster %+v, %v", all, err)
	}
	// One OS user is one member.
	if err := db.PutMember(t.Context(), store.Member{ID: store.NewMemberID(), Name: "Eve", UID: &uid}); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Errorf("got %v, want a conflict", err)
	}
}

func TestMetadata(t *testing.T) {
	db := storetest.New(t)
	if _, err := db.Metadata(t.Context(), "k"); bourn.CodeOf(err) != bourn.CodeNotFound {
		t.Errorf("got %v, want not found", err)
	}
	text := []byte("{\"b\": 1.0,\n \"a\": [ ]}")
	if v, err := db.SaveMetadata(t.Context(), "k", text, 0, "ann"); err != nil || v != 1 {
		t.Fatalf("version %d, %v", v, err)
	}
	if _, err := db.SaveMetadata(t.Context(), "k", text, 0, "bob"); bourn.CodeOf(err) != bourn.CodeConflict {
		t.Errorf("got %v, want a conflict", err)
	}
	var wg sync.WaitGroup
	var won, lost int
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			_, err := db.SaveMetadata(context.WithoutCancel(t.Context()), "k", text, 1, "x")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case bourn.CodeOf(err) == bourn.CodeConflict:
				lost++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || lost != 7 {
		t.Errorf("%d saved and %d were told of a conflict", won, lost)
	}
	d, err := db.Metadata(t.Context(), "k")
	if err != nil || string(d.Value) != string(text) || d.Version != 2 {
		t.Errorf("got %+v, %v", d, err)
	}
	h, err := db.History(t.Context(), "k", 10)
	if err != nil || len(h) != 2 || h[1].SavedBy != "ann" {
		t.Errorf("history %+v, %v", h, err)
	}
}

func TestDiagnosticsTokens(t *testing.T) {
	db := storetest.New(t)
	soon := time.Now().Add(-time.Second)
	good, kept, err := db.NewDiagnosticsToken(t.Context(), "grafana", "ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	expired, _, err := db.NewDiagnosticsToken(t.Context(), "old", "ann", &soon)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := db.CheckDiagnosticsToken(t.Context(), good); err != nil || got.ID != kept.ID {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", store.DiagnosticsPrefix, expired, good + "x", strings.ToUpper(good), good[len(store.DiagnosticsPrefix):]} {
		if _, err := db.CheckDiagnosticsToken(t.Context(), bad); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%q: got %v, want denied", bad, err)
		}
	}
	if err := db.RevokeDiagnosticsToken(t.Context(), kept.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.CheckDiagnosticsToken(t.Context(), good); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("a revoked token: %v", err)
	}
	if err := db.RevokeDiagnosticsToken(t.Context(), kept.ID); bourn.CodeOf(err) != bourn.CodeNotFound {
		t.Errorf("got %v, want not found", err)
	}
	all, err := db.DiagnosticsTokens(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}
