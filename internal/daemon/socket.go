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
	"bourn/api"
)

// SocketName is the local socket's name in $BOURN_HOME.
const SocketName = api.SocketName

// maxSocketPath is the longest path of a unix socket, in bytes (sun_path, unix(7)).
const maxSocketPath = 107

// listenLocal makes the local socket. The daemon holds the home's lock, so that one
// found here is left from a daemon that was killed. On a shared host everybody may connect:
// the kernel says who does.
func listenLocal(config Config) (*net.UnixListener, error) {
	at, mode := config.Socket, os.FileMode(0o600)
	if at == "" {
		at = filepath.Join(config.Home, SocketName)
	}
	if config.people != nil {
		mode = 0o666
	}
	if len(at) > maxSocketPath {
		return nil, bourn.WithHint(fmt.Errorf("%w: the local socket cannot stand at %s: the path has more than %d bytes", bourn.ErrInvalid, at, maxSocketPath),
			"set BOURN_HOME, or --socket, to a shorter path")
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
	if err := os.Chmod(at, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot set who may use the local socket: %w", err), l.Close())
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
	note    func(context.Context, error)
	refused chan struct{} // a place for each connection that is being refused
	work    sync.WaitGroup
	ctx     context.Context // ends with the listener
	cancel  context.CancelFunc

	mu     sync.Mutex
	served int
	of     map[uint32]int // by OS user
}

// maxRefusals is how many sealed peers are answered at once; more are just closed.
const maxRefusals = 8

func newPeerListener(l *net.UnixListener, log *slog.Logger, note func(context.Context, error)) *peerListener {
	p := &peerListener{UnixListener: l, log: log, note: note, refused: make(chan struct{}, maxRefusals), of: map[uint32]int{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Accept returns the next connection that is to be served.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := peerOf(conn)
		if err != nil {
			l.refuse(conn, err)
			continue
		}
		if !l.enter(peer.UID) { // waiting would keep everybody out
			conn.Close()
			continue
		}
		return &peerConn{conn, peer, sync.OnceFunc(func() { l.leave(peer.UID) })}, nil
	}
}

// Close implements net.Listener. It returns when nobody is being refused any more.
func (l *peerListener) Close() error {
	l.cancel()
	err := l.UnixListener.Close()
	l.work.Wait()
	return err
}

// enter takes a place for a connection of an OS user. One user does not get all.
func (l *peerListener) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.served >= maxConns || l.of[uid] >= maxPerUser {
		return false
	}
	l.served++
	l.of[uid]++
	return true
}

func (l *peerListener) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served--
	if l.of[uid]--; l.of[uid] == 0 {
		delete(l.of, uid)
	}
}

// refuse answers a connection that is not served, or closes it where many are being
// refused. Accept is the only caller: nothing is refused after Close has waited.
func (l *peerListener) refuse(conn *net.UnixConn, why error) {
	select {
	case l.refused <- struct{}{}:
	default:
		conn.Close()
		return
	}
	l.work.Go(func() {
		defer func() { <-l.refused }()
		// Answering ends with the listener.
		stop := context.AfterFunc(l.ctx, func() { _ = conn.SetDeadline(time.Now()) })
		defer stop()
		l.note(l.ctx, why)
		turnAway(conn, why)
	})
}

// refuseWithin is how long who is refused may take to ask and to take the answer.
const refuseWithin = time.Second

// turnAway answers one request with the refusal and closes. It reads what was asked for,
// so that the answer is not lost, and looks at none of it.
func turnAway(conn net.Conn, why error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(refuseWithin)); err != nil {
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
