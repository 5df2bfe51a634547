package tool

import "bourn"

func recordsDelete() *Tool {
	type input struct {
		ID string `json:"id" jsonschema:"the record's id"`
	}
	return ofRecords(Tool{
		Name: "records_delete", Title: "Delete a record", Tier: bourn.TierWrite, Destructive: true, Idempotent: true,
		Description: "Deletes a record that belongs to the member you act for: nobody else sees it any more.",
	}, func(in input) error { return needed("id", in.ID) })
}
