package tool

import (
	"fmt"

	"bourn"
	"bourn/internal/workspace"
)

func filesWrite() *Tool {
	type input struct {
		Path    string `json:"path" jsonschema:"the file; directories that are missing above it are made"`
		Content string `json:"content" jsonschema:"all that the file is to hold"`
	}
	return define(Tool{
		Name: "files_write", Title: "Write a file", Tier: bourn.TierWrite, Destructive: true, Idempotent: true,
		Description: "Writes a whole file, new or in place of what it held.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Write, Path: in.Path, Content: []byte(in.Content)}, needed("path", in.Path)
	}, func(r workspace.WriteResult) string {
		if r.Created {
			return fmt.Sprintf("made %s, %s", r.Path, plural(r.Bytes, "byte"))
		}
		return fmt.Sprintf("wrote %s, %s", r.Path, plural(r.Bytes, "byte"))
	})
}
