package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bourn"
	"bourn/internal/audit"

	"golang.org/x/net/netutil"
)

// Run is a control plane from start to end: it returns nil when ctx has ended and
// everything is still, and an error where it could not start. A home that another
// control plane uses is ErrConflict.
func Run(ctx context.Context, config Config) (err error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.Mkdir(config.Home, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", config.Home, err)
	}
	unlock, err := lockHome(filepath.Join(config.Home, "bournd.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	c, err := openControl(ctx, config)
	if err != nil {
		return err
	}
	// In the order of their use: the listeners first, then the work, then the database.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	base, stopDatabase := context.WithCancel(context.WithoutCancel(ctx))
	var working, keeping sync.WaitGroup
	keeping.Go(func() {
		if stopErr := c.db.keep(base, func(msg string, args ...any) { config.Log.Error(msg, args...) }); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
	})
	working.Go(func() { c.work(work) })
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		// The log's last lines, before its last checkpoint.
		if flushErr := errors.Join(c.log.Flush(last, true),
			c.log.Append(last, audit.Entry{Kind: audit.KindService, Who: "host", What: "control plane stopped", Outcome: audit.Done})); flushErr != nil {
			config.Log.Error("cannot write the log", "error", flushErr)
		}
		c.log.Close()
		stopWork()
		working.Wait()
		c.store.Close()
		c.traces.close()
		stopDatabase()
		keeping.Wait()
	}()
	return serve(ctx, c)
}

// serve answers until ctx ends, then lets what is being answered end.
func serve(ctx context.Context, c *control) error {
	s := newServer(c)
	local, err := listenLocal(c.config.Home)
	if err != nil {
		return err
	}
	listeners := []net.Listener{newPeerListener(local, c.config.Log, s.noteSealed)}
	started := Started{Socket: local.Addr().String()}
	if c.config.Listen != "" {
		tcp, err := listenTCP(c.config.Listen)
		if err != nil {
			return errors.Join(err, local.Close())
		}
		listeners = append(listeners, netutil.LimitListener(tcp, maxConns))
		started.HTTP = tcp.Addr().String()
	}
	for _, l := range listeners {
		s.listensTo = append(s.listensTo, l.Addr().String())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	failed := make(chan error, len(listeners))
	var servers []*http.Server
	for _, l := range listeners {
		h := s.http(base)
		servers = append(servers, h)
		go func() { failed <- h.Serve(l) }()
	}
	if c.config.Ready != nil {
		c.config.Ready(started)
	}
	var stopped error
	pending := len(servers)
	select {
	case <-ctx.Done():
	case stopped = <-failed:
		pending--
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer end()
	for _, h := range servers {
		if err := h.Shutdown(last); err != nil {
			_ = h.Close() // who still waits has waited long enough
		}
	}
	for range pending {
		<-failed
	}
	if stopped != nil && !errors.Is(stopped, http.ErrServerClosed) {
		return fmt.Errorf("cannot go on answering: %w", stopped)
	}
	return nil
}

// noteSealed logs that a sealed process was turned away.
func (s *server) noteSealed(ctx context.Context, why error) {
	s.metrics.refused.Inc()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.control.log.Refused(ctx, audit.Entry{Kind: audit.KindAction, Who: "sealed process", What: "connect to the local socket", By: "peer credentials", Reason: why.Error()})
	if err != nil {
		s.log.Warn("cannot write the log", "error", err)
	}
}

// listenTCP listens on an address of this host's own loopback.
func listenTCP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot listen on %s: %w", bourn.ErrConflict, address, err), "stop what listens there, or name another address with --listen")
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(bourn.WithHint(fmt.Errorf("%w: %s is not an address of this host alone", bourn.ErrDenied, address),
			"listen on localhost; serving others needs TLS, which this version does not have"), l.Close())
	}
	return l, nil
}
