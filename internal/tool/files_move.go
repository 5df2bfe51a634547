package tool

import (
	"bourn"
	"bourn/internal/workspace"
)

func filesMove() *Tool {
	type input struct {
		From string `json:"from" jsonschema:"what to move"`
		To   string `json:"to" jsonschema:"its new path, which is not there yet"`
	}
	return define(Tool{
		Name: "files_move", Title: "Move a file", Tier: bourn.TierWrite, Destructive: true,
		Description: "Moves a file or directory to a path that is not there yet.",
	}, func(in input) (workspace.Request, error) {
		if err := needed("to", in.To); err != nil {
			return workspace.Request{}, err
		}
		return workspace.Request{Verb: workspace.Move, Path: in.From, To: in.To}, needed("from", in.From)
	}, func(r workspace.WriteResult) string { return "moved to " + r.Path })
}
