//go:build !linux

package daemon

import (
	"context"
	"fmt"

	"bourn"
	"bourn/internal/store/cluster"
)

func databaseUser(context.Context, string) (cluster.User, error) {
	return cluster.User{}, fmt.Errorf("%w: a private PostgreSQL is run on Linux only", bourn.ErrWeakHost)
}

func ownerName(string) string { return "" }
