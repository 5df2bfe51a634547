package run

import (
	"path/filepath"
	"slices"

	"bourn/internal/policy"
)

// A finder looks for .git in each directory once, and reads each proposal once: the
// directories above those that are granted are mostly the same.
type finder struct {
	home   *Home
	git    map[string]bool
	read   map[string]*Proposal
	others []string // directories in which there is no proposal
}

func (h *Home) finder() *finder {
	return &finder{home: h, git: map[string]bool{}, read: map[string]*Proposal{}}
}

func (f *finder) holdsGit(dir string) bool {
	holds, known := f.git[dir]
	if !known {
		holds = exists(filepath.Join(dir, ".git"))
		f.git[dir] = holds
	}
	return holds
}

// repository returns the directories in which a proposal for dir may stand: dir and those
// above it up to the nearest that holds .git, innermost first. Without one it is dir alone.
func (f *finder) repository(dir string) []string {
	all := f.enclosing(dir)
	for i, at := range all {
		if f.holdsGit(at) {
			return all[:i+1]
		}
	}
	return all
}

// enclosing returns dir and those above it up to the outermost that holds .git, innermost
// first: whoever may write in dir can make a .git there, and what the repository round it
// takes away must hold all the same.
func (f *finder) enclosing(dir string) []string {
	dirs, end := []string{dir}, 1
	for at := dir; ; at = filepath.Dir(at) {
		if at != dir {
			dirs = append(dirs, at)
		}
		if f.holdsGit(at) {
			end = len(dirs)
		}
		if at == "/" {
			return dirs[:end]
		}
	}
}

// proposal returns the proposal of a directory, as [Home.readProposal] does.
func (f *finder) proposal(root string) (*Proposal, error) {
	q, known := f.read[root]
	if known || slices.ContainsFunc(f.others, func(dir string) bool { return policy.Under(root, dir) }) {
		return q, nil
	}
	q, err := f.home.readProposal(root)
	if err == nil {
		f.read[root] = q
	}
	return q, err
}

// nearest returns the proposal for a directory, with its state, or nil.
func (f *finder) nearest(dir string, accepted []acceptance) (*Proposal, error) {
	for _, at := range f.repository(dir) {
		q, err := f.proposal(at)
		if err != nil {
			return nil, err
		}
		if q != nil {
			q.State = q.judge(accepted)
			return q, nil
		}
	}
	return nil, nil
}
