// Package operation is the command line by which a control plane is operated: the commands
// serve and db, their flags, help and examples. bourn and bournd have the same ones from
// here; what they do is each program's own.
package operation

import (
	"fmt"
	"time"

	"bourn"

	"github.com/spf13/cobra"
)

// DefaultListen is where HTTP is served unless something else is said.
const DefaultListen = "localhost:7720"

// Environment variables that stand for flags. A URL may hold a password, and everybody on a
// host can read command lines.
const (
	DatabaseURL  = "BOURN_DATABASE_URL"       // for --database-url
	AdminURL     = "BOURN_DATABASE_ADMIN_URL" // for --admin-url
	DatabaseUser = "BOURN_DATABASE_USER"      // for --database-user

	// DatabaseSocket is the directory of the socket of the server that bourn db serve runs.
	DatabaseSocket = "BOURN_DATABASE_SOCKET"
)

// Serve are the flags of serve.
type Serve struct {
	DatabaseURL, DatabaseUser, Listen, LogFormat string
	Retention                                    time.Duration
	NoHTTP                                       bool
	Socket                                       string // the local one's path, "" for the usual

	Background, Stop, Status, JSON bool // bourn's own work

	LogFile string // not shown: where a control plane in the background logs
	Ready   int    // not shown: the descriptor on which it says a Started or a Failure
}

// Database are the flags of the commands of db.
type Database struct {
	DatabaseURL, AdminURL, DatabaseUser string
	Replace, JSON                       bool
}

// DatabaseServe are the flags of db serve.
type DatabaseServe struct {
	Directory, SocketDirectory, ControlUser string
}

// Verbs do what the commands say.
type Verbs struct {
	Serve                                     func(*cobra.Command, Serve) error
	Status, Backup, Restore, Console, Migrate func(*cobra.Command, Database, []string) error
	ServeDatabase                             func(*cobra.Command, DatabaseServe) error
}

// Started is what a control plane says, in a line of JSON, when it answers.
type Started struct {
	Pid    int    `json:"pid"`
	Socket string `json:"socket"`
	HTTP   string `json:"http,omitempty"` // a URL, "" for none
}

// ServeCommand returns the command serve.
func ServeCommand(v Verbs) *cobra.Command {
	var f Serve
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the control plane: hard blocks, the signed log, the database", Args: cobra.NoArgs,
		Long: `Run the control plane in the foreground, until SIGTERM or Ctrl-C: its private PostgreSQL, the
local socket $BOURN_HOME/bourn.sock and HTTP on this host's loopback. What it logs goes to
standard error. With --background it gets a session of its own, and the command returns when it
answers; its log is $BOURN_HOME/bournd.log then. bourn run works without it.`,
		Example: "  bourn serve\n" +
			"  bourn serve --background\n" +
			"  bourn serve --status\n" +
			"  bourn serve --stop\n" +
			"  bourn serve --database-url 'postgres://db.example.com/?sslmode=verify-full'",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Background && f.Stop || f.Background && f.Status || f.Stop && f.Status {
				return fmt.Errorf("%w usage: one of --background, --status and --stop is given", bourn.ErrInvalid)
			}
			return v.Serve(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.Background, "background", "d", false, "start it in the background, and return when it answers")
	flags.BoolVar(&f.Status, "status", false, "ask the one that runs how it is; exit status 1 when it is failing")
	flags.BoolVar(&f.Stop, "stop", false, "end the one that runs: TERM, and KILL after 20 seconds")
	flags.StringVar(&f.Listen, "listen", DefaultListen, "address of HTTP, on this host's loopback")
	flags.StringVar(&f.Socket, "socket", "", "path of the local socket (default $BOURN_HOME/bourn.sock, on a shared host /run/bourn/bourn.sock)")
	flags.BoolVar(&f.NoHTTP, "no-http", false, "serve the local socket only")
	flags.StringVar(&f.DatabaseURL, "database-url", "", "use this PostgreSQL server instead of a private one, after bourn db migrate ($"+DatabaseURL+")")
	databaseUser(cmd, &f.DatabaseUser)
	flags.DurationVar(&f.Retention, "log-retention", 0, "remove entries of the signed log that are older, as in 2160h (default: never)")
	flags.StringVar(&f.LogFormat, "log-format", "text", "of what it logs: text or json")
	flags.BoolVar(&f.JSON, "json", false, "print JSON")
	flags.StringVar(&f.LogFile, "log-file", "", "")
	flags.IntVar(&f.Ready, "ready-fd", 0, "")
	for _, name := range []string{"log-file", "ready-fd"} {
		_ = flags.MarkHidden(name) // it exists
	}
	return cmd
}

func databaseUser(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "database-user", "", "as root: the user that the private PostgreSQL runs as, made if missing (default: who has it, else bourn-db; $"+DatabaseUser+")")
}
