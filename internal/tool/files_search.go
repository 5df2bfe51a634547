package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/workspace"
)

func filesSearch() *Tool {
	type input struct {
		Query string `json:"query" jsonschema:"the text to look for, or a regular expression (RE2)"`
		Regex bool   `json:"regex,omitzero" jsonschema:"the query is a regular expression"`
		Path  string `json:"path,omitzero" jsonschema:"where to begin; left out: the working directory"`
		Glob  string `json:"glob,omitzero" jsonschema:"which files, as in **/*.go; left out: all"`
		Limit int64  `json:"limit,omitzero" jsonschema:"the most lines to return"`
	}
	return define(Tool{
		Name: "files_search", Title: "Search in files", Tier: bourn.TierRead,
		Description: "Searches the lines of files. What is denied is left out and counted, what is no text is skipped.",
	}, func(in input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Search, Path: in.Path, Query: in.Query, Regex: in.Regex, Glob: in.Glob, Limit: in.Limit}, needed("query", in.Query)
	}, func(r workspace.SearchResult) string {
		var b strings.Builder
		for _, h := range r.Hits {
			fmt.Fprintf(&b, "%s:%d:%s\n", h.Path, h.Line, h.Text)
		}
		fmt.Fprintf(&b, "(%s in %s", plural(len(r.Hits), "line"), plural(r.Files, "file"))
		if r.Skipped > 0 {
			fmt.Fprintf(&b, ", %d skipped", r.Skipped)
		}
		b.WriteString(")")
		return b.String() + leftOut(r.LeftOut, r.Truncated)
	})
}
