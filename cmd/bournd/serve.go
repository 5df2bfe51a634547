package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"bourn"
	"bourn/internal/daemon"

	"github.com/spf13/cobra"
)

// serveFlags are those of serve.
type serveFlags struct {
	databaseURL, databaseUser, listen, logFormat string
	retention                                    time.Duration
	noHTTP                                       bool
}

// DefaultListen is where HTTP is served unless something else is said.
const defaultListen = "localhost:7720"

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the control plane", Args: cobra.NoArgs,
		Long: "Runs the control plane in the foreground: its database, the local socket and HTTP. SIGTERM ends it.",
		Example: "  bourn serve\n" +
			"  bourn serve --database-url postgres://db.example.com/?sslmode=verify-full",
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	cmd.Flags().StringVar(&f.databaseURL, "database-url", os.Getenv("BOURN_DATABASE_URL"), "use this PostgreSQL server instead of a private one (prepare it with bourn db migrate)")
	cmd.Flags().StringVar(&f.databaseUser, "database-user", "", "as root: the user that the private PostgreSQL runs as (made if missing; default bourn-db)")
	cmd.Flags().StringVar(&f.listen, "listen", defaultListen, "address of HTTP, on this host's loopback")
	cmd.Flags().BoolVar(&f.noHTTP, "no-http", false, "serve the local socket only")
	cmd.Flags().StringVar(&f.logFormat, "log-format", "text", "of what is logged to stderr: text or json")
	cmd.Flags().DurationVar(&f.retention, "log-retention", 0, "remove entries of the signed log that are older, as in 2160h (default: never)")
	return cmd
}

func serve(cmd *cobra.Command, f serveFlags) error {
	dir, err := home()
	if err != nil {
		return err
	}
	log, err := logger(cmd.ErrOrStderr(), f.logFormat)
	if err != nil {
		return err
	}
	if f.retention < 0 {
		return fmt.Errorf("%w: --log-retention is negative", errUsage)
	}
	config := daemon.Config{Home: dir, Version: version, DatabaseURL: f.databaseURL, DatabaseUser: f.databaseUser, Listen: f.listen, Log: log, Retention: f.retention}
	if f.noHTTP {
		config.Listen = ""
	}
	out := cmd.OutOrStdout()
	config.Ready = func(s daemon.Started) {
		fmt.Fprintf(out, "bourn: control plane ready: %s", s.Socket)
		if s.HTTP != "" {
			fmt.Fprintf(out, ", http://%s", strings.Replace(s.HTTP, "127.0.0.1", "localhost", 1))
		}
		fmt.Fprintln(out)
	}
	return daemon.Run(cmd.Context(), config)
}

func logger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, bourn.WithHint(fmt.Errorf("%w: no log format %q", errUsage, format), "text or json")
}
