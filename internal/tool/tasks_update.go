package tool

import (
	"cmp"

	"bourn"
)

func tasksUpdate() *Tool {
	type input struct {
		ID         string  `json:"id" jsonschema:"the task's id"`
		Title      string  `json:"title,omitzero" jsonschema:"left out: as it is"`
		Status     string  `json:"status,omitzero" jsonschema:"open, doing, done or dropped; left out: as it is"`
		Assignee   *string `json:"assignee,omitzero" jsonschema:"the id of a member, empty for nobody; left out: as it is"`
		Circle     string  `json:"circle,omitzero" jsonschema:"the id of a circle to share it with; left out: as it is"`
		Visibility string  `json:"visibility,omitzero" jsonschema:"private, circle or company; left out: as it is"`
		Due        *string `json:"due,omitzero" jsonschema:"a day, empty for none; left out: as it is"`
	}
	return ofRecords(Tool{
		Name: "tasks_update", Title: "Change a task", Tier: bourn.TierWrite, Destructive: true, Idempotent: true,
		Description: "Changes a task that belongs to the member you act for, or the status of one that is theirs to do.",
	}, func(in input) error {
		return cmp.Or(needed("id", in.ID), changesSomething(in.Title != "", in.Status != "", in.Assignee != nil, in.Circle != "", in.Visibility != "", in.Due != nil),
			short("title", in.Title, 500), taskStatus(in.Status), visibility(in.Visibility))
	})
}
