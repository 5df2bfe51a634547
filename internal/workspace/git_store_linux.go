package workspace

import (
	"fmt"
	"path/filepath"
	"strings"

	"bourn"

	"golang.org/x/sys/unix"
)

// maxStores is how many stores of objects a repository may have.
const maxStores = 100

// judgeRepository judges where git reads what it compares the work tree with: a file .git, a
// link in it and its alternates may lead anywhere. It is held to what was judged.
func (g *git) judgeRepository() error {
	if !g.w.ruled() {
		return nil
	}
	r, err := g.run("rev-parse", "--absolute-git-dir", "--git-common-dir", "--git-path", "index", "--git-path", "objects", "--git-path", "objects/pack", "--git-path", "refs", "--git-path", "HEAD", "--git-path", "packed-refs")
	if err != nil {
		return err
	}
	if r.Status != 0 {
		return g.failed(r)
	}
	all := strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), "\n")
	if len(all) != 8 { // a name holds a line's end
		return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: "it cannot be told where the repository is"}
	}
	for i, at := range all {
		if all[i] = g.absolute(at); err == nil {
			err = g.judgeStore(all[i])
		}
	}
	if err != nil {
		return err
	}
	g.env = append(g.env, "GIT_DIR="+all[0], "GIT_COMMON_DIR="+all[1], "GIT_WORK_TREE="+g.top)
	return g.judgeAlternates(all[3])
}

func (g *git) absolute(at string) string {
	if filepath.IsAbs(at) {
		return filepath.Clean(at)
	}
	return filepath.Join(g.dir.at, at)
}

// judgeStore judges a path of the repository's, which need not be there.
func (g *git) judgeStore(at string) error {
	p, err := g.w.resolve(at, 0)
	if bourn.CodeOf(err) == bourn.CodeNotFound {
		return g.w.opened(at, at, bourn.Read)
	}
	if err != nil {
		return err
	}
	defer p.Close()
	return g.w.opened(at, p.at, bourn.Read)
}

// judgeAlternates judges the stores that a store of objects names (gitrepository-layout(5)),
// and those that they name in turn.
func (g *git) judgeAlternates(objects string) error {
	stores := []string{objects}
	for seen := map[string]bool{}; len(stores) > 0; {
		at := stores[0]
		stores = stores[1:]
		if seen[at] {
			continue
		}
		if seen[at] = true; len(seen) > maxStores {
			return &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: "the repository has too many alternates to judge them all"}
		}
		if err := g.judgeStore(at); err != nil {
			return err
		}
		more, err := g.alternates(at)
		if err != nil {
			return err
		}
		stores = append(stores, more...)
	}
	return nil
}

// alternates are the stores that a store names.
func (g *git) alternates(store string) ([]string, error) {
	list := filepath.Join(store, "info/alternates")
	for _, at := range []string{store, filepath.Dir(list), list} {
		id := identityOf(at)
		if at != store || identityOf(filepath.Dir(list)).st.Ino == 0 { // a store changes all the time
			g.judged = append(g.judged, id)
		}
	}
	w := &work{actor: g.w.actor, rules: g.w.rules, request: Request{Tool: g.w.request.Tool, Verb: Read, Path: list}}
	result, err := w.read()
	if bourn.CodeOf(err) == bourn.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	read, ok := result.(ReadResult)
	if !ok || read.Truncated {
		return nil, fmt.Errorf("%w: the list of alternates cannot be read", bourn.ErrInternal)
	}
	var all []string
	for line := range strings.SplitSeq(string(read.Content), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '"':
			return nil, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_git", Text: "the repository has an alternate whose name is quoted, which is not judged"}
		case filepath.IsAbs(line):
			all = append(all, filepath.Clean(line))
		default:
			all = append(all, filepath.Join(store, line))
		}
	}
	return all, nil
}

// An identity is what a path was at some time; the zero st for nothing.
type identity struct {
	at string
	st unix.Stat_t
}

func identityOf(at string) identity {
	id := identity{at: at}
	if err := unix.Lstat(at, &id.st); err != nil {
		id.st = unix.Stat_t{}
	}
	return id
}

// unchanged refuses what git has read of stores that were named meanwhile. A time of change
// cannot be set back.
func (g *git) unchanged() error {
	for _, was := range g.judged {
		is := identityOf(was.at)
		if is.st.Dev != was.st.Dev || is.st.Ino != was.st.Ino || is.st.Ctim != was.st.Ctim {
			return changed(was.at)
		}
	}
	return nil
}
