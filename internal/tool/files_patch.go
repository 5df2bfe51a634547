package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/workspace"
)

func filesPatch() *Tool {
	type input struct {
		Patch string `json:"patch" jsonschema:"a unified diff, with git's headers or without"`
		Path  string `json:"path,omitzero" jsonschema:"the directory that the names in it are relative to; left out: the working directory"`
	}
	return define(Tool{
		Name: "files_patch", Title: "Apply a patch", Tier: bourn.TierWrite, Destructive: true,
		Description: "Applies a unified diff to files: the whole of it, or nothing.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Patch, Path: in.Path, Content: []byte(in.Patch)}, needed("patch", in.Patch)
	}, func(r workspace.PatchResult) string {
		var b strings.Builder
		for _, f := range r.Files {
			what := "changed"
			switch {
			case f.Created:
				what = "made"
			case f.After == "":
				what = "deleted"
			}
			fmt.Fprintf(&b, "%s %s\n", what, f.Path)
		}
		return strings.TrimSuffix(b.String(), "\n")
	})
}
