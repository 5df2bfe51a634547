package store

import (
	"context"
	"iter"

	"bourn/internal/audit"

	"github.com/jackc/pgx/v5"
)

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
