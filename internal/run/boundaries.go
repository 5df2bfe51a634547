package run

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/review"
	"bourn/internal/sandbox/survey"
)

// What the control plane publishes of this host's hard blocks is read at every start, and
// kept by the seal as far as a kernel can. A host on which nobody ever saved one has no
// such file.

// maxPublished bounds the published hard blocks, in bytes; a document has at most 1 MiB.
const maxPublished = 16 << 20

// identityName is the host's public key in $BOURN_HOME.
const identityName = "identity.pub"

// A Published is what the control plane last published of the hard blocks. Its zero value
// is that of a host without any.
type Published struct {
	Version int64
	Rules   review.Boundaries
}

// Published reads the published hard blocks. What is missing and should be there, is not
// signed by this host's key, or cannot be read, is ErrDenied: nothing starts.
func (h *Home) Published() (Published, error) {
	at := filepath.Join(h.Dir, review.SnapshotName)
	_, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Lstat(filepath.Join(h.Dir, review.ConfiguredName))
		if errors.Is(err, fs.ErrNotExist) {
			return Published{Rules: review.NoRules()}, nil
		}
		if err == nil {
			err = errors.New("this host has hard blocks, and they are missing")
		}
	}
	var p Published
	if err == nil {
		p, err = h.readPublished()
	}
	if err != nil {
		why := err.Error()
		for _, code := range []error{bourn.ErrInvalid, bourn.ErrDenied, bourn.ErrNotFound} {
			why = strings.TrimPrefix(why, code.Error()+": ")
		}
		return Published{}, bourn.WithHint(fmt.Errorf("%w: cannot follow the hard blocks in %s: %s", bourn.ErrDenied, bourn.Printable(at), why), boundariesMend(err))
	}
	return p, nil
}

// boundariesMend says what to do about hard blocks that cannot be followed.
func boundariesMend(err error) string {
	switch {
	case bourn.HintOf(err) != "":
		return bourn.HintOf(err)
	case errors.Is(err, bourn.ErrInvalid):
		return "bourn boundaries show lists what is wrong, and bourn boundaries set mends it"
	}
	return "bourn serve publishes them anew"
}

func (h *Home) readPublished() (p Published, err error) {
	key, err := h.HostKey()
	if err != nil {
		return p, err
	}
	text, err := h.ownFile(review.SnapshotName, maxPublished)
	if err != nil {
		return p, err
	}
	p.Rules, p.Version, err = review.Signed(key, text)
	return p, err
}

