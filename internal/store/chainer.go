package store

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"bourn"
	"bourn/internal/audit"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Chainer links what was committed and signs checkpoints. One works at a time, of
// all daemons on a database.
type Chainer struct {
	store *Store
	key   ed25519.PrivateKey
	log   string
	// head is what was signed last, which the log must still hold.
	head audit.Signed
	// low is a place in entry's order below which every entry is linked or will never be
	// there: numbers are handed out before they are committed, and some never are.
	low      int64
	lowSeen  int64
	lowSince time.Time
}

// chainLock is the lock of the one chainer, in control.
const chainLock = "select pg_try_advisory_lock(7720, 3)"

// settled is how long after a number was handed out its entry may still come: an append
// takes appendWithin at most, and the server may be some time about ending one whose
// daemon is gone.
const settled = 5 * time.Minute

// stepWithin is how long linking what has gathered may take.
const stepWithin = time.Minute

// lastWithin is how long the last step may take, when the daemon ends.
const lastWithin = 10 * time.Second

// batch is how many entries one step links at most.
const batch = 20000

// ErrLogCut is a log that no longer holds what was signed last: its end was cut off, or
// something before it was exchanged. The next checkpoint would cover that up.
var ErrLogCut = bourn.WithHint(fmt.Errorf("%w: the log no longer holds what was signed last", bourn.ErrDenied),
	"bourn audit verify says what is missing; somebody changed the database behind Bourn's back, or restored an older backup")

// Chainer returns the one that signs with key, for the log's own id, which the first makes.
// head is the newest checkpoint that the caller has, or nothing; a log without it is
// ErrLogCut, from [Chainer.Run].
func (s *Store) Chainer(ctx context.Context, key ed25519.PrivateKey, head audit.Signed) (*Chainer, error) {
	id, err := s.LogID(ctx)
	if err != nil {
		return nil, err
	}
	return &Chainer{store: s, key: key, log: id, head: head}, nil
}

// Run links and signs every interval until ctx ends, and once more then. It holds one
// connection, whose end gives the lock to another daemon. It returns when ctx ends, or
// with what went wrong; the caller runs it again. signed gets each checkpoint, and a zero
// one after a step that had nothing to sign.
func (c *Chainer) Run(ctx context.Context, interval time.Duration, signed func(audit.Signed)) error {
	conn, err := c.acquire(ctx)
	if err != nil {
		return classify(err)
	}
	// The lock is the connection's, and a pool would keep it.
	own := conn.Hijack()
	defer own.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(interval)
	defer tick.Stop()
	// A step is not cut short: cancelling it would cost the connection, and it is quick.
	step := context.WithoutCancel(ctx)
	for locked, last := false, false; ; {
		if last {
			var cancel context.CancelFunc
			step, cancel = context.WithTimeout(step, lastWithin)
			defer cancel()
		}
		if !locked {
			if locked, err = tryLock(step, own); err != nil {
				return classify(err)
			}
		}
		if locked {
			if err := c.step(step, own, signed); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			last = true
		}
	}
}

// acquire takes a connection also where ctx has ended meanwhile: there is a last step then.
func (c *Chainer) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectWithin)
	defer cancel()
	return c.store.control.Acquire(ctx)
}

func tryLock(ctx context.Context, conn *pgx.Conn) (locked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	err = conn.QueryRow(ctx, chainLock).Scan(&locked)
	return locked, err
}

// step links all that is committed and signs a checkpoint if there was something.
func (c *Chainer) step(ctx context.Context, conn *pgx.Conn, signed func(audit.Signed)) error {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	for {
		n, s, err := c.link(ctx, conn)
		if err != nil {
			return fmt.Errorf("cannot chain the log: %w", classify(err))
		}
		if n > 0 {
			c.head = s
		}
		if signed != nil {
			signed(s)
		}
		if n < batch {
			return nil
		}
	}
}

