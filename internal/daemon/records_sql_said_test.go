package daemon

import (
	"errors"
	"testing"

	"bourn"
	"bourn/internal/store"
)

// What the database refuses has a hint only where that says what to do about it.
func TestRefusedSQLHints(t *testing.T) {
	for _, test := range []struct {
		state, text string
		code        bourn.Code
		hint        string
	}{
		{"42501", "permission denied for table record", bourn.CodeDenied, "the member may not do that here; a record or task is deleted by: update record set deleted_at = now() where id = $1"},
		{"42501", "permission denied for table sessions", bourn.CodeDenied, "the member may not do that here"},
		{"42601", "cannot insert multiple commands into a prepared statement", bourn.CodeInvalid, "with parameters it is one statement"},
		{"42601", `syntax error at or near "selec"`, bourn.CodeInvalid, ""},
		{"08P01", `bind message supplies 1 parameters, but prepared statement "" requires 0`, bourn.CodeInvalid, "give as many parameters as the SQL has of $1, $2, …"},
		{"08006", "connection failure", bourn.CodeUnavailable, ""},
	} {
		var got *sqlRefusal
		if err := refusedSQL(&store.SQLError{State: test.state, Text: test.text}, "select"); !errors.As(err, &got) {
			t.Fatalf("%s: %v", test.state, err)
		}
		if got.problem.Code != test.code || got.problem.Hint != test.hint {
			t.Errorf("%s %s: %v with the hint %q, want %v with %q", test.state, test.text, got.problem.Code, got.problem.Hint, test.code, test.hint)
		}
	}
}
