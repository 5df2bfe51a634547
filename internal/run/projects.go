package run

import (
	"fmt"
	"path/filepath"
	"slices"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
)

// Where earlier seals guarded something below a write grant is kept in $BOURN_HOME/projects,
// a Go string a line: a start looks through a bounded number of directories, and whatever
// runs make since, these are among them.

// Bounds of what is kept. Those that were found first stay, unless they are gone.
const (
	maxProjects     = 20000
	maxTreeProjects = 1000 // below one write grant: each start looks at all of them
)

func (h *Home) projectsPath() string { return filepath.Join(h.Dir, "projects") }

// projects returns where earlier seals guarded something. Without what was kept a start
// could miss some of it, so that is an error.
func (h *Home) projects() ([]string, error) {
	out, err := readPaths(h.projectsPath())
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read where earlier runs had projects to guard: %w", err),
			"remove "+h.projectsPath()+": a start looks for them again")
	}
	return out, nil
}

// keepProjects adds where a run's seal guards something. Known is what was kept when the
// run was planned.
func (h *Home) keepProjects(known []string, r *policy.Request) error {
	found := sandbox.Projects(r)
	if len(unlisted(found, known)) == 0 {
		return nil
	}
	unlock, err := lockFile(h.projectsPath())
	if err != nil {
		return err
	}
	defer unlock()
	before, err := h.projects()
	if err != nil {
		return err
	}
	all := boundProjects(before, unlisted(found, before), r)
	if slices.Equal(all, before) {
		return nil
	}
	if err := writePaths(h.projectsPath(), all); err != nil {
		return fmt.Errorf("cannot keep where this run has projects to guard: %w", err)
	}
	return nil
}

// boundProjects adds found to what was kept before, within the bounds.
func boundProjects(before, found []string, r *policy.Request) []string {
	all := slices.Clone(before)
	if len(all)+len(found) > maxProjects {
		all = slices.DeleteFunc(all, func(at string) bool { return !exists(at) })
	}
	for _, g := range r.Grants {
		if g.Kind != policy.KindWrite {
			continue
		}
		below := func(at string) bool { return policy.Under(at, g.Real) }
		if count(all, below)+count(found, below) > maxTreeProjects {
			all = slices.DeleteFunc(all, func(at string) bool { return below(at) && !exists(at) })
			left := maxTreeProjects - count(all, below)
			found = slices.DeleteFunc(slices.Clone(found), func(at string) bool {
				if below(at) {
					left--
				}
				return below(at) && left < 0
			})
		}
	}
	return append(all, found[:min(len(found), max(0, maxProjects-len(all)))]...)
}

func count(all []string, is func(string) bool) int {
	n := 0
	for _, s := range all {
		if is(s) {
			n++
		}
	}
	return n
}
