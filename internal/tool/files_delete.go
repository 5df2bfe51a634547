package tool

import (
	"bourn"
	"bourn/internal/workspace"
)

func filesDelete() *Tool {
	type input struct {
		Path string `json:"path" jsonschema:"a file, a link or an empty directory"`
	}
	return define(Tool{
		Name: "files_delete", Title: "Delete a file", Tier: bourn.TierWrite, Destructive: true, Idempotent: true,
		Description: "Deletes a file, a link or an empty directory.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Delete, Path: in.Path}, needed("path", in.Path)
	}, func(r workspace.WriteResult) string { return "deleted " + r.Path })
}
