package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

// A gitLink is a checkout whose git directory lies elsewhere (gitrepository-layout(5)). Of
// a linked worktree, or a submodule:
//
//	top/.git ──"gitdir: own"──▶ own ──commondir──▶ common
//	    ▲                        │
//	    └───────"gitdir"─────────┘      own is common/worktrees/NAME
//
//	top/.git ──"gitdir: own"──▶ own     own is common
//	    ▲                        │
//	    └──config core.worktree──┘
//
// The .git file may be anybody's: a run before could have written it. It is believed only
// where the git directory names it in turn, and see [Prepared.doubt].
type gitLink struct{ top, own, common string }

func (l gitLink) worktree() bool { return l.own != l.common }

// gitLink reads the .git file of a checkout. Without one it returns the zero gitLink; an
// error says why the file leads nowhere that could be believed.
func (h *Home) gitLink(top string) (gitLink, error) {
	l, err := readGitLink(top)
	if err == nil && l != (gitLink{}) {
		uid := os.Geteuid()
		if h.user != nil {
			uid = h.user.UID
		}
		err = l.sound(uid)
	}
	return l, err
}

func readGitLink(top string) (gitLink, error) {
	at := filepath.Join(top, ".git")
	if o, err := survey.Stat(at); err != nil || o.Type != survey.File {
		return gitLink{}, nil
	}
	name, ok := strings.CutPrefix(gitFile(at), "gitdir: ")
	own := realDir(top, name)
	if !ok || own == "" {
		return gitLink{}, errors.New("its .git file names no git directory that exists")
	}
	l := gitLink{top, own, own}
	if common := gitFile(filepath.Join(own, "commondir")); common != "" {
		return l.ofWorktree(realDir(own, common))
	}
	return l, l.ofSubmodule()
}

// ofWorktree checks both ways between a linked worktree and its repository.
func (l gitLink) ofWorktree(common string) (gitLink, error) {
	l.common = common
	trees := filepath.Dir(l.own)
	back := gitFile(filepath.Join(l.own, "gitdir"))
	switch {
	case common == "" || filepath.Base(trees) != "worktrees" || filepath.Dir(trees) != common:
		return l, fmt.Errorf("%s is no worktree of a repository", l.own)
	case back == "" || filepath.Base(back) != ".git" || realDir(l.own, filepath.Dir(back)) != l.top:
		return l, fmt.Errorf("%s names another worktree, not this one", l.own)
	}
	return l, nil
}

// ofSubmodule checks that a git directory names the checkout.
func (l gitLink) ofSubmodule() error {
	back := ""
	readGitConfig(strings.NewReader(gitFile(filepath.Join(l.own, "config"))), func(section, key, value string) {
		if section == "core" && key == "worktree" {
			back = value
		}
	})
	if back == "" || realDir(l.own, back) != l.top {
		return fmt.Errorf("%s names another checkout, or none", l.own)
	}
	return nil
}

// sound checks that the repository is one, and the run's user's.
func (l gitLink) sound(uid int) error {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !exists(filepath.Join(l.common, name)) {
			return fmt.Errorf("%s is no git directory", l.common)
		}
	}
	for _, at := range []string{l.own, l.common, filepath.Join(l.top, ".git")} {
		if o, err := survey.Stat(at); err != nil || int(o.Uid) != uid {
			return fmt.Errorf("%s is somebody else's", at)
		}
	}
	return nil
}

// maxGitFile is the size, in bytes, above which a file of git's that is read here is none.
const maxGitFile = 256 << 10

func gitFile(at string) string { return survey.Text(at, maxGitFile) }

// realDir returns the real path of an existing directory that dir names, or "".
func realDir(dir, name string) string {
	if name == "" {
		return ""
	}
	if !filepath.IsAbs(name) {
		name = dir + "/" + name // with its "..": the kernel resolves them
	}
	if r, err := survey.Resolve(name); err == nil && r.Exists && r.Object.Type == survey.Dir {
		return r.Real
	}
	return ""
}

