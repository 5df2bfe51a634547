//go:build !linux

package instance

import (
	"fmt"
	"os"
	"time"

	"bourn"
)

var errOther = bourn.WithHint(fmt.Errorf("%w: the control plane runs on Linux only", bourn.ErrWeakHost), "run it on Linux 5.13 or newer")

func find(string) (*Instance, error)                 { return nil, errOther }
func held(string) (bool, error)                      { return false, errOther }
func hold(string) (func(), error)                    { return nil, errOther }
func (i *Instance) runs(string) bool                 { return false }
func (i *Instance) stop(time.Duration) (bool, error) { return false, errOther }
func (i *Instance) ended(time.Duration) bool         { return true }
func execute(string, []string, []string) error       { return errOther }
func inherited(int) *os.File                         { return nil }
func ownerOf(os.FileInfo) (int, bool)                { return 0, false }
