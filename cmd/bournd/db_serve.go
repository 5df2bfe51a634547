package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bourn"
	"bourn/internal/daemon"
	"bourn/internal/operation"
	"bourn/internal/store"
	"bourn/internal/store/cluster"

	"github.com/spf13/cobra"
)

// dbServe runs the database of a shared host until it is to end. Where PostgreSQL ends by
// itself this does too: the service manager starts both again.
func dbServe(cmd *cobra.Command, f operation.DatabaseServe) error {
	ctx, notify := cmd.Context(), takeNotifier()
	config, err := daemon.SharedCluster(f.Directory, f.SocketDirectory, f.ControlUser)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, config)
	if err != nil {
		return unlessAsked(ctx, err)
	}
	err = store.Prepare(ctx, func(db string) string { return c.ConnString(cluster.Admin, db) })
	roles := daemon.RoleKeeper{Admin: c.ConnString(cluster.Admin, "postgres"), Say: func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "bourn: %s\n", bourn.Printable(fmt.Sprintf(format, args...)))
	}}
	if err == nil {
		err = roles.Look(ctx, true) // before anybody is let in
	}
	if err == nil {
		err = notify.say("READY=1")
	}
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "bourn: database ready: %s\n", bourn.Printable(cluster.Socket(c.SocketDir())))
		keeping, stop := context.WithCancel(ctx)
		var kept sync.WaitGroup
		kept.Go(func() { roles.Keep(keeping) })
		select {
		case <-ctx.Done():
		case <-c.Done():
			err = bourn.WithHint(fmt.Errorf("%w: PostgreSQL ended", bourn.ErrUnavailable), "read "+c.Log())
		}
		stop()
		kept.Wait()
	}
	_ = notify.say("STOPPING=1") // nobody waits for it
	return errors.Join(unlessAsked(ctx, err), c.Stop(context.WithoutCancel(ctx)))
}

// unlessAsked is an error of what was cut short, and none where it was asked to end.
func unlessAsked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
