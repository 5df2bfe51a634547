package run

import (
	"path/filepath"
	"slices"

	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// proposals applies what repositories propose: what the nearest one grants to a run without
// an agent, if the person accepted it, and what all of them take away from what is granted.
func (p *Prepared) proposals() error {
	if p.Options.Proposal == NoProposal {
		return nil
	}
	if p.Options.proposal != nil {
		p.proposed = p.Options.proposal
		p.grantProposed(p.proposed)
		return nil
	}
	accepted, err := p.home.accepted()
	if err != nil {
		return err
	}
	f := p.home.finder()
	f.others = p.Options.others
	if p.Options.Agent == "" {
		if p.proposed, err = f.nearest(p.Options.Cwd, accepted); err != nil {
			return err
		}
		if p.proposed != nil && p.proposed.State == ProposalAccepted {
			p.grantProposed(p.proposed)
		}
		if err := p.goneProposal(f, accepted); err != nil {
			return err
		}
	}
	trees := p.trees()
	if err := p.tightenTrees(f, trees); err != nil {
		return err
	}
	return p.tightenAccepted(trees, accepted)
}

// goneProposal looks for a proposal that was accepted and is not there any more, where no
// other is.
func (p *Prepared) goneProposal(f *finder, accepted []acceptance) (err error) {
	for _, at := range f.repository(p.Options.Cwd) {
		if a := acceptanceOf(accepted, at); a != nil && p.proposed == nil {
			p.proposed, err = a.proposal()
			return err
		}
	}
	return nil
}

// grantProposed adds what an accepted proposal grants, and all that it denies.
func (p *Prepared) grantProposed(q *Proposal) {
	grant := func(kind policy.Kind, paths []profile.Path) {
		for _, entry := range paths {
			at := p.home.proposedPath(q.Root, entry.Text)
			// Whoever may change the repository decides where its symlinks lead: there a path
			// must be the real one.
			p.grant(kind, at, fromRepository, !policy.Under(at, q.Root))
		}
	}
	grant(policy.KindRead, q.profile.Filesystem.Read)
	grant(policy.KindWrite, q.profile.Filesystem.Write)
	r := p.Request
	for _, h := range q.profile.Network.Hosts {
		if !slices.ContainsFunc(r.Hosts, func(w policy.HostWish) bool { return w.Host == h.Host }) {
			r.Hosts = append(r.Hosts, policy.HostWish{Host: h.Host, From: fromRepository})
		}
		if r.Network != policy.NetworkOpen {
			r.Network = policy.NetworkRestricted
		}
	}
	for _, name := range q.profile.Env.Pass {
		if !slices.ContainsFunc(r.Env, func(v policy.EnvVar) bool { return v.Name == name && v.From != "" }) {
			p.pass(name, fromRepository)
		}
	}
	for _, d := range q.profile.Filesystem.Deny {
		p.deny(p.home.proposedDeny(q.Root, d))
	}
	p.tighten(q)
}

// proposedPresets applies the presets of an accepted proposal, unless the person says
// --preset none.
func (p *Prepared) proposedPresets() error {
	if p.proposed == nil || p.proposed.State != ProposalAccepted && p.Options.proposal == nil || slices.Contains(p.Options.Presets, NoPreset) {
		return nil
	}
	for _, name := range p.proposed.profile.Presets {
		preset, ok := profile.FindPreset(name)
		if !ok || name == p.Chosen || slices.Contains(p.Options.Presets, name) {
			continue
		}
		if err := p.preset(preset); err != nil {
			return err
		}
	}
	return nil
}

// trees returns the real paths of the current directory and of what is granted, system
// paths apart.
func (p *Prepared) trees() []string {
	out := []string{p.Options.Cwd}
	for _, g := range p.Request.Grants {
		if g.Path == p.Options.Cwd {
			continue
		}
		r, err := survey.Resolve(g.Path)
		if err != nil || !r.Exists || policy.InSystem(r.Real) {
			continue // it cannot be granted, or belongs to nobody's repository
		}
		at := r.Real
		if r.Object.Type != survey.Dir {
			at = filepath.Dir(at)
		}
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// tightenTrees applies what the proposals take away that stand in or above trees.
func (p *Prepared) tightenTrees(f *finder, trees []string) error {
	seen := map[string]bool{}
	for _, tree := range trees {
		for _, at := range f.enclosing(tree) {
			if seen[at] {
				continue
			}
			seen[at] = true
			q, err := f.proposal(at)
			if err != nil {
				return err
			}
			if q != nil {
				p.tighten(q)
			}
		}
	}
	return nil
}

// tightenAccepted applies what was accepted and takes away from trees, whatever stands there
// now.
func (p *Prepared) tightenAccepted(trees []string, accepted []acceptance) error {
	for i := range accepted {
		a := &accepted[i]
		if !slices.ContainsFunc(trees, func(t string) bool { return policy.Under(t, a.root) || policy.Under(a.root, t) }) {
			continue
		}
		q, err := a.proposal()
		if err != nil {
			return cannotFollow(err)
		}
		p.tighten(q)
	}
	return nil
}

// tighten applies what a proposal takes away, accepted or not: denies inside the repository,
// denied hosts, and network.mode none.
func (p *Prepared) tighten(q *Proposal) {
	for _, d := range q.profile.Filesystem.Deny {
		deny := p.home.proposedDeny(q.Root, d)
		if deny.Placeholder = false; inside(q.Root, deny) { // what is not accepted makes nothing
			p.deny(deny)
		}
	}
	r := p.Request
	for _, h := range q.profile.Network.Deny {
		if !slices.ContainsFunc(r.HostDenies, func(w policy.HostWish) bool { return w.Host == h.Host }) {
			r.HostDenies = append(r.HostDenies, policy.HostWish{Host: h.Host, From: fromRepository})
		}
	}
	if n := q.profile.Network; n.ModeNamed() && n.Mode == profile.NetworkNone && p.closedBy == "" {
		p.closedBy = q.File()
	}
}

// narrow closes the network where a proposal says so, whatever is granted.
func (p *Prepared) narrow() {
	if r := p.Request; p.closedBy != "" && r.Network != policy.NetworkNone && r.Network != "" {
		r.Network = policy.NetworkNone
		p.notes = append(p.notes, "network.mode none of "+p.closedBy+" holds: no host is reachable (--proposal none leaves it out)")
	}
}

// ProposalLine says in one line what became of what the repository proposes, "" where there
// is nothing to say.
func (p *Prepared) ProposalLine() string {
	if p.proposed == nil {
		return ""
	}
	return p.proposed.line(p.home)
}

// SaveProposal adds what an accepted proposal grants and denies to an agent that is made of
// this run.
func (p *Prepared) SaveProposal(n *NewAgent) {
	if p.proposed == nil || p.proposed.State != ProposalAccepted {
		return
	}
	lists := map[policy.Kind]*[]string{policy.KindRead: &n.Read, policy.KindWrite: &n.Write, policy.KindHost: &n.Hosts, policy.KindEnv: &n.Env}
	for _, it := range p.Plan.Items {
		if list := lists[it.Kind]; list != nil && it.From == fromRepository && it.Fate == policy.Enforced {
			*list = append(*list, it.Target)
		}
	}
	for _, d := range p.Request.Denies {
		switch {
		case d.Placeholder: // perhaps of a flag's deny, to which the proposal gave it
			n.Placeholders = append(n.Placeholders, profile.EscapePattern(d.Pattern))
		case d.From != fromRepository:
		case d.Glob:
			n.Deny = append(n.Deny, d.Pattern)
		default:
			n.Deny = append(n.Deny, profile.EscapePattern(d.Pattern))
		}
	}
	for _, name := range p.proposed.profile.Presets {
		if !slices.Contains(n.Presets, name) && !slices.Contains(p.Options.Presets, NoPreset) {
			n.Presets = append(n.Presets, name)
		}
	}
}
