package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bourn/internal/store"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5"
)

// A server is one that all tests of a test program share. Main ends it.
type server struct {
	once    sync.Once
	cluster *cluster.Cluster
	dir     string
	err     error
	made    atomic.Int64
}

// The servers: the system's PostgreSQL, and a newer one from npm.
var system, newer server

// Main runs the tests of a package and ends the servers that they used. A TestMain of a
// package that calls New or Each has nothing else to do.
func Main(m *testing.M) {
	code := m.Run()
	if err := errors.Join(system.end(), newer.end(), removePackages()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func (s *server) end() error {
	var err error
	if s.cluster != nil {
		err = s.cluster.Stop(context.Background())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// loginRoles are the roles that a test may connect as.
var loginRoles = []string{cluster.Admin, "bourn_control", "bourn_member", "bourn_app"}

func (s *server) start(programs []string) {
	dir, err := os.MkdirTemp("/tmp", "bourn")
	if err != nil {
		s.err = err
		return
	}
	s.dir = dir
	if s.err = os.Chmod(dir, 0o711); s.err != nil {
		return
	}
	config := clusterConfig(dir)
	config.Ident, config.Programs = nil, programs
	for _, role := range loginRoles {
		config.Ident = append(config.Ident, cluster.Ident{OS: osUser(), Role: role})
	}
	config.Ident = append(config.Ident, cluster.Ident{OS: osUser(), Role: `/^bc_m_`})
	// A test may be any person: the real map of a shared host stands in its own test.
	config.Rules = []string{"local all bourn_control,bourn_member,bourn_app peer map=bourn", "local all +bc_person trust"}
	if s.cluster, s.err = cluster.Start(context.Background(), config); s.err != nil {
		return
	}
	s.err = store.Prepare(context.Background(), func(db string) string { return s.cluster.ConnString(cluster.Admin, db) })
	if s.err != nil {
		return
	}
	s.err = s.admin(context.Background(), "postgres",
		"alter database control is_template true", "alter database records is_template true")
}

// A Database is a pair of fresh databases on the test's server.
type Database struct {
	*store.Store
	server *server
	suffix string
}

// New returns a store on databases of the test's own. They go with the server: to drop them takes
// as long as to make them.
func New(t testing.TB) *Database {
	t.Helper()
	Need(t)
	return system.database(t)
}

// Each runs a test on databases of its own on each server: the system's PostgreSQL, and a
// newer one from npm, which -short leaves out.
func Each(t *testing.T, f func(t *testing.T, db *Database)) {
	t.Helper()
	t.Run("system", func(t *testing.T) { f(t, New(t)) })
	if testing.Short() {
		return
	}
	t.Run("newer", func(t *testing.T) { f(t, Newer(t)) })
}

// Newer returns a store like New, on a newer server from npm; see Programs.
func Newer(t testing.TB) *Database {
	t.Helper()
	return newer.database(t, Programs(t, NewerVersion))
}

// database makes databases on a server, which is started from programs where it does not run
// yet; none are the system's.
func (s *server) database(t testing.TB, programs ...string) *Database {
	t.Helper()
	s.once.Do(func() { s.start(programs) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	d := &Database{server: s, suffix: fmt.Sprintf("_%d", s.made.Add(1))}
	for _, db := range []struct{ name, owner, connect string }{
		{"control", "bourn_owner", "bourn_control, bourn_member"},
		{"records", "bourn_records", "bourn_control, bourn_app, bc_person"},
	} {
		name := db.name + d.suffix
		err := s.admin(t.Context(), "postgres",
			fmt.Sprintf("create database %s template %s owner %s", name, db.name, db.owner),
			fmt.Sprintf("revoke all on database %s from public", name),
			fmt.Sprintf("grant connect on database %s to %s", name, db.connect))
		if err != nil {
			t.Fatal(err)
		}
	}
	opened, err := store.Open(t.Context(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	d.Store = opened
	return d
}

// URL returns what a role connects to a database of the test's by.
func (d *Database) URL(role, database string) string {
	return d.server.cluster.ConnString(role, database+d.suffix)
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
	if err := d.server.admin(context.WithoutCancel(t.Context()), database+d.suffix, statements...); err != nil {
		t.Fatal(err)
	}
}

func (s *server) admin(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.cluster.ConnString(cluster.Admin, database))
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

// Cluster is the database's server, which is not the test's to stop.
func (d *Database) Cluster() *cluster.Cluster { return d.server.cluster }

// SocketDir is where the socket of the database's server stands.
func (d *Database) SocketDir() string { return d.server.cluster.SocketDir() }

// ServerURL returns what a role connects by to a database of the server's that no test
// made, such as postgres.
func (d *Database) ServerURL(role, database string) string {
	return d.server.cluster.ConnString(role, database)
}
