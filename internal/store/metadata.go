package store

import (
	"context"
	"fmt"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// A Document is one version of a document with a history, as the bytes that were saved.
type Document struct {
	Version int64
	Value   []byte
	SavedAt time.Time
	SavedBy string
}

// Metadata returns the document under key that is in force; ErrNotFound where none was
// ever saved.
func (s *Store) Metadata(ctx context.Context, key string) (Document, error) {
	rows, err := s.control.Query(ctx, `select version, value::text, saved_at, saved_by from control.metadata
		where key = $1 order by version desc limit 1`, key)
	if err != nil {
		return Document{}, classify(err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, document)
	return d, classify(err)
}

// maxHistory is how many bytes of documents one look into a history reads, beyond the
// first.
const maxHistory = 8 << 20

// History returns the newest versions of the document under key, the newest first: most of
// them, or fewer where they are large.
func (s *Store) History(ctx context.Context, key string, most int) ([]Document, error) {
	rows, err := s.control.Query(ctx, `select version, value::text, saved_at, saved_by from control.metadata
		where key = $1 order by version desc limit $2`, key, most)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var all []Document
	for size := 0; size < maxHistory && rows.Next(); {
		d, err := document(rows)
		if err != nil {
			return nil, classify(err)
		}
		size += len(d.Value)
		all = append(all, d)
	}
	return all, classify(rows.Err())
}

func document(row pgx.CollectableRow) (Document, error) {
	var d Document
	var value string
	err := row.Scan(&d.Version, &value, &d.SavedAt, &d.SavedBy)
	d.Value = []byte(value)
	return d, err
}

// SaveMetadata saves a new version of the document under key, after the version that
// the caller has seen (0 for none). If another was saved since, nothing is saved and the
// error is ErrConflict. What is to be logged with it is written by the caller before.
func (s *Store) SaveMetadata(ctx context.Context, key string, value []byte, after int64, by string) (int64, error) {
	tag, err := s.control.Exec(ctx, `insert into control.metadata (key, version, value, saved_by)
		select $1, $2::bigint + 1, $3::text::json, $4
		where coalesce((select max(version) from control.metadata where key = $1), 0) = $2
		on conflict do nothing`, key, after, string(value), by)
	if err != nil {
		return 0, classify(err)
	}
	if tag.RowsAffected() == 0 {
		return 0, bourn.WithHint(fmt.Errorf("%w: another version was saved meanwhile", bourn.ErrConflict), "look at it, and save again")
	}
	return after + 1, nil
}
