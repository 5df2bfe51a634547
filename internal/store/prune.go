package store

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"bourn"
	"bourn/internal/audit"

	"github.com/jackc/pgx/v5"
)

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
	// The last checkpoint before the first entry that stays, which is found from the log's
	// beginning: most of it stays.
	var position int64
	var hash []byte
	var last audit.Signed
	err = tx.QueryRow(ctx, `select c.position, l.hash, c.signed, c.signature from log.checkpoint c join log.link l on l.position = c.position
		where c.position < coalesce((select l.position from log.link l join log.entry e on e.seq = l.seq where e.at >= $1 order by l.position limit 1), 9223372036854775807)
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
