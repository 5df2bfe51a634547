package run

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
	"bourn/internal/worker"
)

// child plans a run that does a job, under a part of what p was sealed with. Nothing is
// started.
func (p *Prepared) child(id string, j worker.Job) (*subagent, error) {
	root, err := j.Root.Open()
	if err != nil {
		return nil, err
	}
	s := &subagent{job: j, root: root, to: p.artifacts(bourn.AgentName(j.Caller))}
	command, stdin, err := p.task(j.Work.Task)
	if err == nil {
		s.stdin = stdin
		s.Prepared, err = p.narrowed(id, j, command)
	}
	if err == nil {
		err = s.plan(p)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// narrowed returns the request of a child, which the host was not asked about yet.
func (p *Prepared) narrowed(id string, j worker.Job, command []string) (*Prepared, error) {
	n, err := p.narrowing(j, command)
	if err != nil {
		return nil, err
	}
	req, err := policy.Narrow(p.Request, n)
	if err != nil {
		return nil, err
	}
	if has := j.Inherit.Records; has != "" {
		req.Records = req.Records.Less(policy.Records(has))
	}
	c := &Prepared{home: p.home, account: p.account, accountFrom: p.accountFrom, Profile: p.Profile, Digest: p.Digest, Boundaries: p.Boundaries,
		Options: Options{Agent: p.Options.Agent, Command: command, Cwd: j.Root.Path, Presets: p.Options.Presets, Proposal: p.Options.Proposal, Watch: p.Options.Watch},
		Request: req, links: p.links, believed: p.believed, origin: &origin{run: id, parent: j.Parent}, template: p.does(), known: p.objects()}
	if err := c.inherit(j.Inherit); err != nil {
		return nil, err
	}
	return c, c.inheritHosts(j.Inherit.Hosts)
}

// plan asks the host, and compiles. Programs and toolchains are those of the parent's.
func (p *Prepared) plan(parent *Prepared) (err error) {
	h := p.home
	if p.written, err = h.written(); err != nil {
		return err
	}
	if p.projects, err = h.projects(); err != nil {
		return err
	}
	written := p.written
	p.others = sync.OnceValue(h.otherWrites(p.Options.Agent, written))
	if err := p.newBoundaries(); err != nil {
		return err
	}
	p.hostFacts()
	remembered, err := h.remembered(p.Options.Agent, p.Request.Denies)
	if err != nil {
		return err
	}
	remembered = merged(remembered, p.known)
	err = p.gather(sandbox.Options{Toolchains: h.toolchains(), Programs: h.programs(parent.Request.Command, parent.Options.Cwd),
		LiveWrites: h.liveWrites, OtherWrites: p.others, Remembered: remembered, Projects: p.projects})
	if err != nil {
		return err
	}
	if err := p.markPlaceholders(); err != nil {
		return err
	}
	p.compile()
	if p.Whole.Cwd != p.Options.Cwd {
		return bourn.WithHint(fmt.Errorf("%w: nothing of %s, where it is to work, would be left to the subagent", bourn.ErrInvalid, bourn.Printable(p.Options.Cwd)), "name another root, or narrow it less")
	}
	return nil
}

// newBoundaries adds the hard blocks that have come into force since the parent was sealed,
// whose own stay.
func (p *Prepared) newBoundaries() error {
	before := p.Boundaries
	denies, blocks := p.Request.Denies, p.Request.Blocks
	if err := p.boundaries(); err != nil || p.Boundaries == before {
		p.Request.Denies, p.Request.Blocks = denies, blocks
		return err
	}
	fresh := p.Request.Denies[:len(p.Request.Denies)-len(denies)]
	p.Request.Denies = slices.Concat(slices.DeleteFunc(slices.Clone(fresh), func(d policy.Deny) bool {
		return slices.ContainsFunc(denies, func(o policy.Deny) bool {
			return o.Pattern == d.Pattern && o.From == d.From && slices.Equal(o.Operations, d.Operations)
		})
	}), denies)
	added := slices.Clone(p.Request.Blocks[len(blocks):])
	p.Request.Blocks = slices.Concat(blocks, slices.DeleteFunc(added, func(b policy.Block) bool {
		return slices.ContainsFunc(blocks, func(o policy.Block) bool {
			return o.Target == b.Target && o.From == b.From && o.Gate == b.Gate && slices.Equal(o.Operations, b.Operations)
		})
	}))
	return nil
}

// artifacts is where the caller finds what is too long to be answered, nil for nowhere.
func (p *Prepared) artifacts(caller bourn.AgentName) *artifacts {
	if caller == "" {
		return nil
	}
	h := p.home
	if caller != p.Options.Agent {
		prof, _, err := h.Profile(caller)
		if err != nil {
			return nil
		}
		h = h.of(prof)
	}
	return &artifacts{home: h, at: h.HomePath(caller)}
}

// artifacts is the directory of that name in an agent's home.
type artifacts struct {
	home *Home
	at   string // the agent's home on the host
}

// create makes a file that the agent's runs can read, and returns it with its path as they
// know it. The home is the agent's: no link in it leads out of it.
func (a *artifacts) create(name string) (f *os.File, path string, err error) {
	path = a.home.Person + "/artifacts/subagents/" + name
	root, err := os.OpenRoot(a.at) // which the user that the run becomes could not reach
	if err != nil {
		return nil, path, err
	}
	defer root.Close()
	err = a.home.asUser(func() error {
		if err := root.MkdirAll("artifacts/subagents", 0o700); err != nil {
			return err
		}
		f, err = root.OpenFile("artifacts/subagents/"+name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return f, path, err
}
