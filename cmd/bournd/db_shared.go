package main

import (
	"context"
	"fmt"
	"os"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/operation"
	"bourn/internal/store/cluster"
)

// findShared returns the database of the shared host that a command of root's is about, and
// nil where it is about another.
func findShared(home string, f operation.Database) (*daemon.Shared, error) {
	if adminURL(f) != "" || f.DatabaseURL != "" || os.Getenv(operation.DatabaseURL) != "" {
		return nil, nil
	}
	return daemon.FindShared(home)
}

// reachShared finds the server of a shared host, which only its own service starts.
func reachShared(ctx context.Context, d *daemon.Shared) (*server, error) {
	if !d.Answers() {
		return nil, bourn.WithHint(fmt.Errorf("%w: the database of this shared host does not run: there is no socket in %s", bourn.ErrUnavailable, d.Socket),
			"systemctl start bourn-db.service")
	}
	major, err := cluster.Major(d.Directory)
	if err != nil {
		return nil, err
	}
	programs, err := cluster.Find(ctx, nil, major)
	if err != nil {
		return nil, err
	}
	return private(d.Socket, programs.Dir), nil
}

// restoreShared restores into the database of a shared host, whose control plane is stopped.
func (r *restore) restoreShared(ctx context.Context, d *daemon.Shared, f operation.Database) error {
	if f.Replace {
		return bourn.WithHint(fmt.Errorf("%w: the server of a shared host is bourn-db.service's, and is not put aside while it may run", bourn.ErrInvalid),
			"systemctl stop bourn-db.service && mv "+d.Directory+" "+d.Directory+".replaced && systemctl start bourn-db.service, then without --replace")
	}
	s, err := reachShared(ctx, d)
	if err != nil {
		return err
	}
	return r.into(ctx, s)
}
