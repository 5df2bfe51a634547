package sandbox

import (
	"path"
	"slices"
	"strings"

	"bourn/internal/policy"
)

// projectLevels is how deep below a write grant a start looks for projects.
const projectLevels = 2

// Projects returns the directories below write grants in which something is guarded that
// stands there, as deep as a start looks for it, sorted. A later start is given them in
// [Options]: however many directories there are by then, those are looked at.
func Projects(req *policy.Request) []string {
	var out []string
	for _, gr := range req.Grants {
		if gr.Kind != policy.KindWrite || !gr.Dir || gr.Linked != "" || req.Refused(gr) != "" {
			continue
		}
		for _, o := range req.Guarded {
			if dir := projectOf(gr.Real, o); dir != "" {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// projectOf returns the directory below a grant whose project a guarded place is, or "".
func projectOf(root string, o policy.Guarded) string {
	if o.Name == (policy.Object{}) || !policy.Under(o.Path, root) {
		return ""
	}
	names := strings.Split(strings.TrimPrefix(o.Path[len(root):], "/"), "/")
	names = names[:len(names)-1]
	for _, row := range policy.GuardedDirs {
		if i := slices.Index(names, row.Dir); i >= 0 {
			names = names[:i]
		}
	}
	if len(names) == 0 || len(names) > projectLevels {
		return ""
	}
	return path.Join(root, path.Join(names...))
}
