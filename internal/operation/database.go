package operation

import (
	"fmt"
	"slices"

	"bourn"

	"github.com/spf13/cobra"
)

// Databases are the names of the control plane's databases, the first by default.
var Databases = []string{"control", "records"}

// DatabaseCommand returns the command db. The caller says what it does without a command.
func DatabaseCommand(v Verbs) *cobra.Command {
	cmd := &cobra.Command{
		Use: "db", Short: "Look after the control plane's database",
		Long: `Look after the control plane's database. It is a private PostgreSQL that bourn runs itself, or
a server that others run (bourn serve --database-url).`,
		Example: "  bourn db status\n" +
			"  bourn db backup /var/backups/bourn.tar",
	}
	cmd.AddCommand(status(v), backup(v), restore(v), console(v), migrate(v), serveDatabase(v))
	return cmd
}

func status(v Verbs) *cobra.Command {
	var f Database
	cmd := &cobra.Command{
		Use: "status", Short: "Show which server it is, its version, sizes, migrations and connections",
		Long: `Show the database: which server it is and whether it runs, its version and the oldest that row
security is trusted on, sizes, migrations and connections. Nothing is started for it.`,
		Example:           "  bourn db status\n  bourn db status --json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return v.Status(cmd, f, args) },
	}
	cmd.Flags().StringVar(&f.DatabaseURL, "database-url", "", "of the server that bourn serve was given ($"+DatabaseURL+")")
	json(cmd, &f)
	return cmd
}

func backup(v Verbs) *cobra.Command {
	var f Database
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write both databases and the log's newest checkpoint into one file",
		Long: `Write both databases, the log's newest checkpoint and a manifest with their digests into one tar
file, for you alone, which must not exist yet. The control plane may run. Keys are not in it:
keep $BOURN_HOME/identity.key and $BOURN_HOME/secrets apart from it.`,
		Example: "  bourn db backup /var/backups/bourn.tar",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.Backup(cmd, f, args) },
	}
	admin(cmd, &f)
	json(cmd, &f)
	return cmd
}

func restore(v Verbs) *cobra.Command {
	var f Database
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup into empty databases, and verify it",
		Long: `Restore a backup while no control plane runs, into databases that hold nothing. With --replace
the private server's directory is put aside first, under a name with the time. The digests are
checked before anything is done; the log is verified after.`,
		Example: "  bourn db restore /var/backups/bourn.tar\n" +
			"  bourn db restore --replace /var/backups/bourn.tar",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return v.Restore(cmd, f, args) },
	}
	cmd.Flags().BoolVar(&f.Replace, "replace", false, "put the private server's directory aside, and restore into a new one")
	databaseUser(cmd, &f.DatabaseUser)
	admin(cmd, &f)
	json(cmd, &f)
	return cmd
}

func console(v Verbs) *cobra.Command {
	var f Database
	cmd := &cobra.Command{
		Use: "psql [control|records] [-- ARGUMENT…]", Short: "Open psql as the database's administrator, past row security",
		Long: `Open psql as the database's administrator. Row security does not bind it, and what it changes is
in no log. The private server is started for it where no control plane runs. What follows -- is
psql's own.`,
		Example: "  bourn db psql\n" +
			"  bourn db psql control -- -c 'select count(*) from log.entry'",
		Args:      consoleArgs,
		ValidArgs: Databases,
		RunE:      func(cmd *cobra.Command, args []string) error { return v.Console(cmd, f, args) },
	}
	admin(cmd, &f)
	return cmd
}

// consoleArgs takes a database's name, and anything behind --.
func consoleArgs(cmd *cobra.Command, args []string) error {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		args = args[:at]
	}
	if len(args) > 1 || len(args) == 1 && !slices.Contains(Databases, args[0]) {
		return fmt.Errorf("%w usage: %s takes control or records, and -- before psql's own arguments", bourn.ErrInvalid, cmd.CommandPath())
	}
	return nil
}

func migrate(v Verbs) *cobra.Command {
	var f Database
	cmd := &cobra.Command{
		Use: "migrate", Short: "Make or bring up to date the databases on a server that others run",
		Long: `Make the roles and databases on a PostgreSQL server that others run, or bring them up to date, as
a superuser whose URL is not kept. The roles that bourn serve connects as get random passwords,
which are kept in $BOURN_HOME/secrets/database.json. The private server needs none of this.`,
		Example: "  bourn db migrate --admin-url 'postgres://postgres@db.example.com/?sslmode=verify-full'\n" +
			"  BOURN_DATABASE_ADMIN_URL=postgres://… bourn db migrate",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return v.Migrate(cmd, f, args) },
	}
	admin(cmd, &f)
	json(cmd, &f)
	return cmd
}

func serveDatabase(v Verbs) *cobra.Command {
	var f DatabaseServe
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the database of a shared host, as a user of its own",
		Long: `Run the private PostgreSQL of a host that many people share, in the foreground until SIGTERM or
Ctrl-C, as the user who has its files: neither root nor the control plane's. It makes the server
and its databases, or brings them up to date, and tells systemd when it answers. By the kernel's
word on who connects, the control plane's user may be the control plane's roles, the user
bc_person_X of a person the role bc_m_X, this user and root the administrator; everybody else is
turned away. bourn-db.service runs it; the control plane finds it by $` + DatabaseSocket + `.`,
		Example:           "  bourn db serve --directory /var/lib/bourn/postgres --socket-directory /run/bourn-db --control-user bourn",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []struct{ name, value string }{{"directory", f.Directory}, {"socket-directory", f.SocketDirectory}, {"control-user", f.ControlUser}} {
				if flag.value == "" {
					return bourn.WithHint(fmt.Errorf("%w usage: %s needs --%s", bourn.ErrInvalid, cmd.CommandPath(), flag.name), cmd.CommandPath()+" --help")
				}
			}
			return v.ServeDatabase(cmd, f)
		},
	}
	cmd.Flags().StringVar(&f.Directory, "directory", "", "where the server's files are, or will be")
	cmd.Flags().StringVar(&f.SocketDirectory, "socket-directory", "", "where its socket is; who may enter the directory may ask to be let in")
	cmd.Flags().StringVar(&f.ControlUser, "control-user", "", "the user that the control plane runs as")
	for _, name := range []string{"directory", "socket-directory"} {
		_ = cmd.MarkFlagDirname(name) // it exists
	}
	return cmd
}

func admin(cmd *cobra.Command, f *Database) {
	cmd.Flags().StringVar(&f.AdminURL, "admin-url", "", "of a superuser on a server that others run ($"+AdminURL+" keeps it out of ps)")
}

func json(cmd *cobra.Command, f *Database) { cmd.Flags().BoolVar(&f.JSON, "json", false, "print JSON") }
