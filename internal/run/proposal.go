package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// A repository may propose what is run in it is granted, in .bourn/profile.yaml:
//
//	never accepted ──accept──→ accepted ──one byte, or another directory──→ changed
//	       └──────── its denies inside the repository, network.deny and mode none hold ┘
//
// What it grants holds only while it is accepted. What it takes away inside the repository
// holds in every state: of the file as it is, and of the text that was accepted.

// NoProposal is what --proposal says to leave out what repositories propose.
const NoProposal = "none"

// fromRepository is the origin of items that stem from a proposal.
const fromRepository = "repository"

// A ProposalState says what became of a proposal.
type ProposalState string

const (
	ProposalNew      ProposalState = "not_accepted"
	ProposalAccepted ProposalState = "accepted"
	ProposalChanged  ProposalState = "changed" // another text than the one that was accepted
	ProposalMoved    ProposalState = "moved"   // the text is accepted, and the directory is another one
	ProposalGone     ProposalState = "gone"    // the text was accepted, and the file is not there
)

// A Proposal is what a repository proposes.
type Proposal struct {
	Root   string // the directory that holds .bourn, without symlinks
	Text   []byte
	Digest string // SHA-256 of Text, in hex
	State  ProposalState

	profile *profile.Profile
	top     policy.Object // what Root is
}

// File is where the proposal stands.
func (q *Proposal) File() string { return proposalFile(q.Root) }

func proposalFile(root string) string { return filepath.Join(root, profile.ProposalName) }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// closedTo reports whether this user cannot enter a directory, and could not by a change of
// modes of their own: nothing below it can be granted to what they start.
func closedTo(dir string) bool {
	for {
		o, err := survey.Stat(dir)
		if err == nil {
			return o.Type != survey.Missing && int(o.Uid) != os.Geteuid()
		}
		if dir == filepath.Dir(dir) {
			return false
		}
		dir = filepath.Dir(dir)
	}
}

// readProposal reads the proposal of a directory once: what is hashed is what is parsed.
// There may be none, which is nil. What cannot be read is an error, since nobody knows what
// it denies.
func (h *Home) readProposal(root string) (*Proposal, error) {
	dir := filepath.Join(root, filepath.Dir(profile.ProposalName))
	if dir == h.Dir {
		return nil, nil // $BOURN_HOME is no repository's
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && closedTo(root) {
		return nil, nil // as nearly everywhere: this is the cheapest way to know
	}
	text, top, err := survey.ReadPlain(root, profile.MaxProposal, strings.Split(profile.ProposalName, "/")...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cannotFollow(fmt.Errorf("%w: cannot read the repository's proposal %s: %w", bourn.ErrInvalid, proposalFile(root), err))
	}
	q := &Proposal{Root: root, Text: text, Digest: digest(text), State: ProposalNew, top: policy.Object(top.ID())}
	if q.profile, err = profile.ParseProposal(q.File(), text); err != nil {
		return nil, cannotFollow(err)
	}
	return q, nil
}

func cannotFollow(err error) error {
	return bourn.WithHint(err, "what it denies is not known, so nothing starts: mend or remove the file; --proposal none leaves it out")
}

// judge says what the acceptances make of a proposal as it is read.
func (q *Proposal) judge(accepted []acceptance) ProposalState {
	a := acceptanceOf(accepted, q.Root)
	switch {
	case a == nil:
		return ProposalNew
	case a.Digest != q.Digest:
		return ProposalChanged
	case !a.same(q.top):
		return ProposalMoved
	}
	return ProposalAccepted
}

// Asks says in a few words what a proposal would grant.
func (h *Home) Asks(q *Proposal) string {
	if asks := q.asks(h); asks != "" {
		return asks
	}
	return "nothing"
}

// asks says in a few words what a proposal would grant, "" for nothing.
func (q *Proposal) asks(h *Home) string {
	f, outside := q.profile.Filesystem, 0
	for _, d := range f.Deny {
		if !inside(q.Root, h.proposedDeny(q.Root, d)) {
			outside++
		}
	}
	var all []string
	count := func(n int, one, more string) {
		switch {
		case n == 1:
			all = append(all, "1 "+one)
		case n > 1:
			all = append(all, fmt.Sprintf("%d %s", n, more))
		}
	}
	count(len(f.Read), "path to read", "paths to read")
	count(len(f.Write), "path to write", "paths to write")
	count(len(q.profile.Network.Hosts), "host", "hosts")
	count(len(q.profile.Env.Pass), "variable", "variables")
	for _, name := range q.profile.Presets {
		all = append(all, "preset "+name)
	}
	count(outside, "deny outside it", "denies outside it")
	return strings.Join(all, ", ")
}

// line says in one line what became of a proposal, "" where there is nothing to say.
func (q *Proposal) line(h *Home) string {
	asks := q.asks(h)
	switch q.State {
	case ProposalGone:
		return q.File() + " was accepted and is gone: what it denied still holds (bourn accept --forget ends that)"
	case ProposalAccepted:
		if asks == "" {
			return ""
		}
		return q.File() + " is applied, as you accepted it: " + asks + " (--proposal none leaves it out)"
	case ProposalNew:
		if asks == "" {
			return ""
		}
		return q.File() + " is not accepted and grants nothing: it asks for " + asks + " (bourn accept shows it)"
	case ProposalChanged, ProposalMoved:
	}
	why := " has changed since you accepted it"
	if q.State == ProposalMoved {
		why = " was accepted in another directory of this name"
	}
	if asks == "" {
		asks = "nothing"
	}
	return q.File() + why + " and grants nothing: it asks for " + asks + " (bourn accept shows it)"
}

// proposedPath returns where a path of a proposal leads, absolute.
func (h *Home) proposedPath(root, text string) string {
	if profile.Relative(text) {
		return filepath.Join(root, text)
	}
	return h.expand(text)
}

// proposedDeny turns an entry of a proposal into a question to the host.
func (h *Home) proposedDeny(root string, d profile.Deny) policy.Deny {
	deny := h.deny(d)
	deny.From = fromRepository
	switch {
	case !profile.Relative(d.Text):
	case d.Glob: // the repository is no pattern, whatever characters it has
		deny.Pattern = filepath.Clean(profile.EscapePattern(root) + "/" + d.Text)
	default:
		deny.Pattern = filepath.Join(root, profile.Unescape(d.Text))
	}
	return deny
}

// inside reports whether a deny closes nothing but what lies in a repository. A pattern
// passes no symlink, a path may.
func inside(root string, d policy.Deny) bool {
	if d.Glob {
		return strings.HasPrefix(d.Pattern, strings.TrimSuffix(profile.EscapePattern(root), "/")+"/")
	}
	r, err := survey.Resolve(d.Pattern)
	if err != nil {
		return policy.Under(d.Pattern, root) // closed, rather than left open
	}
	return policy.Under(r.Real, root)
}
