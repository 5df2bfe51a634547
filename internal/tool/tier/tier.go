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

import "bourn"

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
		{"whoami", bourn.TierRead},
	}
}
