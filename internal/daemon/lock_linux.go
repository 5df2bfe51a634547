package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"bourn"

	"golang.org/x/sys/unix"
)

// lockHome makes this process the one control plane of a home, until unlock or its end.
func lockHome(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the home: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid, readErr := io.ReadAll(io.LimitReader(f, 20))
		who := ""
		if readErr == nil && len(pid) > 0 {
			who = " (process " + strings.TrimSpace(bourn.Printable(string(pid))) + ")"
		}
		f.Close()
		return nil, bourn.WithHint(fmt.Errorf("%w: a control plane runs already%s", bourn.ErrConflict, who), "bourn serve --stop ends it")
	}
	if err == nil {
		err = errors.Join(f.Truncate(0), writePid(f))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock the home: %w", err)
	}
	return func() { f.Close() }, nil
}

func writePid(f *os.File) error {
	_, err := fmt.Fprintf(f, "%d\n", os.Getpid())
	return err
}

// StopSignals are the signals that end a control plane in order.
func StopSignals() []os.Signal { return []os.Signal{os.Interrupt, unix.SIGTERM} }
