package tool

import (
	"fmt"

	"bourn"
	"bourn/internal/workspace"
)

func filesRead() *Tool {
	type input struct {
		Path   string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
		Offset int64  `json:"offset,omitzero" jsonschema:"the byte to begin at"`
		Limit  int64  `json:"limit,omitzero" jsonschema:"the most bytes to read"`
	}
	return define(Tool{
		Name: "files_read", Title: "Read a file", Tier: bourn.TierRead,
		Description: "Reads a file, or a part of it. What is not text comes in base64.",
	}, func(in input) (workspace.Request, error) {
		if in.Offset < 0 || in.Limit < 0 {
			return workspace.Request{}, fmt.Errorf("%w: offset and limit are not negative", bourn.ErrInvalid)
		}
		return workspace.Request{Verb: workspace.Read, Path: in.Path, Offset: in.Offset, Limit: in.Limit}, needed("path", in.Path)
	}, func(r workspace.ReadResult) string {
		s := shown(r.Content)
		if r.Truncated {
			s += fmt.Sprintf("\n(bytes %d to %d of %d; go on with offset %d)", r.Offset, r.Offset+int64(len(r.Content)), r.Size, r.Offset+int64(len(r.Content)))
		}
		return s
	})
}
