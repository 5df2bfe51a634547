package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/daemon/instance"
	"bourn/internal/operation"
	"bourn/internal/store/cluster"

	"github.com/spf13/cobra"
)

// dbCommand is what looks after the database. Its parts stand in files of their own.
func dbCommand(v operation.Verbs) *cobra.Command {
	cmd := operation.DatabaseCommand(v)
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// A server is a PostgreSQL as its administrator reaches it.
type server struct {
	admin    func(database string) string // what pgx connects by
	shown    func(database string) string // the same for programs, without a password
	password string                       // of a server that others run
	programs string                       // the directory of pg_dump, pg_restore and psql
	private  bool
	own      *cluster.Cluster // started here
	release  func()           // lets control planes at the home again
}

// close ends what was started here.
func (s *server) close(ctx context.Context) error {
	var err error
	if s.own != nil {
		err = s.own.Stop(context.WithoutCancel(ctx))
	}
	if s.release != nil {
		s.release()
	}
	return err
}

// reach finds the server that a command is about, and starts a private one that does not run.
func reach(ctx context.Context, home string, f operation.Database) (*server, error) {
	if admin := adminURL(f); admin != "" {
		return others(ctx, admin)
	}
	if os.Getenv(operation.DatabaseURL) != "" {
		return nil, bourn.WithHint(fmt.Errorf("%w: the database is on a server that others run, and no administrator of it is named", bourn.ErrInvalid),
			"give --admin-url, or set "+operation.AdminURL)
	}
	dir := daemon.ClusterDir(home)
	major, err := cluster.Major(dir)
	if err != nil {
		return nil, err
	}
	if major == 0 {
		return nil, bourn.WithHint(fmt.Errorf("%w: there is no private database in %s", bourn.ErrNotFound, dir),
			"bourn serve makes it; for a server that others run give --admin-url")
	}
	running, err := instance.Find(home)
	if err != nil {
		return nil, err
	}
	if running != nil {
		defer running.Close()
		programs, err := cluster.Find(ctx, nil, major)
		if err != nil {
			return nil, err
		}
		return private(filepath.Join(dir, "socket"), programs.Dir), nil
	}
	release, err := instance.Hold(home)
	if err != nil {
		return nil, err
	}
	s, err := startPrivate(ctx, home, given(f.DatabaseUser, operation.DatabaseUser))
	if err != nil {
		release()
		return nil, err
	}
	s.release = release
	return s, nil
}

// startPrivate starts the private server of a home that the caller holds.
func startPrivate(ctx context.Context, home, osUser string) (*server, error) {
	config, err := daemon.ClusterConfig(ctx, home, osUser)
	if err != nil {
		return nil, err
	}
	own, err := cluster.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	s := private(own.SocketDir(), own.Programs())
	s.own = own
	return s, nil
}

func private(socketDir, programs string) *server {
	conn := func(db string) string { return cluster.ConnString(socketDir, cluster.Admin, db) }
	return &server{admin: conn, shown: conn, programs: programs, private: true}
}

func adminURL(f operation.Database) string { return given(f.AdminURL, operation.AdminURL) }

// others is a server that others run. Its programs are the newest that are here: they know
// older servers.
func others(ctx context.Context, admin string) (*server, error) {
	u, err := url.Parse(admin)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		// The error would hold the URL, and the URL a password.
		return nil, bourn.WithHint(fmt.Errorf("%w: --admin-url is no URL of a PostgreSQL server", bourn.ErrInvalid),
			"it looks like postgres://postgres@db.example.com/?sslmode=verify-full")
	}
	s := &server{}
	at := func(u url.URL, db string) string { u.Path = "/" + db; return u.String() }
	s.admin = func(db string) string { return at(*u, db) }
	bare := *u
	if u.User != nil {
		s.password, _ = u.User.Password()
		bare.User = url.User(u.User.Username())
	}
	s.shown = func(db string) string { return at(bare, db) }
	programs, err := cluster.Find(ctx, nil, 0)
	if err == nil {
		s.programs = programs.Dir
	}
	return s, nil // migrate needs no programs
}

// command is a client program of PostgreSQL's for one database.
func (s *server) command(name, database string, args ...string) (*exec.Cmd, error) {
	if s.programs == "" {
		return nil, bourn.WithHint(fmt.Errorf("%w: there is no %s on this host", bourn.ErrWeakHost, name), "install PostgreSQL (Debian: apt-get install postgresql-client)")
	}
	cmd := exec.Command(filepath.Join(s.programs, name), append([]string{"--no-password", "--dbname=" + s.shown(database)}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "BOURN_DATABASE_") // another server, and passwords
	})
	if s.password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+s.password)
	}
	return cmd, nil
}

// ended is the error of a program that failed, with what it said.
func ended(cmd *exec.Cmd, said string, err error) error {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bourn.Printable(strings.Join(lines[max(0, len(lines)-3):], "; ")))
}

// withServer calls f with the server that a command is about.
func withServer(ctx context.Context, o operation.Database, f func(home string, s *server) error) error {
	dir, err := home()
	if err != nil {
		return err
	}
	shared, err := findShared(dir, o)
	if err != nil {
		return err
	}
	var s *server
	if shared != nil {
		dir = shared.Home
		s, err = reachShared(ctx, shared)
	} else {
		s, err = reach(ctx, dir, o)
	}
	if err != nil {
		return err
	}
	return errors.Join(f(dir, s), s.close(ctx))
}
