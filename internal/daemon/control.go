package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
)

// control is what the control plane does, apart from answering.
type control struct {
	config Config
	identity
	db         *database
	store      *store.Store
	log        *logWriter
	boundaries *boundaries
	metrics    *metrics
	traces     *traces
	people     *people // of a shared host, else nil
	logID      string
	verifying  chan struct{} // held by who verifies: it reads the whole log
	signEvery  time.Duration

	circles sync.Mutex             // held by who changes circles
	leaving []func(store.MemberID) // called with who has left one

	mu     sync.Mutex
	head   audit.Signed // the newest checkpoint
	headAt place
	logErr error // why the chainer last stopped
	cut    bool  // the log lost something that was signed
}

type place struct {
	position int64
	signed   time.Time
}

func (c *control) now() time.Time {
	if c.config.Now == nil {
		return time.Now()
	}
	return c.config.Now()
}

// sink commits entries and counts them.
type sink struct {
	store   *store.Store
	metrics *metrics
}

func (s sink) AppendLog(ctx context.Context, entries []store.EncodedEntry) error {
	err := s.store.AppendLog(ctx, entries)
	result := "written"
	if err != nil {
		result = "refused"
	}
	s.metrics.logged.WithLabelValues(result).Add(float64(len(entries)))
	return err
}

// openControl opens everything that is behind the listeners.
func openControl(ctx context.Context, config Config) (*control, error) {
	id, err := loadIdentity(config.Home)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, config)
	if err != nil {
		return nil, err
	}
	return openOn(ctx, config, id, db)
}

// openOn opens a control plane on a database that runs, which is stopped on an error.
func openOn(ctx context.Context, config Config, id identity, db *database) (*control, error) {
	c := &control{config: config, metrics: newMetrics(config.Version), traces: newTraces(), identity: id, db: db, verifying: make(chan struct{}, 1), signEvery: signEvery, people: config.people}
	var err error
	if c.store, err = store.Open(ctx, c.db.login); err != nil {
		return nil, errors.Join(err, c.db.stop(ctx))
	}
	db.ended = c.store.Reset
	c.log = newLogWriter(sink{c.store, c.metrics}, c.now)
	if err := c.begin(ctx); err != nil {
		c.log.Close()
		c.store.Close()
		return nil, errors.Join(err, c.db.stop(ctx))
	}
	return c, nil
}

// begin brings what is stored to where work can start.
func (c *control) begin(ctx context.Context) (err error) {
	if err := c.store.Ping(ctx); err != nil {
		return err
	}
	if err := c.firstMember(ctx); err != nil {
		return err
	}
	if err := c.store.SyncRoster(ctx); err != nil {
		return err
	}
	if c.people != nil {
		if err := c.syncPeople(ctx); err != nil {
			return err
		}
	}
	if c.logID, err = c.store.LogID(ctx); err != nil {
		return err
	}
	if err := c.checkHead(ctx); err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	c.boundaries = newBoundaries(c.store, c.log, c.key, c.config.Home, home)
	if err := c.boundaries.Load(ctx); err != nil {
		return err
	}
	c.metrics.boundariesAre(c.boundaries.Show().State)
	if c.replaced != "" {
		c.config.Log.WarnContext(ctx, "the host's key was replaced; the one before it stands in keys/", "before", c.replaced, "now", audit.KeyName(c.public))
		err := c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "host's key replaced", Target: audit.KeyName(c.public), Reason: "before it was " + c.replaced, Outcome: audit.Done})
		if err != nil {
			return err
		}
	}
	return c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "control plane started", Target: c.config.Version, Outcome: audit.Done})
}

