package terminal

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Raw puts a terminal into raw mode for a program that relays what is typed elsewhere, as ssh
// does: every key is a byte, and output is not processed. restore puts the modes back that were
// found; it may be called several times, by several goroutines. Who is in the background is
// stopped (SIGTTOU) until it is in the foreground.
func Raw(f *os.File) (restore func() error, err error) {
	found, err := readModes(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("cannot read modes of the terminal: %w", err)
	}
	raw := rawModes(*found)
	if err := setModes(int(f.Fd()), &raw); err != nil {
		return nil, fmt.Errorf("cannot set modes of the terminal: %w", err)
	}
	return sync.OnceValue(func() error {
		if err := setModes(int(f.Fd()), found); err != nil {
			return fmt.Errorf("cannot restore modes of the terminal: %w", err)
		}
		return nil
	}), nil
}

// Size returns the rows and columns of a terminal.
func Size(f *os.File) (rows, cols uint16, err error) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the size of the terminal: %w", err)
	}
	return w.Row, w.Col, nil
}

// Heed relays to c the signals that end a program which relays, and those that say that its
// terminal has another size; see Ends. stop ends it.
func Heed(c chan<- os.Signal) (stop func()) {
	signal.Notify(c, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGWINCH)
	return func() { signal.Stop(c) }
}

// Ends is the number of a signal that ends the program, or 0 for that of a new size.
func Ends(s os.Signal) int {
	n, is := s.(unix.Signal)
	if !is || n == unix.SIGWINCH {
		return 0
	}
	return int(n)
}
