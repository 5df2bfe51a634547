package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
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
func Run(ctx context.Context, config Config) error {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if config.people, err = findPeople(&config); err != nil {
		return err
	}
	if config.people != nil { // before anything else is started
		if err := config.people.begin(ctx); err != nil {
			return err
		}
		defer config.people.close()
	}
	if err := os.Mkdir(config.Home, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make %s: %w", config.Home, err)
	}
	if err := ownHome(config.Home); err != nil {
		return err
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
	return c.run(ctx)
}

// run serves until ctx ends and closes everything.
func (c *control) run(ctx context.Context) (err error) {
	config := c.config
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

// serve answers until ctx ends, then lets what is being answered end. When it returns
// nothing is being answered.
func serve(ctx context.Context, c *control) error {
	s := newServer(c)
	listeners, started, err := listen(c.config, s.noteSealed)
	if err != nil {
		return err
	}
	for _, l := range listeners {
		s.listensTo = append(s.listensTo, l.Addr().String())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
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
	s.tools.close()
	var closing sync.WaitGroup
	for _, h := range servers {
		closing.Go(func() {
			if err := h.Shutdown(last); err != nil {
				_ = h.Close() // who still waits has waited long enough
			}
		})
	}
	closing.Wait()
	for range pending {
		<-failed
	}
	cancel()
	s.answering.Wait()
	s.members.close(last, c)
	if stopped != nil && !errors.Is(stopped, http.ErrServerClosed) {
		return fmt.Errorf("cannot go on answering: %w", stopped)
	}
	return nil
}

// listen makes every listener, or none.
func listen(config Config, note func(context.Context, error)) (all []net.Listener, started Started, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	local, err := listenLocal(config)
	if err != nil {
		return nil, started, err
	}
	all = append(all, newPeerListener(local, config.Log, note))
	started.Socket = local.Addr().String()
	if config.Listen == "" {
		return all, started, nil
	}
	tcp, err := listenTCP(config.Listen)
	for _, l := range tcp {
		all = append(all, netutil.LimitListener(l, maxConns))
	}
	if err != nil {
		return all, started, err
	}
	started.HTTP = tcp[0].Addr().String()
	return all, started, nil
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

// listenTCP listens on an address of this host's own loopback; of localhost on both, where
// there are two.
func listenTCP(address string) (all []net.Listener, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("%w: cannot listen on %q", bourn.ErrInvalid, bourn.Printable(address)), "give a host and a port, as in localhost:7720")
	}
	hosts := []string{host}
	if host == "localhost" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			return nil, bourn.WithHint(fmt.Errorf("%w: %q is not an address of this host alone", bourn.ErrDenied, bourn.Printable(address)),
				"listen on localhost; serving others needs TLS, which this version does not have")
		}
	}
	for i, host := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil && i > 0 && noSuchAddress(err) {
			continue // a host without IPv6
		}
		if err != nil {
			return all, bourn.WithHint(fmt.Errorf("%w: cannot listen on %s: %w", bourn.ErrConflict, net.JoinHostPort(host, port), err), "stop what listens there, or name another address with --listen")
		}
		all = append(all, l)
		if port == "0" {
			_, port, _ = net.SplitHostPort(l.Addr().String())
		}
	}
	return all, nil
}
