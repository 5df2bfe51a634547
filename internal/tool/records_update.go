package tool

import (
	"bourn"
	"cmp"

	"github.com/go-json-experiment/json/jsontext"
)

func recordsUpdate() *Tool {
	type input struct {
		ID         string         `json:"id" jsonschema:"the record's id"`
		Collection string         `json:"collection,omitzero" jsonschema:"left out: as it is"`
		Body       jsontext.Value `json:"body,omitzero" jsonschema:"in place of the whole one before: an object; left out: as it is"`
		Circle     string         `json:"circle,omitzero" jsonschema:"the id of a circle to share it with; left out: as it is"`
		Visibility string         `json:"visibility,omitzero" jsonschema:"private, circle or company; left out: as it is"`
	}
	return ofRecords(Tool{
		Name: "records_update", Title: "Change a record", Tier: bourn.TierWrite, Destructive: true, Idempotent: true,
		Description: "Changes a record that belongs to the member you act for.",
	}, func(in input) error {
		return cmp.Or(needed("id", in.ID), changesSomething(in.Collection != "", in.Body != nil, in.Circle != "", in.Visibility != ""),
			short("collection", in.Collection, 100), object(in.Body), visibility(in.Visibility))
	})
}
