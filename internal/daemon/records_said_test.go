package daemon

import (
	"errors"
	"testing"

	"bourn/internal/store"
)

// TestLoggedReason: the log has no value of SQL, and says that statements were done before one
// that failed, as they may have committed.
func TestLoggedReason(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&store.SQLError{State: "23505", Text: "hunter2", Detail: "hunter2"}, "SQLSTATE 23505"},
		{refusedSQL(&store.SQLError{State: "22012", Text: "hunter2", After: 3}, "select 1"), "SQLSTATE 22012, after 3 statements"},
		{errors.New("away"), "away"},
	} {
		if got := loggedReason(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
