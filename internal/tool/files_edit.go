package tool

import (
	"bourn"
	"bourn/internal/workspace"
)

func filesEdit() *Tool {
	type input struct {
		Path string `json:"path" jsonschema:"the file"`
		Old  string `json:"old" jsonschema:"the text to replace; it has to occur exactly once"`
		New  string `json:"new" jsonschema:"what stands in its place"`
	}
	return define(Tool{
		Name: "files_edit", Title: "Edit a file", Tier: bourn.TierWrite, Destructive: true,
		Description: "Replaces a text that occurs exactly once in a file.",
	}, func(in input) (workspace.Request, error) {
		if err := needed("old", in.Old); err != nil {
			return workspace.Request{}, err
		}
		return workspace.Request{Verb: workspace.Edit, Path: in.Path, Old: in.Old, New: in.New}, needed("path", in.Path)
	}, func(r workspace.WriteResult) string { return "edited " + r.Path })
}
