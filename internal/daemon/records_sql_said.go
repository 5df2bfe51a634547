package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// sqlRefusal is the database's word on SQL. Who asked reads all of it; the log has the SQLSTATE
// alone, as the words may hold values.
type sqlRefusal struct {
	problem *workspace.Problem
	cause   *store.SQLError
}

func (r *sqlRefusal) Error() string   { return r.problem.Error() }
func (r *sqlRefusal) Unwrap() []error { return []error{r.problem, r.cause} }

// refusedSQL makes the database's word into what who asked can use.
func refusedSQL(err error, text string) error {
	var said *store.SQLError
	if !errors.As(err, &said) {
		return err
	}
	p := &workspace.Problem{Code: sqlCode(said.State), Reason: "sqlstate_" + strings.ToLower(said.State), Text: said.Error(), Hint: said.Hint}
	if at := sqlPlace(text, said.Position); at != "" {
		p.Text += ", " + at
	}
	if said.After > 0 {
		p.Text += fmt.Sprintf(" (statements done before it: %d, and undone unless the text commits between them)", said.After)
	}
	if hint := sqlHint(said); hint != "" {
		if p.Hint != "" {
			p.Hint += "; "
		}
		p.Hint += hint
	}
	return &sqlRefusal{p, said}
}

// sqlCode is the code of a SQLSTATE (PostgreSQL, appendix A).
func sqlCode(state string) bourn.Code {
	switch state {
	case "42501", "25006":
		return bourn.CodeDenied
	case "57014", "55P03":
		return bourn.CodeUnavailable
	case "08P01": // of what Bourn sends, the wrong number of parameters alone
		return bourn.CodeInvalid
	}
	switch state[:min(2, len(state))] {
	case "40", "23":
		return bourn.CodeConflict
	case "08", "53", "57", "58":
		return bourn.CodeUnavailable
	}
	return bourn.CodeInvalid
}

// sqlHints say what to do about what models meet most.
var sqlHints = map[string]string{
	"42P01": "what there is: select table_name from information_schema.tables where table_schema = 'app'",
	"42703": "what there is: select table_name, column_name, data_type from information_schema.columns where table_schema = 'app'",
	"42501": "the member may not do that here",
	"25006": "the transaction only reads: the SQL has said so, or the records are open to read alone",
	"08P01": "give as many parameters as the SQL has of $1, $2, …",
	"22P02": "give the value as a parameter of the column's form; an id is an uuid",
	"57014": "narrow it down",
	"55P03": "another holds what it waits for: try again",
	"40001": "try again",
	"40P01": "try again",
}

// sqlHint says what to do about what the database refused, or is "".
func sqlHint(said *store.SQLError) string {
	switch {
	case said.State == "42501" && (said.Text == "permission denied for table record" || said.Text == "permission denied for table task"):
		return sqlHints["42501"] + "; a record or task is deleted by: update record set deleted_at = now() where id = $1"
	case said.State == "42601" && strings.Contains(said.Text, "multiple commands"):
		return "with parameters it is one statement"
	}
	return sqlHints[said.State]
}

// sqlPlace says where in a text a character is, which counts from 1.
func sqlPlace(text string, position int) string {
	if position <= 0 {
		return ""
	}
	line, column, n := 1, 1, 1
	for _, r := range text {
		if n == position {
			break
		}
		n, column = n+1, column+1
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return fmt.Sprintf("at line %d, column %d", line, column)
}

// loggedReason is an error as the log has it.
func loggedReason(err error) string {
	var said *store.SQLError
	if errors.As(err, &said) {
		if said.After > 0 { // they may have committed
			return fmt.Sprintf("SQLSTATE %s, after %d statements", said.State, said.After)
		}
		return "SQLSTATE " + said.State
	}
	return err.Error()
}

// sqlReceipt is what an outcome keeps of SQL: what each statement was and how many rows it had,
// no value.
func sqlReceipt(r api.QueriedRecords) json.RawMessage {
	kept := struct {
		Tags       []string `json:"tags"`
		Truncated  bool     `json:"truncated,omitempty"`
		Cancelled  bool     `json:"cancelled,omitempty"`
		RolledBack bool     `json:"rolled_back,omitempty"`
	}{[]string{}, r.Truncated, r.Cancelled, r.RolledBack}
	for _, s := range r.Statements {
		kept.Tags = append(kept.Tags, s.Tag)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return text
}
