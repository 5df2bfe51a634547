package storetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bourn/internal/store"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5"
)

// server is the one server of a test program. Main ends it.
var server struct {
	once    sync.Once
	cluster *cluster.Cluster
	dir     string
	err     error
	made    atomic.Int64
}

// Main runs the tests of a package and ends the server that they used. A TestMain of a
// package that calls New has nothing else to do.
func Main(m *testing.M) {
	code := m.Run()
	if server.cluster != nil {
		if err := server.cluster.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if server.dir != "" {
		if err := os.RemoveAll(server.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// loginRoles are the roles that a test may connect as.
var loginRoles = []string{cluster.Admin, "bourn_control", "bourn_member", "bourn_app"}

func start() {
	dir, err := os.MkdirTemp("/tmp", "bourn")
	if err != nil {
		server.err = err
		return
	}
	server.dir = dir
	if server.err = os.Chmod(dir, 0o711); server.err != nil {
		return
	}
	config := clusterConfig(dir)
	config.Ident = nil
	for _, role := range loginRoles {
		config.Ident = append(config.Ident, cluster.Ident{OS: osUser(), Role: role})
	}
	config.Ident = append(config.Ident, cluster.Ident{OS: osUser(), Role: `/^bc_m_`})
	// A test may be any person: the real map of a shared host stands in its own test.
	config.Rules = []string{"local all bourn_control,bourn_member,bourn_app peer map=bourn", "local all +bc_person trust"}
	if server.cluster, server.err = cluster.Start(context.Background(), config); server.err != nil {
		return
	}
	server.err = store.Prepare(context.Background(), func(db string) string { return server.cluster.ConnString(cluster.Admin, db) })
	if server.err != nil {
		return
	}
	server.err = admin(context.Background(), "postgres",
		"alter database control is_template true", "alter database records is_template true")
}

// A Database is a pair of fresh databases on the test's server.
type Database struct {
	*store.Store
	suffix string
}

// New returns a store on databases of the test's own. They go when the test ends.
func New(t testing.TB) *Database {
	t.Helper()
	Need(t)
	server.once.Do(start)
	if server.err != nil {
		t.Fatal(server.err)
	}
	d := &Database{suffix: fmt.Sprintf("_%d", server.made.Add(1))}
	for _, db := range []struct{ name, owner, connect string }{
		{"control", "bourn_owner", "bourn_control, bourn_member"},
		{"records", "bourn_records", "bourn_control, bourn_app, bc_person"},
	} {
		name := db.name + d.suffix
		err := admin(t.Context(), "postgres",
			fmt.Sprintf("create database %s template %s owner %s", name, db.name, db.owner),
			fmt.Sprintf("revoke all on database %s from public", name),
			fmt.Sprintf("grant connect on database %s to %s", name, db.connect))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := admin(context.Background(), "postgres", "drop database "+name+" with (force)"); err != nil {
				t.Error(err)
			}
		})
	}
	s, err := store.Open(t.Context(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	d.Store = s
	return d
}

// URL returns what a role connects to a database of the test's by.
func (d *Database) URL(role, database string) string {
	return server.cluster.ConnString(role, database+d.suffix)
}

// Connect returns a connection of its own as a role, closed when the test ends.
func (d *Database) Connect(t testing.TB, role, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.URL(role, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// Admin runs statements as the administrator of the server in a database of the test's.
func (d *Database) Admin(t testing.TB, database string, statements ...string) {
	t.Helper()
	// A test's clean-up comes here as well, when its context has ended.
	if err := admin(context.WithoutCancel(t.Context()), database+d.suffix, statements...); err != nil {
		t.Fatal(err)
	}
}

func admin(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, server.cluster.ConnString(cluster.Admin, database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", strings.SplitN(sql, "\n", 2)[0], err)
		}
	}
	return nil
}

// SocketDir is where the server's socket stands.
func SocketDir() string { return filepath.Join(server.dir, "s") }
