package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"bourn"
)

// SocketName is the local socket's name in $BOURN_HOME.
const SocketName = "bourn.sock"

// maxSocketPath is the longest path of a unix socket, in bytes (sun_path, unix(7)).
const maxSocketPath = 107

// listenLocal makes the local socket. The daemon holds the home's lock, so that one
// found here is left from a daemon that was killed.
func listenLocal(home string) (*net.UnixListener, error) {
	at := filepath.Join(home, SocketName)
	if len(at) > maxSocketPath {
		return nil, bourn.WithHint(fmt.Errorf("%w: the local socket cannot stand at %s: the path has more than %d bytes", bourn.ErrInvalid, at, maxSocketPath),
			"set BOURN_HOME to a shorter path")
	}
	if info, err := os.Lstat(at); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(at); err != nil {
			return nil, fmt.Errorf("cannot remove the socket of a daemon that has ended: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the local socket: %w", err)
	}
	if err := os.Chmod(at, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot close the local socket to others: %w", err), l.Close())
	}
	return l, nil
}

// A peerConn is a connection whose other end is known and not sealed.
type peerConn struct {
	*net.UnixConn
	peer  Peer
	leave func() // gives its place back
}

// Close implements net.Conn.
func (c *peerConn) Close() error {
	c.leave()
	return c.UnixConn.Close()
}

// A peerListener accepts connections of processes that are not sealed.
type peerListener struct {
	*net.UnixListener
	log     *slog.Logger
	served  chan struct{} // a place for each connection that is served
	refused chan struct{} // and for each that is being refused
	note    func(context.Context, error)
}

// maxRefusals is how many sealed peers are answered at once; more are just closed.
const maxRefusals = 8

func newPeerListener(l *net.UnixListener, log *slog.Logger, note func(context.Context, error)) *peerListener {
	return &peerListener{UnixListener: l, log: log, served: make(chan struct{}, maxConns), refused: make(chan struct{}, maxRefusals), note: note}
}

// Accept returns the next connection that is to be served.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := peerOf(conn)
		if err == nil {
			select {
			case l.served <- struct{}{}:
				return &peerConn{conn, peer, sync.OnceFunc(func() { <-l.served })}, nil
			default: // waiting would keep everybody out
				conn.Close()
				continue
			}
		}
		select {
		case l.refused <- struct{}{}:
			go func() {
				defer func() { <-l.refused }()
				l.note(context.Background(), err)
				turnAway(conn, err)
			}()
		default:
			conn.Close()
		}
	}
}

// turnAway answers one request with the refusal and closes. It reads what was asked for,
// so that the answer is not lost, and looks at none of it.
func turnAway(conn net.Conn, why error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return
	}
	p := problemOf(context.Background(), slog.New(slog.DiscardHandler), why)
	body, err := json.Marshal(p.Problem)
	if err != nil {
		return
	}
	head := make([]byte, 0, 4096)
	for len(head) < cap(head) && !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err != nil {
			break
		}
	}
	answer := "HTTP/1.1 403 " + http.StatusText(http.StatusForbidden) + "\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + string(body)
	_, _ = io.WriteString(conn, answer) // who is turned away need not listen
}
