package daemon

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	config     Config
	key        ed25519.PrivateKey
	db         *database
	store      *store.Store
	log        *logWriter
	boundaries *boundaries
	metrics    *metrics
	traces     *traces
	logID      string

	mu     sync.Mutex
	head   audit.Signed // the newest checkpoint
	headAt place
	logErr error // why the chainer last stopped
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
	c := &control{config: config, metrics: newMetrics(config.Version), traces: newTraces()}
	var err error
	if c.key, err = loadIdentity(config.Home); err != nil {
		return nil, err
	}
	if c.db, err = openDatabase(ctx, config); err != nil {
		return nil, err
	}
	if c.store, err = store.Open(ctx, c.db.login); err != nil {
		return nil, errors.Join(err, c.db.stop(ctx))
	}
	c.log = newLogWriter(sink{c.store, c.metrics}, c.now)
	if err := c.begin(ctx); err != nil {
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
	return c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "control plane started", Target: c.config.Version, Outcome: audit.Done})
}

// firstMember makes the user that starts a new control plane its member, administrator.
func (c *control) firstMember(ctx context.Context) error {
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
	return c.store.PutMember(ctx, m)
}

// headFile holds the newest checkpoint outside the database: whoever cuts the log's end
// off in the database would have to change it as well.
func (c *control) headFile() string { return filepath.Join(c.config.Home, "log-head.json") }

// checkHead compares the log with the checkpoint that was kept outside the database. What
// does not fit is logged and shown by verify; it does not keep the control plane from
// starting, since without it nothing could be looked at.
func (c *control) checkHead(context.Context) error {
	text, err := os.ReadFile(c.headFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the log's newest checkpoint: %w", err)
	}
	var s audit.Signed
	if json.Unmarshal(text, &s) != nil {
		return nil // verify says so
	}
	if st, err := s.Open(c.key.Public().(ed25519.PublicKey)); err == nil && st.Log == c.logID {
		c.head, c.headAt = s, place{st.Position, st.At}
	}
	return nil
}

// signed notes a new checkpoint.
func (c *control) signed(s audit.Signed) {
	st, err := s.Open(c.key.Public().(ed25519.PublicKey))
	if err != nil {
		return
	}
	c.mu.Lock()
	c.head, c.headAt, c.logErr = s, place{st.Position, st.At}, nil
	c.mu.Unlock()
	c.metrics.signed.Set(float64(st.At.UnixMicro()) / 1e6)
	c.metrics.position.Set(float64(st.Position))
	if text, err := json.Marshal(s); err == nil {
		if err := replaceFile(c.headFile(), text, 0o600); err != nil {
			c.config.Log.Error("cannot keep the log's newest checkpoint", "error", err)
		}
	}
}

// verify verifies the log against what the database holds, the checkpoint kept beside
// it, and what the caller kept elsewhere.
func (c *control) verify(ctx context.Context, trusted []api.SignedStatement) (api.VerifiedLog, error) {
	public := c.key.Public().(ed25519.PublicKey)
	var all []audit.Signed
	for _, s := range trusted {
		all = append(all, audit.Signed{Bytes: s.Statement, Signature: s.Signature})
	}
	// Read before the log: what is signed meanwhile is not missing from it.
	if text, err := os.ReadFile(c.headFile()); err == nil {
		var s audit.Signed
		if json.Unmarshal(text, &s) != nil {
			s = audit.Signed{Bytes: []byte("{}")}
		}
		all = append(all, s)
	}
	kept, end, err := c.store.KeptLog(ctx)
	if err != nil {
		return api.VerifiedLog{}, err
	}
	defer end()
	r, err := audit.Verify(kept, public, all)
	if err != nil {
		return api.VerifiedLog{}, err
	}
	c.mu.Lock()
	head := c.head
	c.mu.Unlock()
	v := api.VerifiedLog{Log: r.Log, Key: audit.KeyName(public), Entries: r.Entries, First: r.First, Last: r.Last, Covered: r.Covered,
		Pruned: r.Pruned, Unchained: r.Unchained, Problems: []api.LogProblem{}, Checkpoint: api.SignedStatement{Statement: head.Bytes, Signature: head.Signature}}
	for _, p := range r.Problems {
		v.Problems = append(v.Problems, api.LogProblem{Position: p.Position, What: p.What})
	}
	return v, nil
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
	c.mu.Unlock()
	add("log", logErr, "failing")
	b := c.boundaries.Show()
	var bad error
	if b.State == "invalid" {
		bad = bourn.WithHint(fmt.Errorf("%w: the stored hard blocks (version %d) are not valid: every change by an agent is refused", bourn.ErrInvalid, b.Version),
			"bourn boundaries show lists what is wrong; bourn boundaries set mends it")
	}
	add("boundaries", bad, "degraded")
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
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Log = api.LogStatus{ID: c.logID, Key: audit.KeyName(c.key.Public().(ed25519.PublicKey)), Position: c.headAt.position, Signed: c.headAt.signed}
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
	all.Go(func() {
		every(ctx, flushEvery, func() {
			if err := c.log.Flush(ctx, false); err != nil && ctx.Err() == nil {
				say("cannot write the log", "error", err)
			}
			c.metrics.boundariesAre(c.boundaries.Show().State)
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

// chain runs the chainer, and again when it stopped.
func (c *control) chain(ctx context.Context, say func(string, ...any)) {
	for {
		chainer, err := c.store.Chainer(ctx, c.key)
		if err == nil {
			err = chainer.Run(ctx, signEvery, c.signed)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.mu.Lock()
			c.logErr = err
			c.mu.Unlock()
			say("the log is not chained", "error", err)
		}
		select {
		case <-time.After(retryAfter):
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
	n, err := c.store.PruneLog(ctx, c.key, c.now().Add(-c.config.Retention))
	if err != nil && ctx.Err() == nil {
		say("cannot prune the log", "error", err)
	}
	if n > 0 {
		err := c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "log pruned", Target: count(int(n), "entry"), Outcome: audit.Done})
		if err != nil {
			say("cannot write the log", "error", err)
		}
	}
}
