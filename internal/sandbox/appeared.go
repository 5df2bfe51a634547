package sandbox

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// Appeared returns what runs code on the host later, stands in the write grants of a run that
// has ended, and did not when the facts of req were gathered: what is in projects that are
// new, of a new repository its git directory. What was known to be missing is not of it, see
// [policy.Plan.Late]. It looks where a start looks, and through no more directories: missed
// are those that were not looked through, and were when the run began.
func Appeared(req *policy.Request) (out []policy.Late, missed []string) {
	now := *req
	now.Guarded, now.Unsearched, now.Hollow = nil, nil, nil
	g := gatherer{req: &now, opt: Options{Projects: Projects(req)}}
	for _, gr := range now.Grants {
		if gr.Exists && now.Refused(gr) == "" && gr.Kind != policy.KindUnix {
			g.roots = append(g.roots, gr.Real)
		}
	}
	g.projects()
	a := appearance{before: req, known: map[string]bool{}, subs: g.subs}
	if a.subs == nil {
		a.subs = map[string]bool{}
	}
	for _, dir := range g.opt.Projects {
		a.subs[dir] = true
	}
	for _, o := range req.Guarded {
		a.known[o.Path] = true
	}
	for _, o := range now.Guarded {
		a.add(o)
	}
	for _, dir := range now.Hollow {
		if !a.closed(dir) && !slices.Contains(req.Hollow, dir) {
			a.report(dir, "git takes it for the repository of a submodule, and makes one of it")
		}
	}
	a.indexes(&now)
	missed = slices.DeleteFunc(now.Unsearched, func(dir string) bool { return slices.Contains(req.Unsearched, dir) })
	return a.out, missed
}

// An appearance is what appeared during a run.
type appearance struct {
	before *policy.Request
	known  map[string]bool // guarded at the start, or looked for then
	subs   map[string]bool // what was looked for wherever it is: what indexes name, known projects
	out    []policy.Late
}

func (a *appearance) add(o policy.Guarded) {
	if o.Name == (policy.Object{}) || a.known[o.Path] || o.Quiet || a.closed(o.Path) {
		return
	}
	git, ok := gitDirWith(o.Path)
	switch {
	case ok && a.repository(git):
		a.report(o.Path, o.Reason)
	case ok:
		if !a.worktree(git) {
			a.report(git, o.Reason)
		}
	case path.Base(o.Path) != ".git" || o.Link || !a.leadsHome(o.Path):
		a.report(o.Path, o.Reason)
	}
}

func (a *appearance) report(at, reason string) {
	if !slices.ContainsFunc(a.out, func(l policy.Late) bool { return l.Path == at }) {
		a.out = append(a.out, policy.Late{Path: at, Reason: reason})
	}
}

// closed reports whether a run could not have made what stands at a path, or nobody looked
// there when it began.
func (a *appearance) closed(at string) bool {
	written := func(g policy.Grant) bool { return g.Kind == policy.KindWrite && policy.Under(at, g.Real) }
	guarded := func(o policy.Guarded) bool { return o.Dir && !o.Link && at != o.Path && policy.Under(at, o.Path) }
	return !slices.ContainsFunc(a.before.Grants, written) || slices.ContainsFunc(a.before.Guarded, guarded) || a.unsearched(at)
}

// unsearched reports whether nobody looked where something stands when the run began. What
// an index named was looked for wherever that was.
func (a *appearance) unsearched(at string) bool {
	for dir := at; dir != "/"; dir = path.Dir(dir) {
		if a.subs[dir] {
			return false
		}
	}
	return slices.ContainsFunc(a.before.Unsearched, func(dir string) bool {
		dir, below := strings.CutSuffix(dir, anyDir)
		return policy.Under(at, dir) && (!below || strings.Count(at[len(dir):], "/") > 2)
	})
}

// gitDirWith returns the git directory of which a path is a guarded entry.
func gitDirWith(at string) (git string, ok bool) {
	for _, entry := range policy.GuardedDirs[0].Entries {
		if git, ok := strings.CutSuffix(at, "/"+entry); ok && (inGit(git) || isRepository(git)) {
			return git, true
		}
	}
	return "", false
}

// repository reports whether a directory was known as a git directory, or as the entry of a
// linked worktree.
func (a *appearance) repository(git string) bool {
	return a.known[path.Join(git, "config")] || a.known[path.Join(git, "commondir")]
}

// worktree reports whether a new git directory is the entry of a linked worktree in a known
// repository, as git makes it: it obeys nothing but that repository's configuration.
func (a *appearance) worktree(git string) bool {
	common := path.Dir(path.Dir(git))
	if path.Base(path.Dir(git)) != "worktrees" || !a.repository(common) {
		return false
	}
	if has(git, "config.worktree") {
		return false
	}
	text := survey.Text(path.Join(git, "commondir"), maxGitFile)
	if text != "" && !path.IsAbs(text) {
		text = path.Join(git, text)
	}
	return text != "" && place(text).Real == place(common).Real
}

// leadsHome reports whether a new .git file leads to a git directory that is looked after by
// itself: a linked worktree's or submodule's, in a known repository.
func (a *appearance) leadsHome(at string) bool {
	git := gitDirOf(at)
	if git == "" {
		return false
	}
	if a.repository(git) || a.worktree(git) {
		return true
	}
	return slices.ContainsFunc(a.out, func(l policy.Late) bool { return l.Path == git })
}

// indexes reports those of known repositories that cannot be read: what git would find by
// them is not known.
func (a *appearance) indexes(now *policy.Request) {
	for _, o := range now.Guarded {
		git, ok := strings.CutSuffix(o.Path, "/config")
		if !ok || !has(git, "index") || !a.known[o.Path] {
			continue
		}
		if _, err := gitlinks(git); err != nil && !errors.Is(err, fs.ErrPermission) {
			a.report(path.Join(git, "index"), "bourn cannot read it, and git looks into the repositories that it names")
		}
	}
}
