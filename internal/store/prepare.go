package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"bourn"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// The databases.
const (
	ControlDatabase = "control"
	RecordsDatabase = "records"
)

//go:embed migrations
var migrations embed.FS

//go:embed roles.sql
var roles string

//go:embed side_doors.sql
var sideDoors string

// A Login returns the connection string of a role to a database.
type Login func(role, database string) string

// describing is what Describe asks, as the control plane on somebody else's server.
const describing = "grant execute on function pg_catalog.pg_database_size(name), pg_catalog.pg_stat_get_db_numbackends(oid) to bourn_control"

// databases are those that Prepare makes: who owns one, who may connect, and what is
// given back after the side doors were closed.
var databases = []struct {
	name, owner, connect, after string
	sets                        []string // of migrations, in order
}{
	{ControlDatabase, "bourn_owner", "bourn_control, bourn_member",
		describing + "; grant execute on function pg_catalog.pg_try_advisory_lock(integer, integer) to bourn_control",
		[]string{"auth", "control"}},
	{RecordsDatabase, "bourn_records", "bourn_control, bourn_app, bc_person", describing,
		[]string{"auth", "records"}},
}

// Prepare makes the roles and the databases and runs the migrations, as a superuser; it
// changes nothing where all is as it should be. Of several at once one works and the
// others wait. A database that a newer version of Bourn migrated is ErrConflict.
func Prepare(ctx context.Context, admin func(database string) string) error {
	conn, err := asAdministrator(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, roles); err != nil {
		return fmt.Errorf("cannot make the database's roles: %w", err)
	}
	for _, db := range databases {
		if err := createDatabase(ctx, conn, db.name, db.owner, db.connect); err != nil {
			return fmt.Errorf("cannot make the database %s: %w", db.name, err)
		}
		if err := prepareDatabase(ctx, admin(db.name), db.sets, db.after); err != nil {
			return fmt.Errorf("cannot prepare the database %s: %w", db.name, err)
		}
	}
	return nil
}

// asAdministrator connects to a server whose databases are to be made or changed. Of
// several at once one works and the others wait here: the lock is the connection's.
func asAdministrator(ctx context.Context, admin func(database string) string) (*pgx.Conn, error) {
	conn, err := connect(ctx, admin("postgres"))
	if err != nil {
		return nil, err
	}
	err = checkServer(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, "select pg_catalog.pg_advisory_lock(7720, 2)")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// checkServer refuses a server whose row security is not to be trusted, and a caller
// who cannot do what Prepare does.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var said string
	var super bool
	err := conn.QueryRow(ctx, "select current_setting('server_version'), rolsuper from pg_catalog.pg_roles where rolname = current_user").Scan(&said, &super)
	if err != nil {
		return fmt.Errorf("cannot ask the database server for its version: %w", classify(err))
	}
	v, err := cluster.ParseVersion(said)
	if err != nil {
		return err
	}
	if err := v.Check(); err != nil {
		return err
	}
	if !super {
		return bourn.WithHint(fmt.Errorf("%w: the database role %s is not a superuser, and preparing the databases needs one", bourn.ErrDenied, conn.Config().User),
			"give the URL of a superuser; bourn does not keep it")
	}
	return nil
}

// createDatabase makes a database that only connect may come into.
func createDatabase(ctx context.Context, conn *pgx.Conn, name, owner, connect string) error {
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_catalog.pg_database where datname = $1)", name).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := conn.Exec(ctx, fmt.Sprintf("create database %s owner %s template template0 encoding 'UTF8'", name, owner)); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, fmt.Sprintf(`
		revoke all on database %[1]s from public;
		grant connect on database %[1]s to %[2]s`, name, connect))
	return err
}

// prepareDatabase migrates a database and closes its side doors.
func prepareDatabase(ctx context.Context, url string, sets []string, after string) error {
	conn, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	for _, set := range sets {
		if err := migrate(ctx, db, set); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "begin;\n"+sideDoors+";\n"+after+"; commit")
	return err
}

// migrate runs the migrations of a set that have not run.
func migrate(ctx context.Context, db *sql.DB, set string) error {
	provider, err := migrationsOf(db, set)
	if err != nil {
		return fmt.Errorf("cannot read the migrations %s: %w", set, err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("cannot migrate %s: %w", set, err)
	}
	has, err := provider.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	if last := sources[len(sources)-1].Version; has > last {
		return bourn.WithHint(
			fmt.Errorf("%w: %s was migrated to version %d by a newer bourn, and this one knows %d", bourn.ErrConflict, set, has, last),
			"run the newer bourn, or restore a backup from before")
	}
	return nil
}

// migrationsOf returns what runs the migrations of a set.
func migrationsOf(db *sql.DB, set string) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations/"+set)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName("goose_"+set), goose.WithDisableGlobalRegistry(true))
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, classify(err)
	}
	return conn, nil
}
