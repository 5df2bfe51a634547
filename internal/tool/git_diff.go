package tool

import (
	"bourn"
	"bourn/internal/workspace"
)

func gitDiff() *Tool {
	type input struct {
		Path   string `json:"path,omitzero" jsonschema:"a directory of the repository; left out: the working directory"`
		Staged bool   `json:"staged,omitzero" jsonschema:"what is staged, in place of what is not"`
	}
	return define(Tool{
		Name: "git_diff", Title: "Git diff", Tier: bourn.TierRead,
		Description: "Shows what is changed in a repository. Nothing of the repository is executed.",
	}, func(in input) (workspace.Request, error) {
		r := workspace.Request{Verb: workspace.Git, Path: in.Path, Command: "diff"}
		if in.Staged {
			r.Command = "diff --staged"
		}
		return r, noOption(in.Path)
	}, executed)
}
