package sandbox

import (
	"path"
	"slices"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// What a repository holds of its main checkout, and what git goes on with there. Nothing of
// it is a linked worktree's. Git inside writes none of it (info/refs apart, which it is told
// not to).
var (
	mainState     = []string{"HEAD", "index", "info", "modules"}
	mainUnstarted = []string{"rebase-merge", "rebase-apply", "sequencer"}
)

// linked guards, in the git directory of a repository that is granted for a linked
// worktree, what is not that worktree's: the main checkout's state, and the pointers by
// which the worktree's own entry is found.
func (w *guarder) linked(git, own string) {
	const reason = "it is the main checkout's"
	for _, name := range mainState {
		w.quiet(path.Join(git, name), reason)
	}
	for _, name := range mainUnstarted {
		w.guard(path.Join(git, name), true, "git goes on with it in the main checkout, on the host")
	}
	w.guard(path.Join(own, "gitdir"), false, "it says whose worktree this is", w.between(own)...)
}

// unstarted looks for a rebase, or the like, that is not there and may be when the run ends:
// git on the host goes on with it, and runs the commands in its list. One that is there is
// the checkout's work.
func (w *guarder) unstarted(git string) {
	for _, name := range mainUnstarted {
		at := path.Join(git, name)
		if has(git, name) || slices.ContainsFunc(w.req.Guarded, func(o policy.Guarded) bool { return o.Path == at }) {
			continue
		}
		w.req.Guarded = append(w.req.Guarded, policy.Guarded{Place: w.absent(at), Link: true,
			Reason: "git goes on with it on the host (rebase --continue), and runs the commands that it lists"})
	}
}

// quiet guards what the host replaces in its ordinary work.
func (w *guarder) quiet(at, reason string, pins ...string) {
	n := len(w.req.Guarded)
	if w.guard(at, false, reason, pins...); len(w.req.Guarded) > n {
		w.req.Guarded[n].Quiet = true
	}
}

// worktrees guards the entries of a repository's linked worktrees: what git obeys in those
// whose checkout is the run's, and all of the others, which git inside would take for gone
// and prune. Of the others, the checkout too where it lies in the repository.
func (w *guarder) worktrees(git string) {
	row := policy.GuardedDirs[0]
	for _, entry := range subdirs(path.Join(git, "worktrees")) {
		top, ok := checkoutOf(entry)
		if entry == w.own || !ok && w.own == "" || ok && w.writes(top) {
			w.entries(entry, row.Entries, row.Reason, false, w.between(entry)...)
			w.unstarted(entry)
			continue
		}
		w.quiet(entry, "it is another worktree's", w.between(entry)...)
		if ok && policy.Under(top, git) {
			w.quiet(top, "it is another worktree", w.between(path.Dir(top))...)
		}
	}
}

// writes reports whether a path lies in what the run may write, repositories apart that are
// granted for a linked worktree.
func (w *guarder) writes(at string) bool {
	return slices.ContainsFunc(w.req.Grants, func(g policy.Grant) bool {
		return g.Kind == policy.KindWrite && g.Linked == "" && policy.Under(at, g.Real) && w.req.Refused(g) == ""
	})
}

// checkoutOf returns the real path of the working tree that an entry in worktrees/ names.
func checkoutOf(entry string) (string, bool) {
	text := survey.Text(path.Join(entry, "gitdir"), maxGitFile)
	if text == "" {
		return "", false
	}
	if !path.IsAbs(text) { // worktree.useRelativePaths
		text = path.Join(entry, text)
	}
	return place(path.Dir(path.Clean(text))).Real, true
}
