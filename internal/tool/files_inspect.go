package tool

import (
	"fmt"

	"bourn"
	"bourn/internal/workspace"
)

func filesInspect() *Tool {
	type input struct {
		Path string `json:"path" jsonschema:"what to look at"`
	}
	return define(Tool{
		Name: "files_inspect", Title: "Inspect a path", Tier: bourn.TierRead,
		Description: "Says what a path is: its kind, size, mode, time, and where a link leads.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Inspect, Path: in.Path}, needed("path", in.Path)
	}, func(e workspace.Entry) string {
		s := fmt.Sprintf("%s: %s, %s, %d bytes, changed %s", e.Path, e.Kind, e.Mode, e.Size, e.Modified.Format("2006-01-02 15:04:05 MST"))
		if e.Target != "" {
			s += ", leads to " + e.Target
		}
		return s
	})
}