// link links one batch in one transaction, which sees the log as it was at one moment: what
// holds has found is what tip goes on from.
func (c *Chainer) link(ctx context.Context, conn *pgx.Conn) (n int, signed audit.Signed, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return 0, signed, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // committed below, or of no use
	if err := c.holds(ctx, tx); err != nil {
		return 0, signed, err
	}
	position, hash, err := c.tip(ctx, tx)
	if err != nil {
		return 0, signed, err
	}
	settledBy, err := c.settledBy(ctx, tx, time.Now())
	if err != nil {
		return 0, signed, err
	}
	var top int64
	if err := tx.QueryRow(ctx, "select coalesce(max(seq), 0) from log.entry").Scan(&top); err != nil {
		return 0, signed, err
	}
	rows, err := tx.Query(ctx, `select e.seq, e.body::text from log.entry e
		where e.seq > $1 and not exists (select from log.link l where l.seq = e.seq) order by e.seq limit $2`, c.low, batch)
	if err != nil {
		return 0, signed, err
	}
	// COPY does not work where row security is on.
	var positions, seqs []int64
	var hashes [][]byte
	var seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &body}, func() error {
		position++
		hash = audit.Next(hash, position, body)
		positions, seqs, hashes = append(positions, position), append(seqs, seq), append(hashes, slices.Clone(hash[:]))
		return nil
	})
	if err != nil {
		return 0, signed, err
	}
	if len(seqs) > 0 {
		if _, err := tx.Exec(ctx, "insert into log.link (position, seq, hash) select * from unnest($1::bigint[], $2::bigint[], $3::bytea[])", positions, seqs, hashes); err != nil {
			return 0, signed, err
		}
		if signed, err = c.checkpoint(ctx, tx, position, hash); err != nil {
			return 0, signed, err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, signed, err
	}
	if len(seqs) < batch {
		c.low = max(c.low, settledBy)
		c.settle(top, time.Now())
	}
	return len(seqs), signed, nil
}

// holds returns ErrLogCut if the log does not hold what was signed last.
func (c *Chainer) holds(ctx context.Context, tx pgx.Tx) error {
	if len(c.head.Bytes) == 0 {
		return nil
	}
	var head audit.Statement
	if err := json.Unmarshal(c.head.Bytes, &head); err != nil {
		return fmt.Errorf("%w: the newest checkpoint cannot be read", bourn.ErrInternal)
	}
	var holds bool
	err := tx.QueryRow(ctx, `select exists (select from log.link where position = $1 and encode(hash, 'hex') = $2)
		or exists (select from log.segment where last >= $1)`, head.Position, head.Hash).Scan(&holds)
	if err == nil && !holds {
		err = ErrLogCut
	}
	return err
}

// settledBy returns what low is after the first step, which looks at the whole log: what was
// linked by a checkpoint signed long enough ago. Later it is 0, and settle moves low.
func (c *Chainer) settledBy(ctx context.Context, tx pgx.Tx, now time.Time) (seq int64, err error) {
	if !c.lowSince.IsZero() {
		return 0, nil
	}
	err = tx.QueryRow(ctx, `select l.seq from log.checkpoint c join log.link l on l.position = c.position
		where c.at < $1 order by c.position desc limit 1`, now.Add(-settled)).Scan(&seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

// settle moves low up to where the log ended long enough ago.
func (c *Chainer) settle(top int64, now time.Time) {
	switch {
	case c.lowSince.IsZero():
		c.lowSeen, c.lowSince = top, now
	case now.Sub(c.lowSince) > settled:
		c.low = c.lowSeen
		c.lowSeen, c.lowSince = top, now
	}
}

// tip is the last link: of a pruned log, what the last closing says.
func (c *Chainer) tip(ctx context.Context, tx pgx.Tx) (int64, audit.Hash, error) {
	var position int64
	var hash []byte
	err := tx.QueryRow(ctx, "select position, hash from log.link order by position desc limit 1").Scan(&position, &hash)
	if err == nil {
		return position, audit.Hash(hash), nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return 0, audit.Hash{}, err
	}
	var s audit.Signed
	err = tx.QueryRow(ctx, "select signed, signature from log.segment order by last desc limit 1").Scan(&s.Bytes, &s.Signature)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, audit.Genesis(c.log), nil
	}
	if err != nil {
		return 0, audit.Hash{}, err
	}
	st, err := s.Open(c.key.Public().(ed25519.PublicKey))
	if err != nil {
		return 0, audit.Hash{}, fmt.Errorf("the log's last closing cannot be trusted: %w", err)
	}
	h, err := audit.ParseHash(st.Hash)
	return st.Position, h, err
}

func (c *Chainer) checkpoint(ctx context.Context, tx pgx.Tx, position int64, hash audit.Hash) (audit.Signed, error) {
	now := time.Now()
	s, err := audit.Sign(c.key, audit.Statement{Type: audit.TypeCheckpoint, Log: c.log, Position: position, Hash: hash.String(), At: now})
	if err != nil {
		return s, err
	}
	_, err = tx.Exec(ctx, "insert into log.checkpoint (position, at, signed, signature) values ($1, $2, $3, $4)", position, now, s.Bytes, s.Signature)
	return s, err
}
