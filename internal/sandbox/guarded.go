package sandbox

import (
	"os"
	"path"
	"strings"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// Repositories below the top of a write grant are looked for in this many directories
// and levels; a start must not wait for a walk over everything.
const (
	nestedLevels = 2
	nestedDirs   = 100
)

// guarded lists, for each write grant, what runs code on the host later: in the grant
// itself, in repositories a few levels below, in their submodules and worktrees.
func (g *gatherer) guarded() error {
	for _, gr := range g.req.Grants {
		if gr.Kind != policy.KindWrite || !gr.Exists || !gr.Dir || gr.Err != "" || gr.Foul != "" {
			continue
		}
		g.guardTop(gr.Real)
		left := nestedDirs
		g.guardNested(gr.Real, nestedLevels, &left)
	}
	return nil
}

func (g *gatherer) guardTop(root string) {
	for _, row := range policy.GuardedDirs {
		g.guardDir(path.Join(root, row.Dir), row.Entries, row.Reason)
	}
	for _, row := range policy.GuardedFiles {
		g.guard(path.Join(root, row.Name), "", row.Reason)
	}
	g.guardRepository(path.Join(root, ".git"))
}

// guardDir guards entries of a config directory and pins it.
func (g *gatherer) guardDir(dir string, entries []string, reason string) {
	at := place(dir)
	switch {
	case at.Exists && !at.Dir:
		g.guard(dir, "", reason) // .git is a file in worktrees and submodules
	case at.Exists:
		for _, e := range entries {
			g.guard(path.Join(at.Real, e), at.Real, reason)
		}
	default:
		for _, e := range entries {
			g.guard(path.Join(dir, e), "", reason)
		}
	}
}

func (g *gatherer) guard(at, pin, reason string) {
	g.req.Guarded = append(g.req.Guarded, policy.Guarded{Place: place(at), Pin: pin, Reason: reason})
}

// guardRepository guards the hooks and config of a repository's submodules and
// worktrees, which lie inside its own directory.
func (g *gatherer) guardRepository(git string) {
	entries, reason := policy.GuardedDirs[0].Entries, policy.GuardedDirs[0].Reason
	for _, kind := range []string{"modules", "worktrees"} {
		dirs, err := os.ReadDir(path.Join(git, kind))
		if err != nil {
			continue
		}
		for _, d := range dirs {
			if d.IsDir() {
				g.guardExisting(path.Join(git, kind, d.Name()), entries, reason)
			}
		}
	}
}

// guardExisting guards what exists of entries, without watching for the rest.
func (g *gatherer) guardExisting(dir string, entries []string, reason string) {
	for _, e := range entries {
		if o, err := survey.Stat(path.Join(dir, e)); err == nil && o.Type != survey.Missing {
			g.guard(path.Join(dir, e), dir, reason)
		}
	}
}

// guardNested looks for repositories below dir.
func (g *gatherer) guardNested(dir string, levels int, left *int) {
	if levels == 0 || *left <= 0 {
		return
	}
	*left--
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "node_modules" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		sub := path.Join(dir, e.Name())
		git := path.Join(sub, ".git")
		if o, err := survey.Stat(git); err == nil && o.Type == survey.Dir {
			g.guardExisting(git, policy.GuardedDirs[0].Entries, policy.GuardedDirs[0].Reason)
			g.guardRepository(git)
		}
		g.guardNested(sub, levels-1, left)
	}
}
