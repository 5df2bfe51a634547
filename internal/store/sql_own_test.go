package store_test

import (
	"strings"
	"testing"

	"bourn/internal/store"
	"bourn/internal/store/storetest"
)

// TestSQLRoleAsMade: what a run sets for its role holds for no other run, and locks nobody out.
func TestSQLRoleAsMade(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newSQLWorld(t, db)
		for _, set := range []string{
			"set transform_null_equals = on", "in database " + w.recordsName() + " set transform_null_equals = on",
			"set idle_session_timeout = 1", "set local_preload_libraries = 'nothing'", "set role = 'bc_person'",
		} {
			reads := w.open(w.ann, "bc_m_ann", true)
			if _, err := runSQL(t, reads, "set transaction read write; alter role bc_m_ann "+set); err != nil {
				t.Errorf("%s: %v", set, err)
			}
			reads.End()
			after := w.open(w.ann, "bc_m_ann", false)
			if got := sqlRows(t, after, "select current_user, 1 = null, current_setting('idle_session_timeout'), current_setting('local_preload_libraries')"); got != "bc_m_ann|∅|0|" {
				t.Errorf("after %s: %s", set, got)
			}
			const left = "select setdatabase, setconfig from pg_db_role_setting where setrole = 'bc_m_ann'::regrole"
			if got := sqlRows(t, after, left); got != "0|{track_activities=off,log_min_messages=fatal,temp_file_limit=2GB}" {
				t.Errorf("after %s: %s", set, got)
			}
			after.End()
		}
	})
}

// TestSQLFillsNoDisk: SQL writes nothing into the server's log, and spills within a bound that
// it does not change.
func TestSQLFillsNoDisk(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newSQLWorld(t, db)
		ann := w.open(w.ann, "bc_m_ann", false)
		if got := sqlRows(t, ann, "select current_setting('log_min_messages'), current_setting('temp_file_limit')"); got != "fatal|2GB" {
			t.Error(got)
		}
		for _, sql := range []string{"set log_min_messages = log", "set temp_file_limit = -1", "alter role bc_m_ann set log_min_messages = log", "alter role bc_m_ann set temp_file_limit = -1"} {
			refusedSQL(t, ann, "42501", sql)
		}
		if got := sqlRows(t, ann, "reset all; select current_setting('log_min_messages')"); got != "fatal" {
			t.Error(got)
		}
	})
}

// TestSQLTokenElsewhere: a run that may only read writes nothing with what SQL of another run of
// the same member has handed over.
func TestSQLTokenElsewhere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newSQLWorld(t, db)
		writes, reads := w.open(w.ann, "bc_m_ann", false), w.open(w.ann, "bc_m_ann", true)
		token := sqlRows(t, writes, "select current_setting('app.session')")
		const insert = "insert into record (collection, body) values ('note', '{}')"
		refusedSQL(t, reads, "42501", "set transaction read write; select set_config('app.session', '"+token+"', false); "+insert)
		sqlRows(t, writes, insert)
	})
}

// TestSQLNoticesEnd: notices without an end are cut short like rows.
func TestSQLNoticesEnd(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		w := newSQLWorld(t, db)
		r, err := w.open(w.ann, "bc_m_ann", false).Run(t.Context(), store.SQLQuery{Text: "do $$ begin loop raise notice '%', repeat('x', 10000); end loop; end $$"})
		if err != nil || !r.Cancelled || len(r.Notices) != 20 || !strings.HasSuffix(r.Notices[0], "(SQLSTATE 00000)") {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// recordsName is the name of the database.
func (w *sqlWorld) recordsName() string {
	var name string
	if err := w.db.Connect(w.t, "bc_m_ann", "records").QueryRow(w.t.Context(), "select current_database()").Scan(&name); err != nil {
		w.t.Fatal(err)
	}
	return name
}
