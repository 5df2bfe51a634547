package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/workspace"
)

func filesList() *Tool {
	type input struct {
		Path  string `json:"path,omitzero" jsonschema:"the directory; left out: the working directory"`
		Depth int    `json:"depth,omitzero" jsonschema:"how deep to go; left out: 1"`
	}
	return define(Tool{
		Name: "files_list", Title: "List a directory", Tier: bourn.TierRead,
		Description: "Lists what is in a directory. What is denied is left out and counted.",
	}, func(in input) (workspace.Request, error) {
		if in.Depth < 0 {
			return workspace.Request{}, fmt.Errorf("%w: depth is not negative", bourn.ErrInvalid)
		}
		return workspace.Request{Verb: workspace.List, Path: in.Path, Depth: in.Depth}, nil
	}, listed)
}

func listed(r workspace.ListResult) string {
	var b strings.Builder
	for _, e := range r.Entries {
		b.WriteString(e.Path)
		if e.Kind == "directory" {
			b.WriteString("/")
		} else if e.Kind != "file" {
			b.WriteString(" (" + e.Kind + ")")
		}
		b.WriteString("\n")
	}
	if len(r.Entries) == 0 {
		b.WriteString("(nothing)\n")
	}
	return strings.TrimSuffix(b.String(), "\n") + leftOut(r.LeftOut, r.Truncated)
}