// firstMember makes the user that starts a new control plane its member, administrator. On a
// shared host that is root, by the registry: the service's user is nobody's.
func (c *control) firstMember(ctx context.Context) error {
	if c.people != nil {
		return nil
	}
	all, err := c.store.Roster(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	uid := uint32(os.Geteuid())
	name := cluster.CurrentUser()
	if name == "" {
		name = fmt.Sprintf("user %d", uid)
	}
	m := store.Member{ID: store.NewMemberID(), Name: name, Administrator: true, UID: &uid}
	err = c.log.Append(ctx, audit.Entry{Kind: audit.KindChange, Who: "host", What: "first member made, administrator", Target: name, Outcome: audit.Allowed})
	if err != nil {
		return err
	}
	err = c.store.PutMember(ctx, m)
	if all, readErr := c.store.Roster(ctx); errors.Is(err, bourn.ErrConflict) && readErr == nil && len(all) > 0 {
		return nil // another control plane on the same database was quicker
	}
	return err
}

// health asks each part how it is.
func (c *control) health(ctx context.Context) api.Health {
	h := api.Health{Status: "ok", Version: c.config.Version, Components: []api.Component{}}
	add := func(name string, err error, broken string) {
		part := api.Component{Name: name, Status: "ok"}
		if err != nil {
			part.Status, part.Detail, part.Hint = broken, shortOf(err), bourn.HintOf(err)
			if h.Status != "failing" {
				h.Status = broken
			}
		}
		h.Components = append(h.Components, part)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	up := c.store.Ping(ctx)
	c.metrics.database.Set(map[bool]float64{true: 1}[up == nil])
	add("database", up, "failing")
	c.mu.Lock()
	logErr := c.logErr
	if c.cut {
		logErr = bourn.WithHint(store.ErrLogCut, bourn.HintOf(store.ErrLogCut)+"; once that is explained, remove "+lostName+" and start again")
	}
	c.mu.Unlock()
	add("log", logErr, "failing")
	b := c.boundaries.Show()
	c.metrics.boundariesAre(b.State)
	var bad error
	if behind := c.boundaries.behind.Load(); behind != nil {
		bad = *behind
	}
	if b.State == "invalid" {
		bad = bourn.WithHint(fmt.Errorf("%w: the stored hard blocks (version %d) are not valid: every change by an agent is refused", bourn.ErrInvalid, b.Version),
			"bourn boundaries show lists what is wrong; bourn boundaries set mends it")
	}
	add("boundaries", bad, "degraded")
	if c.people != nil {
		add("people", c.people.problem(), "failing")
	}
	return h
}

// shortOf is an error's text, as far as it may leave the process.
func shortOf(err error) string {
	if bourn.CodeOf(err) == bourn.CodeInternal {
		return "see the control plane's log"
	}
	return err.Error()
}

func (c *control) status(ctx context.Context) api.Status {
	s := api.Status{Health: c.health(ctx), Home: c.config.Home, Pid: os.Getpid(), Boundaries: c.boundaries.Show()}
	s.Boundaries.Document = nil
	if running := c.db.cluster(); running != nil {
		s.Database = api.Database{Embedded: true, Version: running.Version().String(), Socket: running.SocketDir(), Data: running.Dir(), User: c.db.user()}
	} else {
		s.Database.Socket = c.db.socket
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Log = api.LogStatus{ID: c.logID, Key: audit.KeyName(c.public), Position: c.headAt.position, Signed: c.headAt.signed}
	return s
}

// Pauses between what is done in the background.
const (
	watchEvery   = time.Second
	flushEvery   = 5 * time.Second
	journalEvery = time.Second
	sweepEvery   = 10 * time.Minute
	retryAfter   = time.Second
)

// work does what goes on in the background, until ctx ends; it returns when all is still.
func (c *control) work(ctx context.Context) {
	var all sync.WaitGroup
	say := func(msg string, args ...any) { c.config.Log.Warn(msg, args...) }
	all.Go(func() { c.chain(ctx, say) })
	all.Go(func() {
		c.boundaries.Watch(ctx, watchEvery, say)
	})
	if c.people != nil {
		all.Go(func() { c.watchPeople(ctx, say) })
	}
	all.Go(func() {
		every(ctx, flushEvery, func() {
			if err := c.log.Flush(ctx, false); err != nil && ctx.Err() == nil {
				say("cannot write the log", "error", err)
			}
		})
	})
	all.Go(func() {
		every(ctx, journalEvery, func() {
			if err := c.takeIn(ctx); err != nil && ctx.Err() == nil {
				say("cannot take in the log of runs", "error", err)
			}
		})
	})
	all.Go(func() {
		every(ctx, sweepEvery, func() { c.sweep(ctx, say) })
	})
	all.Wait()
}

func every(ctx context.Context, pause time.Duration, f func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		f()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep removes what is past its time.
func (c *control) sweep(ctx context.Context, say func(string, ...any)) {
	if err := c.store.Sweep(ctx); err != nil && ctx.Err() == nil {
		say("cannot remove sessions that have ended", "error", err)
	}
	if c.config.Retention <= 0 {
		return
	}
	n, err := c.store.PruneLog(ctx, c.key, c.now().Add(-c.config.Retention), c.older...)
	if err != nil && ctx.Err() == nil {
		say("cannot prune the log", "error", err)
	}
	if n > 0 {
		err := c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "log pruned", Target: fmt.Sprintf("%d entries", n), Outcome: audit.Done})
		if err != nil {
			say("cannot write the log", "error", err)
		}
	}
}