// HostKey returns the public key by which this host's control plane is known. None is
// ErrNotFound.
func (h *Home) HostKey() (ed25519.PublicKey, error) {
	text, err := h.ownFile(identityName, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bourn.WithHint(fmt.Errorf("%w: there is no %s, the host's public key", bourn.ErrNotFound, bourn.Printable(filepath.Join(h.Dir, identityName))),
			"bourn serve writes it anew")
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || !bytes.HasPrefix(block.Bytes, publicPrefix) || len(block.Bytes) != len(publicPrefix)+ed25519.PublicKeySize {
		return nil, bourn.WithHint(fmt.Errorf("%w: %s holds no Ed25519 public key", bourn.ErrDenied, bourn.Printable(filepath.Join(h.Dir, identityName))),
			"remove it: bourn serve writes it anew, from identity.key")
	}
	return ed25519.PublicKey(block.Bytes[len(publicPrefix):]), nil
}

// ownFile reads a file in $BOURN_HOME, through no symlink. One that others than its owner,
// who is root or owns $BOURN_HOME, could have written, is an error.
func (h *Home) ownFile(name string, most int64) ([]byte, error) {
	at := filepath.Join(h.Dir, name)
	o, err := survey.Stat(at)
	if err != nil {
		return nil, err
	}
	dir, err := survey.Stat(h.Dir)
	switch {
	case err != nil:
		return nil, err
	case o.Type == survey.Missing:
		return nil, fs.ErrNotExist
	case o.Type == survey.Symlink:
		return nil, bourn.WithHint(fmt.Errorf("%s is a symlink", bourn.Printable(at)), "remove it: bourn serve writes it anew")
	case o.Uid != 0 && o.Uid != dir.Uid || o.Mode&0o022 != 0:
		return nil, bourn.WithHint(fmt.Errorf("%s must belong to whoever owns %s, and others must not be able to write it", bourn.Printable(at), bourn.Printable(h.Dir)),
			"remove it: bourn serve writes it anew")
	}
	data, _, err := survey.ReadPlain(h.Dir, most, name)
	return data, err
}

// boundaries asks for what the hard blocks close.
func (p *Prepared) boundaries() error {
	published, err := p.home.Published()
	if err != nil {
		return err
	}
	p.Boundaries = published.Version
	var denies []policy.Deny
	base := review.Base{Root: "/", Home: cmp.Or(p.home.Starter, p.home.Person)}
	for i := range published.Rules.HardBlocks {
		rule := &published.Rules.HardBlocks[i]
		for _, part := range blockParts(rule, base) {
			if part.deny {
				denies = append(denies, policy.Deny{Pattern: part.Target, From: part.From, Operations: part.Operations, Reason: part.Reason})
			} else {
				p.Request.Blocks = append(p.Request.Blocks, part.Block)
			}
		}
	}
	// First, so that they are what is named where a profile denies the same.
	p.Request.Denies = append(denies, p.Request.Denies...)
	return nil
}

// A blockPart is what a seal does about some operations of a rule.
type blockPart struct {
	policy.Block
	deny bool
}

// blockParts divides the operations of a rule by what a seal does about them.
func blockParts(rule *review.HardBlock, base review.Base) []blockPart {
	var parts []blockPart
	add := func(part blockPart, o bourn.Operation) {
		for i := range parts {
			if parts[i].deny == part.deny && parts[i].Target == part.Target && parts[i].Gate == part.Gate {
				parts[i].Operations = append(parts[i].Operations, o)
				return
			}
		}
		part.From, part.Reason, part.Operations = policy.BlockPrefix+rule.ID, rule.Reason, []bourn.Operation{o}
		parts = append(parts, part)
	}
	known, dir := false, false
	isDir := func(at string) bool { // of a rule's one path
		if !known {
			known, dir = true, isRealDir(at)
		}
		return dir
	}
	gate := func(target, why string) blockPart { return blockPart{Block: policy.Block{Target: target, Gate: why}} }
	for _, item := range rule.KernelItems(base) {
		// Below a directory that a rule is about by itself alone nothing is refused.
		alone := item.How != review.GateOnly && !item.Tree && isDir(item.Path)
		part := gate(rule.Pattern, item.Why)
		switch {
		case item.How == review.Mask && !alone:
			part = blockPart{Block: policy.Block{Target: item.Path}, deny: true}
		case item.How == review.ReadOnly && !alone, alone && item.Operation == bourn.Delete:
			part = blockPart{Block: policy.Block{Target: item.Path, Tree: item.Tree}}
		case alone:
			part = gate(item.Path, "the rule is about the directory itself, and not about what is in it")
		}
		add(part, item.Operation)
	}
	for i := range parts {
		b := &parts[i].Block
		onlyDelete := !slices.Contains(b.Operations, bourn.Write)
		b.Name = b.Gate == "" && !parts[i].deny && onlyDelete && (!b.Tree || !isDir(b.Target))
	}
	return parts
}

// isRealDir reports whether a path leads to a directory, symlinks followed.
func isRealDir(at string) bool {
	r, err := survey.Resolve(at)
	return err == nil && r.Object.Type == survey.Dir
}

// hardBlocks checks what is published of this host's hard blocks.
func (h *Home) hardBlocks() Check {
	c := Check{Name: "hard blocks"}
	p, err := h.Published()
	switch {
	case err != nil:
		return c.because(bourn.Printable(err.Error())).bad(bourn.HintOf(err))
	case p.Version == 0:
		return c.because("none were ever saved on this host").good()
	}
	return c.because(fmt.Sprintf("version %d, %s, signed by this host's key", p.Version, plural(len(p.Rules.HardBlocks), "rule"))).good()
}
