package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"bourn"
	"bourn/internal/audit"

	"github.com/jackc/pgx/v5"
)

// An EncodedEntry is an entry as its bytes are kept.
type EncodedEntry struct {
	ID   string
	At   time.Time
	Body []byte
}

// appendWithin is how long an append may take, commit and all.
const appendWithin = 30 * time.Second

// AppendLog commits entries to the log: when it returns nil they are on disk, and their
// effects may happen. An entry that is there already is left as it is, so that what was
// interrupted can be repeated. After half a minute it gives up.
func (s *Store) AppendLog(ctx context.Context, entries []EncodedEntry) error {
	if len(entries) == 0 {
		return nil
	}
	ids, ats, bodies := make([]string, len(entries)), make([]time.Time, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		ids[i], ats[i], bodies[i] = e.ID, e.At, string(e.Body)
	}
	ctx, cancel := context.WithTimeout(ctx, appendWithin)
	defer cancel()
	_, err := s.control.Exec(ctx, `insert into log.entry (id, at, body)
		select id::uuid, at, body::json from unnest($1::text[], $2::timestamptz[], $3::text[]) as e(id, at, body)
		on conflict (id) do nothing`, ids, ats, bodies)
	if err != nil {
		return fmt.Errorf("cannot write the log: %w", classify(err))
	}
	return nil
}

// LogID returns the id of the log; the first call makes it.
func (s *Store) LogID(ctx context.Context) (string, error) {
	d, err := s.Metadata(ctx, "log")
	if errors.Is(err, bourn.ErrNotFound) {
		made, err := json.Marshal(map[string]string{"id": audit.NewID()})
		if err != nil {
			return "", err
		}
		// Of two that make one at once one does, and both read it.
		if _, err := s.SaveMetadata(ctx, "log", made, 0, "bournd"); err != nil && !errors.Is(err, bourn.ErrConflict) {
			return "", err
		}
		if d, err = s.Metadata(ctx, "log"); err != nil {
			return "", err
		}
	} else if err != nil {
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

// LogSigned reports whether a checkpoint or a closing of the log was ever signed, as far as
// the database says.
func (s *Store) LogSigned(ctx context.Context) (signed bool, err error) {
	err = s.control.QueryRow(ctx, "select exists (select from log.checkpoint) or exists (select from log.segment)").Scan(&signed)
	return signed, classify(err)
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
	sql, args := f.query()
	rows, err := s.control.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LogLine])
	if f.Newest {
		slices.Reverse(all)
	}
	return all, classify(err)
}

// query is the statement that finds the lines, the newest first where those are wanted. It
// has only the conditions that were given, so that each finds its index.
func (f LogFilter) query() (sql string, args []any) {
	direction := ""
	if f.Newest {
		direction = " desc"
	}
	var where, order string
	given := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(condition, len(args))
	}
	given("e.seq > $%d", f.After)
	for _, c := range []struct{ column, value string }{ // the narrowest first
		{"e.body->>'run'", f.Run}, {"e.body->>'agent'", f.Agent}, {"e.body->>'outcome'", string(f.Outcome)}, {"e.body->>'kind'", string(f.Kind)},
	} {
		if c.value == "" {
			continue
		}
		given(" and "+c.column+" = $%d", c.value)
		if order == "" {
			// All lines have the same. But behind row security PostgreSQL does not conclude
			// that the index has them in the order of seq.
			order = c.column + direction + ", "
		}
	}
	if !f.Since.IsZero() {
		given(" and e.at >= $%d", f.Since)
	}
	sql = "select e.seq, coalesce(l.position, 0), e.body::text from log.entry e left join log.link l on l.seq = e.seq where " + where
	most := f.Most
	if most <= 0 {
		most = 1000
	}
	return fmt.Sprintf("%s order by %se.seq%s limit %d", sql, order, direction, most), args
}
