//go:build !linux || !(amd64 || arm64)

package notify

import "errors"

var errNoTable = errors.New("cannot watch system calls: there is no table for this system and architecture")

func install() (int, error) { return -1, errNoTable }

func serve(int, func(Event)) error { return errNoTable }
