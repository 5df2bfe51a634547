package tool

import (
	"bourn"
	"cmp"

	"github.com/go-json-experiment/json/jsontext"
)

func recordsCreate() *Tool {
	type input struct {
		Collection string         `json:"collection" jsonschema:"what kind of record it is, such as notes"`
		Body       jsontext.Value `json:"body" jsonschema:"what to keep: an object of 256 KiB at most"`
		Circle     string         `json:"circle,omitzero" jsonschema:"the id of a circle to share it with"`
		Visibility string         `json:"visibility,omitzero" jsonschema:"private, circle or company; left out: circle with a circle, and else private"`
	}
	return ofRecords(Tool{
		Name: "records_create", Title: "Keep a record", Tier: bourn.TierWrite,
		Description: "Keeps a record of the member you act for. Nobody else sees it unless it is shared with a circle or the company.",
	}, func(in input) error {
		if in.Body == nil {
			return needed("body", "")
		}
		return cmp.Or(needed("collection", in.Collection), short("collection", in.Collection, 100), object(in.Body), visibility(in.Visibility))
	})
}
