package daemon

import (
	"context"
	"fmt"
	"os"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// takeIn moves what runs without a daemon noted into the log. An entry that was taken in
// before it could be removed is there once all the same: it keeps its id.
func (c *control) takeIn(ctx context.Context) error {
	path := audit.JournalPath(c.config.Home)
	if _, err := os.Lstat(path); err == nil && foreign(path) {
		return bourn.WithHint(fmt.Errorf("%w: the log of runs, journal.jsonl in $BOURN_HOME, is another user's", bourn.ErrDenied), "remove it")
	}
	return audit.TakeIn(path, func(entries []audit.Entry) error {
		encoded := make([]store.EncodedEntry, 0, len(entries))
		for _, e := range entries {
			body, err := e.Encode(c.now())
			if err != nil {
				continue // a line that is none: nobody wrote it who means well
			}
			encoded = append(encoded, store.EncodedEntry{ID: e.ID, At: e.At, Body: body})
		}
		err := c.store.AppendLog(ctx, encoded)
		if err == nil || bourn.CodeOf(err) == bourn.CodeUnavailable {
			return err
		}
		// One that the database refuses must not keep back the others for ever.
		for i, e := range encoded {
			if err := c.store.AppendLog(ctx, encoded[i:i+1]); err != nil && bourn.CodeOf(err) == bourn.CodeUnavailable {
				return err
			} else if err != nil {
				c.config.Log.ErrorContext(ctx, "an entry in the log of runs cannot be taken in", "id", e.ID)
			}
		}
		return nil
	})
}
