package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Major returns the major version that made the cluster in dir, and 0 where there is none.
func Major(dir string) (int, error) { return madeBy(filepath.Join(dir, "data")) }

// Move gives the directory of a cluster another name, which must be free. A server that
// still uses it is waited for, and is ErrConflict after half a minute.
func Move(ctx context.Context, dir, to string) error {
	lock, err := lockDir(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("cannot put the cluster aside: %s exists", to)
	}
	if err := os.Rename(dir, to); err != nil {
		return fmt.Errorf("cannot put the cluster aside: %w", err)
	}
	return nil
}
