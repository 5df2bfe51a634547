// Package tier names the governed tools, each with its tier, and nothing else of them: what
// they take costs time to build, and a launch forks from a program that starts quickly.
//
// # What it upholds
//
// It names every tool that package tool has, in the same order (a test there).
//
// # What it does not
//
// It says nothing of what a tool does.
//
// # Needs
//
// Nothing.
package tier

import (
	"strings"

	"bourn"
)

// A Tool is a governed tool by its name.
type Tool struct {
	Name string
	Tier bourn.Tier
}

// Tools returns all of them, in the order in which they are shown.
func Tools() []Tool {
	return []Tool{
		{"files_read", bourn.TierRead}, {"files_list", bourn.TierRead}, {"files_find", bourn.TierRead},
		{"files_inspect", bourn.TierRead}, {"files_search", bourn.TierRead},
		{"files_write", bourn.TierWrite}, {"files_edit", bourn.TierWrite}, {"files_patch", bourn.TierWrite},
		{"files_delete", bourn.TierWrite}, {"files_move", bourn.TierWrite},
		{"shell_exec", bourn.TierWrite},
		{"git_status", bourn.TierRead}, {"git_diff", bourn.TierRead},
		{"spawn_subagent", bourn.TierWrite}, {"parallel_jobs", bourn.TierWrite},
		{"records_list", bourn.TierRead}, {"records_get", bourn.TierRead},
		{"records_create", bourn.TierWrite}, {"records_update", bourn.TierWrite}, {"records_delete", bourn.TierWrite},
		{"tasks_list", bourn.TierRead}, {"tasks_create", bourn.TierWrite}, {"tasks_update", bourn.TierWrite},
		{RecordsQuery, bourn.TierWrite},
		{"whoami", bourn.TierRead},
	}
}

// RecordsQuery is the tool for SQL. What it does depends on the SQL, so that the database
// alone keeps it from writing.
const RecordsQuery = "records_query"

// NeedsRecords reports whether a tool works on the company's records, which are a door.
func NeedsRecords(name string) bool {
	return strings.HasPrefix(name, "records_") || strings.HasPrefix(name, "tasks_")
}

// Reads reports whether a governed tool is one that a door for reading is open to.
func Reads(name string) bool {
	for _, t := range Tools() {
		if t.Name == name {
			return t.Tier == bourn.TierRead || name == RecordsQuery
		}
	}
	return false
}
