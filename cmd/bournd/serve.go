package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/daemon/instance"
	"bourn/internal/operation"

	"github.com/spf13/cobra"
)

func serve(cmd *cobra.Command, f operation.Serve) (err error) {
	if f.Background || f.Stop || f.Status {
		return bourn.WithHint(fmt.Errorf("%w: bournd itself runs in the foreground only", errUsage), "use bourn serve")
	}
	if f.Ready != 0 {
		ready := instance.Inherited(f.Ready)
		defer func() {
			if err != nil {
				_ = json.NewEncoder(ready).Encode(failure(err)) // who waited may have gone
			}
			ready.Close()
		}()
		return serveHere(cmd, f, func(s operation.Started) {
			_ = json.NewEncoder(ready).Encode(s) // the same
			ready.Close()
		})
	}
	return serveHere(cmd, f, func(s operation.Started) { sayReady(cmd.OutOrStdout(), s, f.JSON) })
}

func sayReady(w io.Writer, s operation.Started, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(w).Encode(s) // who reads has gone: that ends no control plane
		return
	}
	line := "bourn: control plane ready: " + s.Socket
	if s.HTTP != "" {
		line += ", " + s.HTTP
	}
	fmt.Fprintln(w, line)
}

// serveHere runs the control plane until it is to end.
func serveHere(cmd *cobra.Command, f operation.Serve, ready func(operation.Started)) error {
	dir, err := home()
	if err != nil {
		return err
	}
	logTo := cmd.ErrOrStderr()
	if f.LogFile != "" {
		file, err := instance.OpenLog(f.LogFile, instance.MaxLog)
		if err != nil {
			return err
		}
		defer file.Close()
		logTo = file
	}
	log, err := logger(logTo, f.LogFormat)
	if err != nil {
		return err
	}
	if f.Retention < 0 {
		return fmt.Errorf("%w: --log-retention is negative", errUsage)
	}
	notify := takeNotifier()
	f.DatabaseURL, f.DatabaseUser = given(f.DatabaseURL, operation.DatabaseURL), given(f.DatabaseUser, operation.DatabaseUser)
	if f.Socket != "" && (!filepath.IsAbs(f.Socket) || filepath.Clean(f.Socket) != f.Socket) {
		return bourn.WithHint(fmt.Errorf("%w: --socket is no absolute path in its shortest form", errUsage), "as in --socket "+daemon.DefaultSharedSocket)
	}
	config := daemon.Config{Home: dir, Version: version, DatabaseURL: f.DatabaseURL, DatabaseUser: f.DatabaseUser, Listen: f.Listen, Log: log, Retention: f.Retention, Socket: f.Socket,
		DatabaseSocket: os.Getenv(operation.DatabaseSocket)}
	if f.NoHTTP {
		config.Listen = ""
	}
	config.Ready = func(s daemon.Started) {
		started := operation.Started{Pid: os.Getpid(), Socket: s.Socket}
		if s.HTTP != "" {
			started.HTTP = "http://" + strings.Replace(s.HTTP, "127.0.0.1", "localhost", 1)
		}
		if err := notify.say("READY=1"); err != nil {
			log.Error("cannot tell the service manager that it answers", "error", err)
		}
		ready(started)
	}
	defer context.AfterFunc(cmd.Context(), func() { _ = notify.say("STOPPING=1") })() // nobody waits for it
	return daemon.Run(cmd.Context(), config)
}

// given is what a flag says, or else the environment variable that stands for it.
func given(flag, variable string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv(variable)
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
