//go:build !linux

package posix

import (
	"fmt"

	"bourn"
)

// errPlatform: users per person are Linux's.
var errPlatform = fmt.Errorf("%w: a user per person needs Linux", bourn.ErrWeakHost)

type performer struct{}

func open(Options) (*performer, error)                       { return nil, errPlatform }
func (*performer) close()                                    {}
func (*performer) perform([]Change) ([]Left, error)          { return nil, errPlatform }
func unmount(Options, []string) error                        { return errPlatform }
func readTrusted(string) ([]byte, error)                     { return nil, errPlatform }
func update(string, State, func(*State) error) error         { return errPlatform }
func lookAt(string) (Dir, bool, error)                       { return Dir{}, false, errPlatform }
func ignoresSUID(string) (bool, error)                       { return false, errPlatform }
func owners(string, string, uint32, Range) ([]uint32, error) { return nil, errPlatform }
func running(string, Range) (map[uint32][]uint32, error)     { return nil, errPlatform }
