//go:build !linux

package daemon

import (
	"context"
	"errors"
	"net"
	"os"

	"bourn/internal/posix"
)

// errNoHelper: there are no shared hosts here.
var errNoHelper = errors.New("a shared host runs Linux")

type runner struct{}

func helperRunner() int { return 1 }

func startRunner(string) (*runner, error) { return nil, errNoHelper }

func (*runner) execute(posix.Request) (*execution, error) { return nil, errNoHelper }

func (*runner) close() {}

// An execution is one of the helper.
type execution struct {
	conn net.Conn
	said *newest
	done chan helperEnd
}

func giveUpPrivileges() error { return errNoHelper }

func checkHelper(string) error { return errNoHelper }

func tryDirectly(context.Context, string, posix.Request) error { return errNoHelper }

func stampOf(os.FileInfo) [2]int64 { return [2]int64{} }
