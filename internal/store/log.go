package store

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"bourn"
	"bourn/internal/audit"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// An EncodedEntry is an entry as its bytes are kept.
type EncodedEntry struct {
	ID   string
	At   time.Time
	Body []byte
}

// AppendLog commits entries to the log: when it returns nil they are on disk, and their
// effects may happen. An entry that is there already is left as it is, so that what was
// interrupted can be repeated.
func (s *Store) AppendLog(ctx context.Context, entries []EncodedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	ids, ats, bodies := make([]string, len(entries)), make([]time.Time, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		ids[i], ats[i], bodies[i] = e.ID, e.At, string(e.Body)
	}
	_, err := s.control.Exec(ctx, `insert into log.entry (id, at, body)
		select id::uuid, at, body::json from unnest($1::text[], $2::timestamptz[], $3::text[]) as e(id, at, body)
		on conflict (id) do nothing`, ids, ats, bodies)
	if err != nil {
		return fmt.Errorf("cannot write the log: %w", classify(err))
	}
	return nil
}

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

// settled is how long a transaction that appends can take: after it, a number that is
// missing stays so. Statements of bourn_control end before (roles.sql).
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

// LogID returns the id of the log; the first call makes it.
func (s *Store) LogID(ctx context.Context) (string, error) {
	d, err := s.Metadata(ctx, "log")
	if errors.Is(err, bourn.ErrNotFound) {
		made, err := json.Marshal(map[string]string{"id": audit.NewID()})
		if err != nil {
			return "", err
		}
		if _, err := s.SaveMetadata(ctx, "log", made, 0, "bournd"); err != nil && !errors.Is(err, bourn.ErrConflict) {
			return "", err
		}
		d, err = s.Metadata(ctx, "log")
		if err != nil {
			return "", err
		}
		return logID(d)
	}
	if err != nil {
		return "", err
	}
	return logID(d)
}

func logID(d Document) (string, error) {
	var v struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(d.Value, &v); err != nil || v.ID == "" {
		return "", fmt.Errorf("%w: the log has no id", bourn.ErrInternal)
	}
	return v.ID, nil
}

// Run links and signs every interval until ctx ends, and once more then. It holds one
// connection, whose end gives the lock to another daemon. It returns when ctx ends, or
// with what went wrong; the caller runs it again. signed gets each checkpoint, and a zero
// one after a step that had nothing to sign.
func (c *Chainer) Run(ctx context.Context, interval time.Duration, signed func(audit.Signed)) error {
	conn, err := c.store.control.Acquire(ctx)
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

// link links one batch in one transaction.
func (c *Chainer) link(ctx context.Context, conn *pgx.Conn) (n int, signed audit.Signed, err error) {
	tx, err := conn.Begin(ctx)
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

// LogSigned reports whether a checkpoint or a closing of the log was ever signed, as far as
// the database says.
func (s *Store) LogSigned(ctx context.Context) (signed bool, err error) {
	err = s.control.QueryRow(ctx, "select exists (select from log.checkpoint) or exists (select from log.segment)").Scan(&signed)
	return signed, classify(err)
}

// KeptLog returns the whole log to be verified. Its rows are read as they are asked for,
// in one snapshot, and end is to be called when all is read.
func (s *Store) KeptLog(ctx context.Context) (kept audit.Kept, end func(), err error) {
	if kept.ID, err = s.LogID(ctx); err != nil {
		return kept, nil, err
	}
	tx, err := s.control.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return kept, nil, classify(err)
	}
	end = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }
	for _, q := range []struct {
		into *[]audit.Signed
		sql  string
	}{
		{&kept.Checkpoints, "select signed, signature from log.checkpoint order by position"},
		{&kept.Closings, "select signed, signature from log.segment order by last"},
	} {
		rows, err := tx.Query(ctx, q.sql)
		if err == nil {
			*q.into, err = pgx.CollectRows(rows, pgx.RowToStructByPos[audit.Signed])
		}
		if err != nil {
			end()
			return kept, nil, classify(err)
		}
	}
	err = tx.QueryRow(ctx, "select count(*) from log.entry e where not exists (select from log.link l where l.seq = e.seq)").Scan(&kept.Unchained)
	if err != nil {
		end()
		return kept, nil, classify(err)
	}
	kept.Rows = logRows(ctx, tx)
	return kept, end, nil
}

