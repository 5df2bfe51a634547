package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// Files in $BOURN_HOME, outside the database: whoever cuts the log's end off there would
// have to change these as well.
const (
	headName = "log-head.json"  // the newest checkpoint: HeadFile
	lostName = "log-lost.jsonl" // checkpoints that the log no longer held, one a line
)

// maxLost is how many checkpoints that were lost are kept: one that is older says as much.
const maxLost = 100

// checkHead reads the checkpoint that was kept outside the database. What does not fit is
// logged and shown by verify; it does not keep the control plane from starting, since
// without it nothing could be looked at.
func (c *control) checkHead(ctx context.Context) error {
	lost, err := c.lost()
	if err != nil {
		return err
	}
	c.cut = len(lost) > 0
	text, err := os.ReadFile(HeadFile(c.config.Home))
	if errors.Is(err, fs.ErrNotExist) {
		return c.headless(ctx)
	}
	if err != nil {
		return fmt.Errorf("cannot read the log's newest checkpoint: %w", err)
	}
	var s audit.Signed
	if json.Unmarshal(text, &s) != nil {
		return c.notHeld(ctx, audit.Signed{Bytes: []byte("{}")}, "the checkpoint in "+headName+" cannot be read")
	}
	st, err := s.OpenBy(append(c.older, c.public)...)
	if err != nil {
		return c.notHeld(ctx, s, "the checkpoint in "+headName+" is not signed by this host")
	}
	if st.Log != c.logID {
		return c.notHeld(ctx, s, "the checkpoint in "+headName+" is of another log: the database is another")
	}
	c.head, c.headAt = s, place{st.Position, st.At}
	return nil
}

// headless says that there is no checkpoint outside the database, where one was signed: an
// end that was cut off before now is not found.
func (c *control) headless(ctx context.Context) error {
	signed, err := c.store.LogSigned(ctx)
	if err != nil || !signed {
		return err
	}
	c.config.Log.WarnContext(ctx, "the log's newest checkpoint is not there; an end that was cut off before now cannot be found", "file", headName)
	return c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "no checkpoint beside the database", Target: headName, Outcome: audit.Done})
}

// notHeld keeps a checkpoint that the log does not hold, so that verify goes on finding
// it, and says so.
func (c *control) notHeld(ctx context.Context, s audit.Signed, why string) error {
	lost, err := c.lost()
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(lost, func(l audit.Signed) bool { return bytes.Equal(l.Bytes, s.Bytes) })
	if !known && len(lost) < maxLost {
		lost = append(lost, s)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, l := range lost {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	if err := replaceFile(filepath.Join(c.config.Home, lostName), text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("cannot keep a checkpoint that the log does not hold: %w", err)
	}
	if err := os.Remove(HeadFile(c.config.Home)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot put aside a checkpoint that the log does not hold: %w", err)
	}
	c.mu.Lock()
	c.head, c.headAt, c.cut = audit.Signed{}, place{}, true
	c.mu.Unlock()
	c.config.Log.ErrorContext(ctx, "the log does not hold what was signed", "why", why)
	return c.log.Append(ctx, audit.Entry{Kind: audit.KindService, Who: "host", What: "log does not hold what was signed", Target: lostName, Reason: why, Outcome: audit.Failed})
}

// lost returns the checkpoints that the log did not hold. A line that cannot be read counts
// as one that nobody signed.
func (c *control) lost() (all []audit.Signed, err error) {
	text, err := os.ReadFile(filepath.Join(c.config.Home, lostName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the checkpoints that the log did not hold: %w", err)
	}
	for line := range bytes.Lines(text) {
		var s audit.Signed
		if json.Unmarshal(line, &s) != nil {
			s = audit.Signed{Bytes: []byte("{}")}
		}
		all = append(all, s)
	}
	return all, nil
}

// chain runs the chainer, and again when it stopped.
func (c *control) chain(ctx context.Context, say func(string, ...any)) {
	for {
		c.mu.Lock()
		head := c.head
		c.mu.Unlock()
		chainer, err := c.store.Chainer(ctx, c.key, head)
		if err == nil {
			err = chainer.Run(ctx, c.signEvery, c.signed)
		}
		if errors.Is(err, store.ErrLogCut) {
			// Kept first: the next checkpoint would cover it up.
			c.mu.Lock()
			head = c.head
			c.mu.Unlock()
			err = c.notHeld(context.WithoutCancel(ctx), head, "its end was cut off, or what was before it was exchanged")
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

// signed notes a new checkpoint, or that there was nothing to sign.
func (c *control) signed(s audit.Signed) {
	if len(s.Bytes) == 0 {
		c.mu.Lock()
		c.logErr = nil
		c.mu.Unlock()
		return
	}
	st, err := s.Open(c.public)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.head, c.headAt, c.logErr = s, place{st.Position, st.At}, nil
	c.mu.Unlock()
	c.metrics.signed.Set(float64(st.At.UnixMicro()) / 1e6)
	c.metrics.position.Set(float64(st.Position))
	text, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(HeadFile(c.config.Home), text, 0o600)
	}
	if err != nil {
		c.config.Log.Error("cannot keep the log's newest checkpoint", "error", err)
	}
}

// outside returns every checkpoint that this host kept outside the database.
func (c *control) outside() ([]audit.Signed, error) {
	all, err := c.lost()
	if err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(HeadFile(c.config.Home)); err == nil {
		var s audit.Signed
		if json.Unmarshal(text, &s) != nil {
			s = audit.Signed{Bytes: []byte("{}")}
		}
		all = append(all, s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.head.Bytes) > 0 {
		all = append(all, c.head)
	}
	return all, nil
}

// verify verifies the log against what the database holds, the checkpoints kept beside
// it, and what the caller kept elsewhere. One works at a time.
func (c *control) verify(ctx context.Context, trusted []api.SignedStatement) (api.VerifiedLog, error) {
	select {
	case c.verifying <- struct{}{}:
		defer func() { <-c.verifying }()
	case <-ctx.Done():
		return api.VerifiedLog{}, context.Cause(ctx)
	}
	// Read before the log: what is signed meanwhile is not missing from it.
	all, err := c.outside()
	if err != nil {
		return api.VerifiedLog{}, err
	}
	for _, s := range trusted {
		all = append(all, audit.Signed{Bytes: s.Statement, Signature: s.Signature})
	}
	kept, end, err := c.store.KeptLog(ctx)
	if err != nil {
		return api.VerifiedLog{}, err
	}
	defer end()
	r, err := audit.Verify(kept, c.public, all, c.older...)
	if err != nil {
		return api.VerifiedLog{}, err
	}
	c.mu.Lock()
	head := c.head
	c.mu.Unlock()
	v := api.VerifiedLog{Log: r.Log, Key: audit.KeyName(c.public), Entries: r.Entries, First: r.First, Last: r.Last, Covered: r.Covered,
		Pruned: r.Pruned, Unchained: r.Unchained, Older: r.Older, Problems: []api.LogProblem{}, Checkpoint: api.SignedStatement{Statement: head.Bytes, Signature: head.Signature}}
	for _, p := range r.Problems {
		v.Problems = append(v.Problems, api.LogProblem{Position: p.Position, What: p.What})
	}
	return v, nil
}
