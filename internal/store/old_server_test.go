package store_test

import (
	"context"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5/pgconn"
)

// The releases before the oldest that row security is trusted on, and one of a major that
// is too old: each is started, says on the command line that it is new, and is refused by
// what it answers itself, before anything was made in it.
func TestOldServer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves the servers from npm out")
	}
	for _, c := range []struct{ version, said, least string }{
		{"14.23.0-beta.17", "14.23", "15.18"},
		{"15.17.0-beta.17", "15.17", "15.18"},
		{"16.13.0-beta.17", "16.13", "16.14"},
		{"17.9.0-beta.17", "17.9", "17.10"},
		{"18.3.0-beta.17", "18.3", "18.4"},
	} {
		t.Run(c.said, func(t *testing.T) {
			t.Parallel()
			programs := storetest.Programs(t, c.version)
			if _, err := cluster.Find(t.Context(), []string{programs}, 0); bourn.CodeOf(err) != bourn.CodeWeakHost || !strings.Contains(err.Error(), c.least) {
				t.Errorf("found: %v, want a weak host that names %s", err, c.least)
			}
			server, err := cluster.Start(t.Context(), storetest.ServerConfig(t, storetest.Pretending(t, programs, "99.1")))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := server.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
			err = store.Prepare(t.Context(), func(db string) string { return server.ConnString(cluster.Admin, db) })
			if bourn.CodeOf(err) != bourn.CodeWeakHost || !strings.Contains(err.Error(), c.said) || !strings.Contains(err.Error(), c.least) || bourn.HintOf(err) == "" {
				t.Errorf("prepared: %v, want a weak host that names %s and %s, with a hint", err, c.said, c.least)
			}
			conn, err := pgconn.Connect(t.Context(), server.ConnString(cluster.Admin, "postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			made := conn.ExecParams(t.Context(), "select count(*) from pg_roles where rolname like 'bourn%' or rolname like 'bc%'", nil, nil, nil, nil).Read()
			if made.Err != nil || string(made.Rows[0][0]) != "0" {
				t.Errorf("%s roles were made, %v", made.Rows, made.Err)
			}
		})
	}
}
