package main

import (
	"fmt"
	"net"
	"os"

	"bourn"
)

// A notifier is the socket of a service manager that wants to hear how this process is
// (sd_notify(3)); "" where none does.
type notifier string

// takeNotifier finds it, and takes it out of the environment: nothing that is started from
// here speaks for this process.
func takeNotifier() notifier {
	const name = "NOTIFY_SOCKET"
	at := os.Getenv(name)
	_ = os.Unsetenv(name) // the name is well formed
	return notifier(at)
}

// say tells it a state, as in READY=1. A name that begins with @ is an abstract socket's.
func (n notifier) say(state string) error {
	if n == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: string(n), Net: "unixgram"})
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		return fmt.Errorf("%w: cannot tell the service manager %s: %w", bourn.ErrUnavailable, state, err)
	}
	return nil
}
