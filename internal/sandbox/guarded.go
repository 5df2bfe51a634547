package sandbox

import (
	"os"
	"path"
	"slices"
	"strings"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// Projects below the top of a write grant are looked for in this many directories of it, and
// in this many of theirs; a start must not wait for a walk over everything.
const (
	nearDirs     = 1000
	nestedDirs   = 200
	maxMissed    = 20 // directories that are named, of those that are not looked through
	moduleLevels = 8  // names of submodules may have slashes
)

// guarded lists, for each write grant, what runs code on the host later: in the grant
// itself, in projects a few levels below, in their submodules and worktrees.
func (g *gatherer) guarded() error {
	g.projects()
	return g.guardedLinks()
}

func (g *gatherer) projects() {
	for _, gr := range g.req.Grants {
		if gr.Kind != policy.KindWrite || !gr.Dir || g.req.Refused(gr) != "" {
			continue
		}
		w := guarder{gatherer: g, root: gr.Real, own: gr.Linked}
		if gr.Linked != "" {
			w.linked(gr.Real, gr.Linked)
			w.repository(gr.Real)
			continue
		}
		if inGit(gr.Real) {
			w.repository(gr.Real)
		}
		for _, row := range policy.GuardedDirs {
			if path.Base(gr.Real) == row.Dir { // such a directory itself is granted
				w.entries(gr.Real, row.Entries, row.Reason, true)
			}
		}
		w.project(gr.Real, true)
		w.nested()
	}
}

// inGit reports whether p is a git directory's or lies in one.
func inGit(p string) bool { return slices.Contains(strings.Split(p, "/"), ".git") }

// A guarder looks through one write grant.
type guarder struct {
	*gatherer
	root string
	own  string                  // of a repository that is granted for a linked worktree: the entry of that
	dirs map[string]policy.Place // those in which something is missing
}

// guard adds one place. Where it is missing it is only looked for when the run ends, and
// only if wanted. Pins are the directories whose names must not change with it.
func (w *guarder) guard(at string, missing bool, reason string, pins ...string) {
	name, err := survey.Stat(at)
	if err != nil || name.Type == survey.Missing && !missing {
		return
	}
	if i := slices.IndexFunc(w.req.Guarded, func(o policy.Guarded) bool { return o.Path == at }); i >= 0 {
		// Seen from another grant: what must keep its name for either keeps it.
		w.req.Guarded[i].Pins = append(w.req.Guarded[i].Pins, pins...)
		return
	}
	look := place
	if name.Type == survey.Missing {
		look = w.absent
	}
	w.req.Guarded = append(w.req.Guarded, policy.Guarded{
		Place: look(at), Name: policy.Object(name.ID()), Pins: pins, Reason: reason})
}

// absent is place for a path at which nothing stands. Most of what is guarded is missing, and
// to walk down to each costs a project without any of it the most.
func (w *guarder) absent(at string) policy.Place {
	dir, name := path.Dir(at), path.Base(at)
	o, known := w.dirs[dir]
	if !known {
		if w.dirs == nil {
			w.dirs = map[string]policy.Place{}
		}
		o = place(dir)
		w.dirs[dir] = o
	}
	if o.Err != "" {
		return place(at)
	}
	return policy.Place{Path: at, Real: path.Join(o.Real, name), Ancestor: o.Ancestor, Links: slices.Clone(o.Links)}
}

// project guards what stands in a project's directory. Top is the grant itself: there,
// what is missing is of interest as well.
func (w *guarder) project(dir string, top bool) {
	for _, row := range policy.GuardedDirs {
		at := path.Join(dir, row.Dir)
		o := place(at)
		switch {
		case row.Dir == ".git" && o.Exists && !o.Dir:
			w.gitFile(at, row.Reason)
		case row.Dir == ".git" && o.Exists:
			w.guardLink(at, o, row.Reason)
			w.repository(o.Real)
		case o.Exists || top:
			w.guardLink(at, o, row.Reason)
			w.entries(o.Real, row.Entries, row.Reason, top, o.Real)
		}
	}
	for _, row := range policy.GuardedFiles {
		w.guard(path.Join(dir, row.Name), top, row.Reason)
	}
	if isRepository(dir) {
		w.repository(dir)
	}
	w.submodules(dir)
}

// maxSubmodules is how many submodules are looked at in a write grant.
const maxSubmodules = 1000

// submodules guards the repositories that the index of a checkout names, however deep they
// lie; where one is missing it is looked for when the run ends.
func (w *guarder) submodules(dir string) {
	at := path.Join(dir, ".git")
	git := at
	if o := place(at); !o.Exists {
		return
	} else if git = o.Real; !o.Dir {
		git = gitDirOf(at)
	}
	if git == "" {
		return
	}
	links, _ := gitlinks(git) // what cannot be read is said when the run ends
	for _, link := range links {
		sub := path.Join(dir, link)
		if w.subs[sub] || !policy.Under(sub, dir) {
			continue
		}
		if len(w.subs) == maxSubmodules {
			w.req.Unsearched = append(w.req.Unsearched, dir)
			return
		}
		if w.subs == nil {
			w.subs = map[string]bool{}
		}
		w.subs[sub] = true
		if has(sub, ".git") {
			w.project(sub, false)
		} else {
			w.guard(path.Join(sub, ".git"), true, policy.GuardedDirs[0].Reason)
		}
	}
}

func (w *guarder) entries(dir string, names []string, reason string, missing bool, pins ...string) {
	for _, name := range names {
		all := pins
		if sub := path.Dir(name); sub != "." && has(dir, sub) {
			all = append(slices.Clone(pins), path.Join(dir, sub))
		}
		w.guard(path.Join(dir, name), missing, reason, all...)
	}
}

// guardLink watches the name of a config directory that is a symlink: what it points to
// is guarded, and the link itself can be replaced.
func (w *guarder) guardLink(at string, o policy.Place, reason string) {
	if !o.Symlink {
		return
	}
	if name, err := survey.Stat(at); err == nil && name.Type == survey.Symlink {
		w.req.Guarded = append(w.req.Guarded, policy.Guarded{Place: o, Name: policy.Object(name.ID()), Link: true, Reason: reason})
	}
}

// gitFile guards the .git file of a worktree or submodule, and the repository it names.
func (w *guarder) gitFile(at, reason string) {
	w.guard(at, false, reason, w.between(path.Dir(at))...)
	if dir := gitDirOf(at); dir != "" && w.granted(dir) {
		w.repository(dir)
	}
}

// maxGitFile is the size, in bytes, above which a .git file is none.
const maxGitFile = 8 << 10

// gitDirOf returns the real path of the directory that a .git file names
// (gitrepository-layout(5)), or "".
func gitDirOf(at string) string {
	dir, ok := strings.CutPrefix(survey.Text(at, maxGitFile), "gitdir: ")
	if !ok {
		return ""
	}
	if !path.IsAbs(dir) {
		dir = path.Join(path.Dir(at), dir)
	}
	if p := place(dir); p.Exists && p.Dir {
		return p.Real
	}
	return ""
}

// repository guards a git directory with its submodules and worktrees.
func (w *guarder) repository(git string) {
	row := policy.GuardedDirs[0]
	pins := w.between(git)
	w.entries(git, row.Entries, row.Reason, true, pins...)
	modules := git
	if w.own != "" && git == w.root { // those of the main checkout are read-only as a whole
		modules = w.own
	}
	w.modules(path.Join(modules, "modules"), moduleLevels)
	w.worktrees(git)
	w.unstarted(git)
}

func (w *guarder) modules(dir string, levels int) {
	if levels == 0 {
		return
	}
	for _, d := range subdirs(dir) {
		// Less than a whole repository is enough here: git makes one of it.
		if has(d, "HEAD") || has(d, "config") || has(d, "hooks") {
			w.repository(d)
			continue
		}
		if len(subdirs(d)) == 0 {
			w.req.Hollow = append(w.req.Hollow, d)
		}
		w.modules(d, levels-1)
	}
}

// between returns dir and its parents below the grant.
func (w *guarder) between(dir string) []string {
	var out []string
	for ; dir != w.root && policy.Under(dir, w.root); dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// isRepository reports whether dir is a git directory by itself, as bare repositories and
// those of submodules are.
func isRepository(dir string) bool {
	return has(dir, "HEAD") && has(dir, "objects") && has(dir, "refs")
}

func has(dir, name string) bool {
	o, err := survey.Stat(path.Join(dir, name))
	return err == nil && o.Type != survey.Missing
}

func subdirs(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, err := f.ReadDir(-1) // os.ReadDir would sort the files as well
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out
}

// projectMarks are the names of which a directory has one at least if project finds
// something in it.
var projectMarks = func() []string {
	marks := []string{"HEAD"} // of a repository by itself
	for _, row := range policy.GuardedDirs {
		marks = append(marks, row.Dir)
	}
	for _, row := range policy.GuardedFiles {
		marks = append(marks, row.Name)
	}
	return marks
}()

// nested looks for projects in the directories of a grant and in theirs: the near ones first,
// then where there are few. What a run makes must not take the turn of what was there before.
func (w *guarder) nested() {
	near := projectDirs(w.root)
	if len(near) > nearDirs {
		near = near[:nearDirs]
		w.req.Unsearched = append(w.req.Unsearched, w.root)
	}
	below := make(map[string][]string, len(near))
	for _, dir := range near {
		w.look(dir)
		below[dir] = projectDirs(dir)
	}
	slices.SortStableFunc(near, func(a, b string) int { return len(below[a]) - len(below[b]) })
	for _, dir := range w.opt.Projects { // whatever stands before them by now
		if dir != w.root && policy.Under(dir, w.root) {
			w.look(dir)
		}
	}
	left := nestedDirs
	var missed []string
	for _, dir := range near {
		subs := below[dir]
		if len(subs) > left {
			subs = subs[:left]
			missed = append(missed, dir)
		}
		left -= len(subs)
		for _, sub := range subs {
			w.look(sub)
		}
	}
	if len(missed) > maxMissed {
		missed = []string{w.root + anyDir}
	}
	w.req.Unsearched = append(w.req.Unsearched, missed...)
}

// anyDir stands for each directory of one.
const anyDir = "/*"

// look guards what a directory has if it is a project's.
func (w *guarder) look(dir string) {
	if survey.HasAny(dir, projectMarks) {
		w.project(dir, false)
	}
}

// projectDirs returns the directories in one in which projects may be.
func projectDirs(dir string) []string {
	return slices.DeleteFunc(subdirs(dir), func(sub string) bool {
		name := path.Base(sub)
		return name == "node_modules" || name == ".git"
	})
}

// guardedLinks guards the other names of guarded files.
func (g *gatherer) guardedLinks() error {
	var wanted []survey.ID
	of := map[survey.ID]policy.Guarded{}
	add := func(id survey.ID, o policy.Guarded) {
		if _, ok := of[id]; !ok {
			wanted = append(wanted, id)
			of[id] = o
		}
	}
	for i, o := range g.req.Guarded {
		switch {
		case !o.Exists || o.Link:
		case o.Dir:
			found, err := survey.Linked(o.Real)
			if err != nil {
				return err
			}
			g.req.Guarded[i].Hidden = !found.Complete()
			for _, in := range found.Objects {
				if g.reaches(o, in.Path) {
					add(in.ID(), o)
				}
			}
		case o.Nlink > 1:
			add(survey.ID(o.Object), o)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	found, err := survey.Find(wanted, g.roots)
	if err != nil {
		return err
	}
	if !found.Complete() {
		for i := range g.req.Guarded {
			_, linked := of[survey.ID(g.req.Guarded[i].Object)]
			g.req.Guarded[i].Hidden = g.req.Guarded[i].Hidden || linked || g.req.Guarded[i].Dir
		}
	}
	for _, o := range found.Objects {
		first, ok := of[o.ID()]
		if !ok || slices.ContainsFunc(g.req.Guarded, func(have policy.Guarded) bool { return !have.Link && g.reaches(have, o.Path) }) {
			continue
		}
		g.req.Guarded = append(g.req.Guarded, policy.Guarded{Place: place(o.Path), Name: policy.Object(o.ID()),
			Reason: "a hard link of what is at " + first.Path + ": " + first.Reason})
	}
	return nil
}

// reaches reports whether a guard is one for what stands at a path. A symlink may make a
// directory guarded that is a grant to write, or lies above one: what that grant shows stays
// writable, and is guarded by its own names.
func (g *gatherer) reaches(o policy.Guarded, at string) bool {
	if !policy.Under(at, o.Real) {
		return false
	}
	shown := false // at, by a grant that the directory does not lie in
	for _, gr := range g.req.Grants {
		if gr.Kind != policy.KindWrite || !gr.Exists || gr.Err != "" || gr.Foul != "" || g.req.Refused(gr) != "" {
			continue
		}
		if gr.Real != o.Real && policy.Under(o.Real, gr.Real) {
			return true
		}
		shown = shown || o.Dir && policy.Under(gr.Real, o.Real) && policy.Under(at, gr.Real)
	}
	return !shown
}

// above returns the existing directories between a grant and a path in it, outermost
// first.
func (g *gatherer) above(at string) []string {
	var out []string
	for dir := path.Dir(at); g.granted(dir) && !slices.Contains(g.roots, dir); dir = path.Dir(dir) {
		if o, err := survey.Stat(dir); err == nil && o.Type == survey.Dir {
			out = append(out, dir)
		}
	}
	slices.Reverse(out)
	return out
}

// inner lists the protected places of the table that lie inside grants.
func (g *gatherer) inner() error {
	for _, row := range policy.ProtectedPaths {
		for _, at := range row.Expand(g.req.Homes) {
			if !g.granted(at) {
				continue
			}
			name, err := survey.Stat(at)
			if err != nil {
				continue
			}
			g.req.Inner = append(g.req.Inner, policy.Inner{Place: place(at), Name: policy.Object(name.ID()), Pins: g.above(at), Reason: row.Reason, Write: row.Write})
		}
	}
	if g.req.BournDir != "" {
		g.req.BournMade, g.req.BournPins = place(g.req.BournDir).Exists, g.above(g.req.BournDir)
	}
	if at := g.req.Program; at != "" && g.granted(at) {
		p := place(at)
		g.req.Inner = append(g.req.Inner, policy.Inner{Place: p, Name: p.Object, Pins: g.above(at), Reason: "it is the program that seals", Write: true})
	}
	return nil
}