// gitTop returns the checkout in which dir lies: where git would stop looking upwards.
func gitTop(dir string) string {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".git")) {
			return dir
		}
	}
	return ""
}

// gitDirs grants the git directory of every checkout that is worked in and has it elsewhere:
// to write where the checkout is granted to write, else to read.
func (p *Prepared) gitDirs(from string) {
	tops := []string{gitTop(p.Options.Cwd)}
	for _, g := range p.Request.Grants {
		if r, err := survey.Resolve(g.Path); err == nil && r.Exists {
			tops = append(tops, r.Real)
		}
	}
	slices.Sort(tops)
	for _, top := range slices.Compact(tops) {
		kind, granted := p.grantedKind(top)
		if top == "" || !granted {
			continue
		}
		link, err := p.home.gitLink(top)
		have, shown := p.grantedKind(link.common)
		if shown && (have == policy.KindWrite || kind == policy.KindRead) {
			continue
		}
		if err == nil && link != (gitLink{}) {
			err = p.doubt(link)
		}
		switch {
		case err != nil:
			p.notes = append(p.notes, notItsRepository+bourn.Printable(top)+" is not granted: "+bourn.Printable(err.Error()))
		case link != (gitLink{}):
			p.gitDir(link, kind, from)
		}
	}
}

// notItsRepository begins the note on a checkout whose git directory is not believed.
const notItsRepository = "the repository of "

// gitDir grants the git directory of a checkout.
func (p *Prepared) gitDir(l gitLink, kind policy.Kind, from string) {
	g := policy.Grant{Kind: kind, From: from, Fresh: true, Place: policy.Place{Path: l.common}}
	what := "submodule"
	if l.worktree() {
		g.Linked, what = l.own, "linked worktree"
	}
	p.Request.Grants = append(p.Request.Grants, g)
	how := "readable with it"
	if kind == policy.KindWrite {
		p.links = append(p.links, l)
		how = "writable with it, but for hooks and config"
		if l.worktree() {
			how += " and what is other checkouts'"
		}
	}
	p.notes = append(p.notes, bourn.Printable(l.top)+" is a "+what+": its repository "+bourn.Printable(l.common)+" is "+how+" (preset git)")
}

// grantedKind returns whether the grants so far hold a path, to write or else to read.
func (p *Prepared) grantedKind(at string) (policy.Kind, bool) {
	kind, ok := policy.KindRead, false
	for _, g := range p.Request.Grants {
		if (g.Kind == policy.KindRead || g.Kind == policy.KindWrite) && p.holds(g, at) {
			ok = true
			if g.Kind == policy.KindWrite {
				kind = policy.KindWrite
			}
		}
	}
	return kind, ok
}

// quiet reports whether the host replaces what stands at a path in its ordinary work.
func (p *Prepared) quiet(at string) bool {
	return slices.ContainsFunc(p.Request.Guarded, func(g policy.Guarded) bool { return g.Quiet && g.Real == at })
}

// linkOfCwd returns the link of the checkout that the run shows and starts in, or the zero
// gitLink.
func (p *Prepared) linkOfCwd() (l gitLink) {
	err := p.asUser(func() (err error) {
		if top := gitTop(p.Options.Cwd); top != "" && p.Whole.Shows(top) {
			l, err = p.home.gitLink(top)
		}
		return err
	})
	if err != nil {
		return gitLink{}
	}
	return l
}

// gitHint says how git would work where the repository is not shown.
func (p *Prepared) gitHint() []string {
	if slices.ContainsFunc(p.notes, func(n string) bool { return strings.HasPrefix(n, notItsRepository) }) {
		return nil
	}
	l := p.linkOfCwd()
	if l == (gitLink{}) || p.Whole.Shows(l.common) {
		return nil
	}
	what, flags := "submodule", "--preset git"
	if l.worktree() {
		what = "linked worktree"
	}
	if p.Chosen != "" {
		flags += " --preset " + p.Chosen
	}
	return []string{"this is a " + what + " of " + bourn.Printable(l.common) + "; for git to work, add " + flags}
}
