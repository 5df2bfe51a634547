package main_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/operation"
)

// A table of one's own is guarded by what bourn prints, and bourn records lint says so, with
// a control plane and without.
func TestRecords(t *testing.T) {
	users(t, func(t *testing.T, h host) {
		h.refused(1, "there is no private database", "records", "lint")
		h.serve()
		if out := h.ok("records", "lint"); out != "" {
			t.Errorf("a right database has findings:\n%s", out)
		}
		h.psql("records", "create table app.invoice (id uuid primary key default gen_random_uuid(), owner_id uuid not null default auth.me(), circle_id uuid, paid_at timestamptz, created_at timestamptz not null default now())")
		r := h.Bourn("records", "lint")
		if r.Status != 1 || r.Err != "" || !strings.HasPrefix(r.Out, "row_security_off  app.invoice: row security is off; mend: alter table ") || strings.Count(r.Out, "\n") != 2 {
			t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
		}
		r = h.Bourn("records", "lint", "--json")
		var found struct {
			Findings []struct{ Code, Object, What, Mend string }
		}
		if err := json.Unmarshal([]byte(r.Out), &found); err != nil || r.Status != 1 || len(found.Findings) != 2 || found.Findings[1].Code != "table_owner" {
			t.Errorf("status %d, %v\n%s", r.Status, err, r.Out)
		}
		guard := []string{"records", "guard", "app.invoice", "--owner", "owner_id", "--circle", "circle_id", "--grant-update", "paid_at,circle_id"}
		var m struct {
			Table, SQL string
			Warnings   []string
		}
		text := h.ok(append(guard, "--json")...)
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.Table != "app.invoice" || len(m.Warnings) == 0 || m.SQL != h.ok(guard...) {
			t.Errorf("%v\n%s", err, text)
		}
		undo := h.ok(append(guard, "--undo")...)
		h.refused(1, "app.invoice has no column member_id", "records", "guard", "app.invoice", "--owner", "member_id")
		h.refused(2, "nothing says whose a row is", "records", "guard", "app.invoice")
		h.refused(1, "there is no table app.gone", "records", "guard", "app.gone", "--owner", "x")
		h.refused(3, "lets nobody in as its administrator", "records", "lint", "--admin-url", "postgres://nobody_here@/?host="+h.DatabaseDirectory()+"/socket")
		h.refused(1, "the database does not answer", "records", "lint", "--admin-url", "postgres://postgres:hunter2@/?host="+h.DatabaseDirectory())
		h.refused(2, "is no URL of a PostgreSQL server", "records", "lint", "--admin-url", "hunter2")
		refusedAsJSON(t, h)
		h.ok("serve", "--stop")

		// Without one the server is started for the command.
		file := filepath.Join(h.Work, "guard.sql")
		h.Write(file, h.ok(guard...))
		h.ok("db", "psql", "records", "--", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", file)
		if out := h.ok("records", "lint"); out != "" {
			t.Errorf("after the guard:\n%s", out)
		}
		if again := h.ok(append(guard, "--undo")...); again != undo {
			t.Errorf("the undo is another once it was guarded:\n%s\n%s", undo, again)
		}
		h.Write(file, undo)
		h.ok("db", "psql", "records", "--", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", file)
		if r := h.Bourn("records", "lint", "--schema", "app"); r.Status != 1 || !strings.Contains(r.Out, "row_security_off  app.invoice") {
			t.Errorf("after the undo: status %d\n%s%s", r.Status, r.Out, r.Err)
		}
	})
}

// A failure is said in JSON too, and no password with it.
func refusedAsJSON(t *testing.T, h host) {
	r := h.Bourn("records", "lint", "--json", "--admin-url", "postgres://postgres:hunter2@/?host="+h.DatabaseDirectory())
	var f operation.Failure
	if err := json.Unmarshal([]byte(r.Out), &f); err != nil || f.Error.Code != "unavailable" || f.Error.Hint == "" || strings.Contains(r.Out+r.Err, "hunter2") {
		t.Errorf("status %d, %v\n%s%s", r.Status, err, r.Out, r.Err)
	}
}
