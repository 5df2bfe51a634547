package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/policy"
)

// Links that were believed are kept in $BOURN_HOME/gitlinks, two Go strings a line: the
// checkout and its git directory. A run that was granted both can write both ends, and so
// the next could not tell the link from a forged one.

func (h *Home) gitLinksPath() string { return filepath.Join(h.Dir, "gitlinks") }

// doubt says why a link whose ends agree may still be forged: what ran before could write
// both ends. There is none where the link was believed before that, nor for a checkout in
// its own repository's directory that one grant held: whoever had it had both.
func (p *Prepared) doubt(l gitLink) error {
	reach := p.others()
	if p.Options.Agent != "" { // what this agent was granted in the run before
		for _, g := range p.Request.Grants {
			if g.Kind == policy.KindWrite && g.From == "profile" {
				reach = append(slices.Clone(reach), g.Path)
			}
		}
	}
	far, near := false, false
	for _, root := range reach {
		a, b := policy.Under(l.own, root), policy.Under(filepath.Join(l.top, ".git"), root)
		if a && b && l.inside() {
			return nil
		}
		far, near = far || a, near || b
	}
	if !far || !near {
		return nil
	}
	believed, err := p.believed()
	if err != nil || slices.Contains(believed, l.line()) {
		return err
	}
	return fmt.Errorf("earlier runs could write both ends of its link to %s (if that is its repository: --write %s)", l.common, shellQuote(l.common))
}

// inside reports whether the checkout lies in its git directory or beside a hidden one, as
// /p/.trees/x does for /p/.git.
func (l gitLink) inside() bool {
	if policy.Under(l.top, l.common) {
		return true
	}
	for dir := l.own; dir != "/"; dir = filepath.Dir(dir) {
		if strings.HasPrefix(filepath.Base(dir), ".") {
			return policy.Under(l.top, filepath.Dir(dir))
		}
	}
	return false
}

func (l gitLink) line() string { return strconv.Quote(l.top) + " " + strconv.Quote(l.own) }

// gitLinks returns the lines of the links that were believed.
func (h *Home) gitLinks() ([]string, error) {
	data, err := os.ReadFile(h.gitLinksPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read which repositories checkouts had: %w", err),
			"remove "+h.gitLinksPath()+": --write with its git directory grants a repository again")
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// keepGitLinks adds links that a run is about to be granted both ends of.
func (h *Home) keepGitLinks(links []gitLink) error {
	if len(links) == 0 {
		return nil
	}
	known, err := h.gitLinks()
	if err != nil || !slices.ContainsFunc(links, func(l gitLink) bool { return !slices.Contains(known, l.line()) }) {
		return err
	}
	unlock, err := lockFile(h.gitLinksPath())
	if err != nil {
		return err
	}
	defer unlock()
	if known, err = h.gitLinks(); err != nil {
		return err
	}
	var text bytes.Buffer
	for _, line := range known {
		if top, err := strconv.QuotedPrefix(line); err == nil {
			if top, err = strconv.Unquote(top); err == nil && exists(top) {
				fmt.Fprintln(&text, line)
			}
		}
	}
	for _, l := range links {
		if !slices.Contains(known, l.line()) {
			fmt.Fprintln(&text, l.line())
		}
	}
	if err := writeFile(h.gitLinksPath(), text.Bytes(), 0o600); err != nil {
		return bourn.WithHint(fmt.Errorf("%w: cannot keep which repository a checkout belongs to: %w", bourn.ErrUnavailable, err),
			"look at whether "+bourn.Printable(h.Dir)+" can be written, and has room")
	}
	return nil
}
