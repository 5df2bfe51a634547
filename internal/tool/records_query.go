package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/api"
	"bourn/internal/table"
	"bourn/internal/tool/tier"
	"bourn/internal/workspace"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// A parameter is a value for SQL: text, a number, true, false or null as it is, anything else as
// JSON. Its text is what the database reads.
type parameter struct{ text *string }

// UnmarshalJSON implements json.Unmarshaler.
func (p *parameter) UnmarshalJSON(data []byte) error {
	v := jsontext.Value(data)
	var text string
	switch v.Kind() {
	case 'n':
		p.text = nil
		return nil
	case '"':
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	default: // a number keeps every digit
		text = string(data)
	}
	p.text = &text
	return nil
}

// RecordsQuery is what records_query takes, as the control plane runs it.
type RecordsQuery struct {
	SQL        string    `json:"sql"`
	Parameters []*string `json:"parameters,omitempty"`
}

func recordsQuery() *Tool {
	type input struct {
		SQL        string      `json:"sql" jsonschema:"PostgreSQL: one statement or several; the tables are in the schema app, which is searched: record, task, member, circle, circle_member, company"`
		Parameters []parameter `json:"parameters,omitzero" jsonschema:"values for $1, $2, … of one statement, so that no value is part of the SQL"`
	}
	t := define(Tool{
		Name: tier.RecordsQuery, Title: "Query the company's records", Tier: bourn.TierWrite, Destructive: true,
		Description: "Runs SQL on the company's records, as the member whose agent this is: the database shows and changes what that member may see and change. Nothing stays open between calls.",
	}, func(in input) (workspace.Request, error) {
		q := RecordsQuery{SQL: in.SQL}
		size := len(in.SQL)
		for _, p := range in.Parameters {
			q.Parameters = append(q.Parameters, p.text)
			if p.text != nil {
				size += len(*p.text)
			}
		}
		if strings.TrimSpace(in.SQL) == "" {
			return workspace.Request{}, fmt.Errorf("%w: sql is missing", bourn.ErrInvalid)
		}
		if size > 1<<20 {
			return workspace.Request{}, bourn.WithHint(fmt.Errorf("%w: SQL and parameters have more than 1 MiB", bourn.ErrInvalid), "do it in parts")
		}
		text, err := json.Marshal(q)
		return workspace.Request{Verb: workspace.RecordsWrite, Input: text}, err
	}, func(r api.QueriedRecords) string {
		return strings.TrimRight(table.Text(r), "\n")
	})
	// Any value, which no type of Go's says.
	t.Input.Properties["parameters"].Items = &jsonschema.Schema{Description: "text, a number, true, false, null, or JSON"}
	return t
}
