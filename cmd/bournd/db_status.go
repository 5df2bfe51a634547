package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/daemon/instance"
	"bourn/internal/operation"
	"bourn/internal/store"
	"bourn/internal/store/cluster"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

func dbStatus(cmd *cobra.Command, f operation.Database, _ []string) error {
	dir, err := home()
	if err != nil {
		return err
	}
	s := operation.DatabaseStatus{Minimum: minimum()}
	if f.DatabaseURL = given(f.DatabaseURL, operation.DatabaseURL); f.DatabaseURL != "" {
		err = givenStatus(cmd.Context(), dir, f.DatabaseURL, &s)
	} else {
		err = privateStatus(cmd.Context(), dir, f, &s)
	}
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(cmd.OutOrStdout(), s)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), s.Text())
	return err
}

// minimum are the oldest releases that are accepted, in words.
func minimum() string {
	var all []string
	for _, v := range cluster.Minimum {
		all = append(all, v.String())
	}
	return strings.Join(all, ", ") + ", or newer"
}

func givenStatus(ctx context.Context, home, url string, s *operation.DatabaseStatus) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return bourn.WithHint(fmt.Errorf("%w: cannot read the database's URL", bourn.ErrInvalid), "it looks like postgres://db.example.com/?sslmode=verify-full")
	}
	s.Server = config.Host + ":" + strconv.Itoa(int(config.Port))
	login, err := daemon.URLLogin(home, url)
	if err != nil {
		return err
	}
	d, err := store.Describe(ctx, func(db string) string { return login(store.LoginRoles[0], db) })
	if err != nil {
		return err
	}
	s.State = "running"
	describe(s, d)
	return nil
}

// privateStatus says what there is without starting anything.
func privateStatus(ctx context.Context, home string, f operation.Database, s *operation.DatabaseStatus) error {
	shared, err := findShared(home, f)
	if err != nil {
		return err
	}
	s.Private, s.Directory, s.State = true, daemon.ClusterDir(home), "absent"
	if shared != nil {
		s.Directory = shared.Directory
	}
	major, err := cluster.Major(s.Directory)
	if err != nil {
		return err
	}
	programs, err := cluster.Find(ctx, nil, major)
	if err != nil {
		s.Detail, s.Mend = operation.Sentence(err), bourn.HintOf(err)
	}
	if programs.Dir != "" {
		s.Installed, s.Programs = programs.Version.String(), programs.Dir
	}
	if major == 0 {
		return nil
	}
	s.State, s.Version, s.User = "stopped", strconv.Itoa(major), daemon.ClusterUser(home)
	if s.DirectoryBytes, err = bytesBelow(s.Directory); err != nil {
		return err
	}
	socket := filepath.Join(s.Directory, "socket")
	if shared != nil {
		socket, s.User = shared.Socket, shared.User
		if !shared.Answers() {
			return nil
		}
	} else {
		running, err := instance.Find(home)
		if err != nil || running == nil {
			return err
		}
		defer running.Close()
	}
	d, err := store.Describe(ctx, func(db string) string { return cluster.ConnString(socket, cluster.Admin, db) })
	if err != nil {
		s.Detail, s.Mend = operation.Sentence(err), "read "+filepath.Join(s.Directory, "postgres.log")
		return nil
	}
	s.State = "running"
	describe(s, d)
	return nil
}

func describe(s *operation.DatabaseStatus, d store.Description) {
	s.Version, s.Connections, s.MaxConnections = d.Version, d.Connections, d.MaxConnections
	if v, err := cluster.ParseVersion(d.Version); err == nil {
		if err := v.Check(); err != nil {
			s.Detail, s.Mend = operation.Sentence(err), bourn.HintOf(err)
		}
	}
	for _, db := range d.Databases {
		one := operation.OneStatus{Name: db.Name, Bytes: db.Bytes}
		for _, m := range db.Migrations {
			one.Migrations = append(one.Migrations, operation.Migration{Set: m.Name, At: m.At, Known: m.Known})
		}
		s.Databases = append(s.Databases, one)
	}
}

// bytesBelow adds up the files below a directory, of which some come and go meanwhile.
func bytesBelow(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot look at the cluster: %w", err)
	}
	return sum, nil
}
