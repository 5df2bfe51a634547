package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/workspace"
)

func gitStatus() *Tool {
	type input struct {
		Path string `json:"path,omitzero" jsonschema:"a directory of the repository; left out: the working directory"`
	}
	return define(Tool{
		Name: "git_status", Title: "Git status", Tier: bourn.TierRead,
		Description: "Says what is changed in a repository, as git status --porcelain=v2. Nothing of the repository is executed.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Git, Path: in.Path, Command: "status"}, noOption(in.Path)
	}, executed)
}

// noOption refuses what a program would take for an option.
func noOption(path string) error {
	if strings.HasPrefix(path, "-") {
		return bourn.WithHint(fmt.Errorf("%w: the path begins with -", bourn.ErrInvalid), "write ./ before it")
	}
	return nil
}
