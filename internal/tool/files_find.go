package tool

import (
	"bourn"
	"bourn/internal/workspace"
)

func filesFind() *Tool {
	type input struct {
		Path string `json:"path,omitzero" jsonschema:"where to begin; left out: the working directory"`
		Glob string `json:"glob" jsonschema:"what the path below it has to fit, as in **/*.go"`
	}
	return define(Tool{
		Name: "files_find", Title: "Find files", Tier: bourn.TierRead,
		Description: "Finds the paths that a glob fits. What is denied is left out and counted.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Find, Path: in.Path, Glob: in.Glob}, needed("glob", in.Glob)
	}, listed)
}
