package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/daemon/instance"

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
			who = " (process " + bourn.Printable(strings.TrimSpace(string(pid))) + ")"
		}
		f.Close()
		if who == "" {
			return nil, bourn.WithHint(fmt.Errorf("%w: another command works on the database of this home", bourn.ErrConflict), "wait until bourn db has ended")
		}
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

// ownHome refuses a home that others could change: the key and the socket stand in it.
func ownHome(home string) error {
	var st unix.Stat_t
	if err := unix.Lstat(home, &st); err != nil {
		return fmt.Errorf("cannot look at %s: %w", home, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return bourn.WithHint(fmt.Errorf("%w: %s is not a directory that only its user can change", bourn.ErrDenied, home),
			"set BOURN_HOME to a directory of your own, chmod 700")
	}
	// Who may rename what is above it can put another home there while this one is in use.
	real, err := filepath.EvalSymlinks(home)
	if err != nil {
		return fmt.Errorf("cannot look at %s: %w", home, err)
	}
	why, err := instance.Replaceable(real)
	if err == nil && why != "" {
		err = bourn.WithHint(fmt.Errorf("%w: %s can be replaced by another user: %s", bourn.ErrDenied, home, why),
			"run bourn as that user, or set BOURN_HOME to a directory below your own")
	}
	return err
}

// foreign reports whether a file is another user's.
func foreign(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Uid != uint32(os.Geteuid())
}

// noSuchAddress reports whether a host lacks an address, or its whole family.
func noSuchAddress(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}

func writePid(f *os.File) error {
	_, err := fmt.Fprintf(f, "%d\n", os.Getpid())
	return err
}

// StopSignals are the signals that end a control plane in order.
func StopSignals() []os.Signal { return []os.Signal{os.Interrupt, unix.SIGTERM} }
