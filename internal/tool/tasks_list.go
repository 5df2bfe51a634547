package tool

import (
	"cmp"

	"bourn"
)

func tasksList() *Tool {
	type input struct {
		Status     string `json:"status,omitzero" jsonschema:"open, doing, done or dropped"`
		Assignee   string `json:"assignee,omitzero" jsonschema:"the id of a member: what is theirs to do"`
		Record     string `json:"record,omitzero" jsonschema:"the id of a record: the tasks about it"`
		Circle     string `json:"circle,omitzero" jsonschema:"the id of a circle: what is shared there"`
		Visibility string `json:"visibility,omitzero" jsonschema:"private, circle or company"`
		Limit      int    `json:"limit,omitzero" jsonschema:"how many, 200 at most; left out: 50"`
		After      string `json:"after,omitzero" jsonschema:"what next of the page before says"`
	}
	return ofRecords(Tool{
		Name: "tasks_list", Title: "List tasks", Tier: bourn.TierRead,
		Description: "Lists the tasks that the member you act for sees, the newest first.",
	}, func(in input) error {
		return cmp.Or(taskStatus(in.Status), visibility(in.Visibility), pageOf(in.Limit))
	})
}
