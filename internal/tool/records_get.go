package tool

import "bourn"

func recordsGet() *Tool {
	type input struct {
		ID string `json:"id" jsonschema:"the record's id"`
	}
	return ofRecords(Tool{
		Name: "records_get", Title: "Read a record", Tier: bourn.TierRead,
		Description: "Reads one record that the member you act for sees.",
	}, func(in input) error { return needed("id", in.ID) })
}
