//go:build !linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"bourn"
)

const openDirNoFollow = 0

type process struct {
	pid  int
	done chan struct{}
}

var errOther = bourn.WithHint(
	fmt.Errorf("%w: a private PostgreSQL is run on Linux only, and this is %s", bourn.ErrWeakHost, runtime.GOOS),
	"give a server with --database-url")

func ownerOf(*os.File) (uint32, error)                                    { return 0, errOther }
func lockDir(context.Context, string) (*os.File, error)                   { return nil, errOther }
func (c *Cluster) run(context.Context, string, ...string) (string, error) { return "", errOther }
func (c *Cluster) write(string, string) error                             { return errOther }
func (c *Cluster) launch(*os.File) (*process, error)                      { return nil, errOther }
func (p *process) stop(context.Context) error                             { return errOther }