// logRows reads the links with their entries; a link without an entry has no body.
func logRows(ctx context.Context, tx pgx.Tx) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		rows, err := tx.Query(ctx, `select l.position, l.seq, l.hash, coalesce(e.id::text, ''), coalesce(e.body::text, ''), coalesce(e.at, 'epoch')
			from log.link l left join log.entry e on e.seq = l.seq order by l.position`)
		if err != nil {
			yield(audit.Row{}, classify(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var r audit.Row
			var hash []byte
			if err := rows.Scan(&r.Position, &r.Seq, &hash, &r.ID, &r.Body, &r.At); err != nil {
				yield(r, classify(err))
				return
			}
			if len(hash) == len(r.Hash) {
				r.Hash = audit.Hash(hash)
			}
			if !yield(r, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(audit.Row{}, classify(err))
		}
	}
}

// A LogLine is an entry with its place, 0 while it has none.
type LogLine struct {
	Seq      int64
	Position int64
	Body     []byte
}

// A LogFilter says which lines are wanted; its zero value means all.
type LogFilter struct {
	After      int64 // lines with a greater Seq
	Run, Agent string
	Kind       audit.Kind
	Outcome    audit.Outcome
	Since      time.Time
	Most       int  // 0 means 1,000
	Newest     bool // the newest that fit, still in order
}

// LogLines returns lines in the order they were written.
func (s *Store) LogLines(ctx context.Context, f LogFilter) ([]LogLine, error) {
	if f.Most <= 0 {
		f.Most = 1000
	}
	order := "asc"
	if f.Newest {
		order = "desc"
	}
	since := pgtype.Timestamptz{Time: f.Since, Valid: !f.Since.IsZero()}
	rows, err := s.control.Query(ctx, `select * from (
		select e.seq, coalesce(l.position, 0), e.body::text from log.entry e left join log.link l on l.seq = e.seq
		where e.seq > $1 and ($2 = '' or e.body->>'run' = $2) and ($3 = '' or e.body->>'agent' = $3)
		  and ($4 = '' or e.body->>'kind' = $4) and ($5 = '' or e.body->>'outcome' = $5)
		  and ($6::timestamptz is null or e.at >= $6)
		order by e.seq `+order+` limit $7) as found order by 1`, f.After, f.Run, f.Agent, string(f.Kind), string(f.Outcome), since, f.Most)
	if err != nil {
		return nil, classify(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LogLine])
	return all, classify(err)
}

// PruneLog removes the entries that are older than before, up to a checkpoint, and
// leaves a signed closing that accounts for them. It returns how many went.
// older are keys that signed before key did.
func (s *Store) PruneLog(ctx context.Context, key ed25519.PrivateKey, before time.Time, older ...ed25519.PublicKey) (int64, error) {
	log, err := s.LogID(ctx)
	if err != nil {
		return 0, err
	}
	// Of two daemons that prune at once one is told of a conflict.
	tx, err := s.control.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	if err != nil {
		return 0, classify(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // committed below, or of no use
	// The last checkpoint before the first entry that stays.
	var position int64
	var hash []byte
	var last audit.Signed
	err = tx.QueryRow(ctx, `select c.position, l.hash, c.signed, c.signature from log.checkpoint c join log.link l on l.position = c.position
		where c.position < coalesce((select min(l.position) from log.link l join log.entry e on e.seq = l.seq where e.at >= $1), 9223372036854775807)
		order by c.position desc limit 1`, before).Scan(&position, &hash, &last.Bytes, &last.Signature)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, classify(err)
	}
	// What does not fit stays, to be looked at: a closing would vouch for it.
	st, err := last.OpenBy(append([]ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, older...)...)
	if err != nil || st.Position != position || st.Hash != audit.Hash(hash).String() {
		return 0, bourn.WithHint(fmt.Errorf("%w: nothing was pruned: the log does not fit its checkpoint at %d", bourn.ErrDenied, position), "bourn audit verify says what is wrong")
	}
	var first int64
	if err := tx.QueryRow(ctx, "select coalesce(max(last), 0) + 1 from log.segment").Scan(&first); err != nil {
		return 0, classify(err)
	}
	if position < first {
		return 0, nil
	}
	closing, err := audit.Sign(key, audit.Statement{Type: audit.TypeClosing, Log: log, First: first, Position: position, Hash: audit.Hash(hash).String(), At: time.Now()})
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, "insert into log.segment (last, at, signed, signature) values ($1, clock_timestamp(), $2, $3)", position, closing.Bytes, closing.Signature); err != nil {
		return 0, classify(err)
	}
	var n int64
	if err := tx.QueryRow(ctx, "select log.prune($1)", position).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot prune the log: %w", classify(err))
	}
	return n, classify(tx.Commit(ctx))
}
