package tool

import (
	"cmp"

	"bourn"
)

func recordsList() *Tool {
	type input struct {
		Collection string `json:"collection,omitzero" jsonschema:"the records of one collection"`
		Q          string `json:"q,omitzero" jsonschema:"words that are in the record, as in a web search"`
		Circle     string `json:"circle,omitzero" jsonschema:"the id of a circle: what is shared there"`
		Visibility string `json:"visibility,omitzero" jsonschema:"private, circle or company"`
		Limit      int    `json:"limit,omitzero" jsonschema:"how many, 200 at most; left out: 50"`
		After      string `json:"after,omitzero" jsonschema:"what next of the page before says"`
	}
	return ofRecords(Tool{
		Name: "records_list", Title: "List records", Tier: bourn.TierRead,
		Description: "Lists the company's records that the member you act for sees, the newest first.",
	}, func(in input) error {
		return cmp.Or(short("collection", in.Collection, 100), short("q", in.Q, 1000), visibility(in.Visibility), pageOf(in.Limit))
	})
}
