package tool

import (
	"cmp"

	"bourn"
)

func tasksCreate() *Tool {
	type input struct {
		Title      string `json:"title" jsonschema:"what is to be done"`
		Record     string `json:"record,omitzero" jsonschema:"the id of the record that it is about; it stays so"`
		Assignee   string `json:"assignee,omitzero" jsonschema:"the id of the member who is to do it: they see it, and change its status"`
		Circle     string `json:"circle,omitzero" jsonschema:"the id of a circle to share it with"`
		Visibility string `json:"visibility,omitzero" jsonschema:"private, circle or company; left out: circle with a circle, and else private"`
		Status     string `json:"status,omitzero" jsonschema:"open, doing, done or dropped; left out: open"`
		Due        string `json:"due,omitzero" jsonschema:"a day, as in 2026-12-31"`
	}
	return ofRecords(Tool{
		Name: "tasks_create", Title: "Make a task", Tier: bourn.TierWrite,
		Description: "Makes a task of the member you act for, for themselves or for another member.",
	}, func(in input) error {
		return cmp.Or(needed("title", in.Title), short("title", in.Title, 500), visibility(in.Visibility), taskStatus(in.Status))
	})
}
