package daemon

import (
	"context"

	"bourn/internal/audit"
	"bourn/internal/store"
)

// takeIn moves what runs without a daemon noted into the log. An entry that was taken in
// before it could be removed is there once all the same: it keeps its id.
func (c *control) takeIn(ctx context.Context) error {
	return audit.TakeIn(audit.JournalPath(c.config.Home), func(entries []audit.Entry) error {
		encoded := make([]store.EncodedEntry, 0, len(entries))
		for _, e := range entries {
			body, err := e.Encode(c.now())
			if err != nil {
				continue // a line that is none: nobody wrote it who means well
			}
			encoded = append(encoded, store.EncodedEntry{ID: e.ID, At: e.At, Body: body})
		}
		return c.store.AppendLog(ctx, encoded)
	})
}
