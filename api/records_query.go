package api

import "context"

// QueryRecords is SQL on the records. With Parameters, which stand for $1, $2, … as text, it
// is one statement; without, it may be several.
type QueryRecords struct {
	SQL        string   `json:"sql" minLength:"1" maxLength:"1048576"`
	Parameters []string `json:"parameters,omitempty" maxItems:"1000" nullable:"false"`
}

// QueriedRecords is what SQL gave.
type QueriedRecords struct {
	Statements []QueriedStatement `json:"statements" nullable:"false"`
	Notices    []string           `json:"notices,omitempty" nullable:"false"`
	Truncated  bool               `json:"truncated,omitempty"`   // there is more than was kept
	Cancelled  bool               `json:"cancelled,omitempty"`   // and so much more that it was cancelled: what was not committed is undone
	RolledBack bool               `json:"rolled_back,omitempty"` // a transaction was left open, and is undone
}

// A QueriedStatement is what one statement gave.
type QueriedStatement struct {
	Columns []QueriedColumn `json:"columns,omitempty" nullable:"false"`
	Rows    [][]*string     `json:"rows,omitempty" nullable:"false"` // as the database writes values; null is null
	Tag     string          `json:"tag"`                             // as SELECT 3
}

// A QueriedColumn is a column of a result.
type QueriedColumn struct {
	Name string `json:"name"`
	Type string `json:"type"` // the database's name of it
}

// QueryRecords runs SQL on the records as the member who asks.
func (c *Client) QueryRecords(ctx context.Context, q QueryRecords) (QueriedRecords, error) {
	var r QueriedRecords
	return r, c.Do(ctx, "POST", "/v1/records/query", q, &r)
}
