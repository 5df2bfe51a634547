package run

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
	"bourn/internal/skill"
)

// What an agent is offered is chosen by its profile's context. It selects and grants nothing:
// each part is a read item of its own, subject to every rule, and whatever else is granted
// stays as it is. Package skill says where the parts stand.

// context adds what the profile selects, after all grants: of the same path theirs decides.
// Where the run follows, skills of Bourn's own are laid down.
func (p *Prepared) context() error {
	if p.Profile == nil {
		return nil
	}
	c, h, name := p.Profile.Context, p.home, p.Options.Agent
	if c.Instructions {
		p.grant(policy.KindRead, skill.InstructionsPath(h.Dir, name), policy.FromContext, false)
	}
	for _, s := range c.Skills {
		dir, builtIn := skill.Find(h.Dir, name, s)
		if builtIn && p.Options.Starting {
			if err := skill.Lay(h.Dir, s); err != nil {
				return err
			}
		}
		p.grant(policy.KindRead, dir, policy.FromContext, false)
	}
	for _, root := range c.Roots {
		p.grant(policy.KindRead, h.expand(root.Text), policy.FromContext, false)
	}
	return nil
}

// judgeContext drops what is not what it is selected as, once the host's facts are there.
func (p *Prepared) judgeContext() {
	for i := range p.Request.Grants {
		g := &p.Request.Grants[i]
		if g.From != policy.FromContext || g.Err != "" {
			continue
		}
		part, builtIn := skill.Classify(p.home.Dir, p.Options.Agent, g.Path)
		if builtIn && !g.Exists && !p.Options.Starting { // a start lays it down
			g.Place = policy.Place{Path: g.Path, Real: g.Path, Exists: true, Dir: true}
			continue
		}
		g.Err = p.unfit(part, *g)
	}
}

// unfit returns why a part of the context cannot be offered, or "".
func (p *Prepared) unfit(part skill.Part, g policy.Grant) string {
	switch {
	case part == skill.Root && g.Exists && g.Special:
		return "it is neither a directory nor a file"
	case part == skill.Root:
		return ""
	case g.Real != g.Path:
		return "it is a symlink or lies behind one, and none is followed in an agent's context"
	case part == skill.OfSkill && !g.Exists:
		return "there is no skill of that name: not in the agent's context, and none of Bourn's own"
	case !g.Exists:
		return ""
	case part == skill.Instructions:
		if g.Dir || g.Special {
			return "it is no file"
		}
		return p.closedToUser(g.Path)
	}
	if _, err := skill.Load(p.home.Dir, p.Options.Agent, g.Path); err != nil {
		return withoutCode(err)
	}
	if why := p.closedToUser(g.Path); why != "" {
		return why
	}
	return p.closedToUser(path.Join(g.Path, skill.FileName))
}

// withoutCode is the text of an error without the code that it begins with.
func withoutCode(err error) string {
	text := err.Error()
	for _, code := range []error{bourn.ErrInvalid, bourn.ErrDenied, bourn.ErrNotFound} {
		text = strings.TrimPrefix(text, code.Error()+": ")
	}
	if errors.Is(err, fs.ErrPermission) {
		return "it may not be read"
	}
	return text
}

// closedToUser says that the user of run_as could not read a part of the context, by the mode
// that it has: what stands above it does not matter, since it is shown by itself.
func (p *Prepared) closedToUser(at string) string {
	if p.home.user == nil {
		return ""
	}
	o, err := survey.Stat(at)
	if err != nil {
		return "cannot be examined"
	}
	need := uint32(0o4)
	if o.Type == survey.Dir {
		need = 0o5
	}
	if int(o.Uid) == p.home.user.UID {
		need <<= 6
	}
	if o.Mode&need != need {
		return "the user of run_as may not read it: " + at + " is closed to others"
	}
	return ""
}

// An Offer is a part of an agent's context with what became of it.
type Offer struct {
	Part        skill.Part  `json:"kind"` // instructions, skill or root
	Name        string      `json:"name,omitempty"`
	Description string      `json:"description,omitempty"`
	Path        string      `json:"path"`
	BuiltIn     bool        `json:"built_in,omitempty"`
	Fate        policy.Fate `json:"fate"`
	Reason      string      `json:"reason,omitempty"`
}

// Offers returns what a report has of an agent's context: instructions, skills by name, roots.
func (h *Home) Offers(r Report) []Offer {
	out := []Offer{}
	for _, it := range r.Items {
		if it.From != policy.FromContext {
			continue
		}
		o := Offer{Path: it.Target, Fate: it.Fate, Reason: it.Reason}
		if o.Part, o.BuiltIn = skill.Classify(h.Dir, r.Agent, it.Target); o.Part == skill.OfSkill {
			o.Name = path.Base(it.Target)
			o.Description = h.describe(r.Agent, o)
		}
		out = append(out, o)
	}
	order := []skill.Part{skill.Instructions, skill.OfSkill, skill.Root}
	slices.SortStableFunc(out, func(a, b Offer) int {
		return cmp.Or(slices.Index(order, a.Part)-slices.Index(order, b.Part), strings.Compare(a.Name, b.Name), strings.Compare(a.Path, b.Path))
	})
	return out
}

// describe returns what a skill says of itself, "" where it cannot be read.
func (h *Home) describe(agent bourn.AgentName, o Offer) string {
	if o.BuiltIn {
		for _, s := range skill.BuiltIn() {
			if s.Name == o.Name {
				return s.Description
			}
		}
	}
	s, err := skill.Load(h.Dir, agent, o.Path)
	if err != nil {
		return ""
	}
	return s.Description
}
