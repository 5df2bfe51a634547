package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// What a person accepted is kept in $BOURN_HOME/accepted, as JSON: for each repository its
// real path, as a Go string since it may be any bytes, what that directory was, and the
// text with its digest. The text is kept for what it denies.

const acceptedVersion = 1

// maxAccepted bounds the repositories of which a proposal is accepted: every start reads
// them all.
const maxAccepted = 1000

type acceptedFile struct {
	Version   int          `json:"version"`
	Proposals []acceptance `json:"proposals"`
}

// An acceptance is a person's yes to one text in one directory.
type acceptance struct {
	Quoted string        `json:"repository"`
	Top    policy.Object `json:"directory"`
	Digest string        `json:"digest"`
	Text   string        `json:"text"`

	root string
}

// same reports whether a directory is the one of the acceptance. The time of birth tells an
// inode from a later one; a device has another number after a restart, on some hosts.
func (a *acceptance) same(top policy.Object) bool {
	if a.Top.Born != 0 && top.Born != 0 {
		return a.Top.Ino == top.Ino && a.Top.Born == top.Born
	}
	return a.Top.Ino == top.Ino && a.Top.Dev == top.Dev
}

// proposal returns the text that was accepted, parsed.
func (a *acceptance) proposal() (*Proposal, error) {
	q := &Proposal{Root: a.root, Text: []byte(a.Text), Digest: a.Digest, State: ProposalGone, top: a.Top}
	var err error
	q.profile, err = profile.ParseProposal(q.File(), q.Text)
	return q, err
}

func acceptanceOf(all []acceptance, root string) *acceptance {
	for i := range all {
		if all[i].root == root {
			return &all[i]
		}
	}
	return nil
}

func (h *Home) acceptedPath() string { return filepath.Join(h.Dir, "accepted") }

// accepted returns what was accepted. What cannot be read is an error: nobody knows what it
// denies.
func (h *Home) accepted() ([]acceptance, error) {
	var file acceptedFile
	err := readJSON(h.acceptedPath(), &file, &file.Version, acceptedVersion)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for i := range file.Proposals {
		a := &file.Proposals[i]
		var unquoteErr error
		a.root, unquoteErr = strconv.Unquote(a.Quoted)
		err = errors.Join(err, unquoteErr)
		if digest([]byte(a.Text)) != a.Digest {
			err = errors.Join(err, fmt.Errorf("the text for %s is not the one that was accepted", a.Quoted))
		}
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot read what proposals are accepted: %w", err),
			"remove "+h.acceptedPath()+" and accept again what you still want")
	}
	return file.Proposals, nil
}

// changeAccepted replaces what is accepted by what f makes of it, under a lock.
func (h *Home) changeAccepted(f func([]acceptance) ([]acceptance, error)) error {
	unlock, err := lockFile(h.acceptedPath())
	if err != nil {
		return err
	}
	defer unlock()
	all, err := h.accepted()
	if err != nil {
		return err
	}
	if all, err = f(all); err != nil {
		return err
	}
	if err := writeJSON(h.acceptedPath(), acceptedFile{acceptedVersion, all}); err != nil {
		return fmt.Errorf("cannot keep what is accepted: %w", err)
	}
	return nil
}

// FindProposal returns the proposal for a directory, with its state. None is ErrNotFound.
func (h *Home) FindProposal(dir string) (*Proposal, error) {
	accepted, err := h.accepted()
	if err != nil {
		return nil, err
	}
	q, err := h.finder().nearest(dir, accepted)
	if err == nil && q == nil {
		err = bourn.WithHint(fmt.Errorf("%w: no proposal for %s", bourn.ErrNotFound, bourn.Printable(dir)),
			"a repository proposes in "+profile.ProposalName+", in the current directory or above it, up to the one that holds .git")
	}
	return q, err
}

// ProposalItems returns what a proposal would add to a run in its repository, with the fate
// of each on this host.
func (h *Home) ProposalItems(q *Proposal) ([]policy.Item, error) {
	p, err := h.Prepare(Options{Cwd: q.Root, proposal: q})
	if err != nil {
		return nil, err
	}
	items := []policy.Item{}
	for _, it := range p.Plan.Items {
		for _, name := range q.profile.Presets {
			if it.From == "preset:"+name {
				items = append(items, it)
			}
		}
		if it.From == fromRepository {
			items = append(items, it)
		}
	}
	return items, nil
}

// Accept keeps a person's yes to exactly the proposal that they were shown. If the file or
// its directory is another one by now the error is ErrConflict.
func (h *Home) Accept(q *Proposal) error {
	now, err := h.readProposal(q.Root)
	if err != nil {
		return err
	}
	if now == nil || now.Digest != q.Digest || now.top != q.top {
		return bourn.WithHint(fmt.Errorf("%w: %s has changed since it was shown, and is not accepted", bourn.ErrConflict, bourn.Printable(q.File())),
			"read it again: bourn accept")
	}
	return h.changeAccepted(func(all []acceptance) ([]acceptance, error) {
		all = slices.DeleteFunc(all, func(a acceptance) bool { return a.root == q.Root })
		if len(all) >= maxAccepted {
			return nil, bourn.WithHint(fmt.Errorf("%w: proposals of %d repositories are accepted already", bourn.ErrDenied, maxAccepted),
				"take one back: bourn accept --forget DIR")
		}
		if err := h.noteChange("", "proposal accepted", q.Root, q.Text); err != nil {
			return nil, err
		}
		return append(all, acceptance{Quoted: strconv.Quote(q.Root), Top: q.top, Digest: q.Digest, Text: string(q.Text)}), nil
	})
}

// Forget takes back what was accepted for the nearest repository of a directory, and returns
// that. None is ErrNotFound.
func (h *Home) Forget(dir string) (root string, err error) {
	err = h.changeAccepted(func(all []acceptance) ([]acceptance, error) {
		for _, at := range h.finder().repository(dir) {
			if acceptanceOf(all, at) != nil {
				root = at
				if err := h.noteChange("", "proposal forgotten", root, nil); err != nil {
					return nil, err
				}
				return slices.DeleteFunc(all, func(a acceptance) bool { return a.root == at }), nil
			}
		}
		return nil, bourn.WithHint(fmt.Errorf("%w: no proposal is accepted for %s", bourn.ErrNotFound, bourn.Printable(dir)), "go to the directory that it was accepted for")
	})
	return root, err
}
