package run

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/worker"
)

// A run's parent starts the run's children, when the control plane says so:
//
//	run ── gate.sock ── run's parent ──(bourn.sock, upgraded)── control plane
//	                        │    └─────(bourn.sock, upgraded to bourn-worker)┘ start, end
//	                    child's launcher, in this process ── child, in a seal of its own
//
// A child is a run like others: it has a record, a gate, and an actor where it needs one. Its
// request is this run's, as that was sealed, made narrower (policy.Narrow); the facts of the
// host are asked for anew. It ends with this process, whatever happens to that.

// An origin says that a run works for another.
type origin struct {
	run    string // the id that the control plane gave
	parent string
	end    <-chan struct{}
}

// A crew is what starts children of one run, or of none: those of a member.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	all     sync.WaitGroup
}

func newCrew() *crew {
	c := &crew{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// serve does what the control plane says on conn until either goes, then calls gone. Where
// the crew has been stopped, it closes conn.
func (c *crew) serve(conn net.Conn, h worker.Handler, gone func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		conn.Close()
		return
	}
	c.all.Go(func() {
		defer gone()
		_ = worker.Serve(c.ctx, conn, h) // the control plane says in its log what was wrong
	})
}

// stop ends every child, and waits for it.
func (c *crew) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.cancel()
	c.all.Wait()
}

// children is the worker of a run: its children get a part of what it was granted.
func (p *Prepared) children() (worker.Handler, error) {
	denied, err := p.inherited()
	if err != nil {
		return worker.Handler{}, err
	}
	return worker.Handler{Denied: denied, Prepare: func(_ context.Context, id string, j worker.Job) (worker.Child, error) {
		return p.child(id, j)
	}}, nil
}

// inherited is what the run is denied, with what the host had of it.
func (p *Prepared) inherited() (worker.Inherited, error) {
	same, err := policy.Narrow(p.Request, policy.Narrowing{})
	if err != nil {
		return worker.Inherited{}, err
	}
	var out worker.Inherited
	for _, d := range same.Denies {
		if !strings.HasPrefix(d.From, policy.BlockPrefix) {
			out.Denies = append(out.Denies, worker.Deny{Pattern: d.Pattern, Glob: d.Glob})
		}
	}
	for _, h := range same.HostDenies {
		out.Hosts = append(out.Hosts, h.String())
	}
	if out.Records = string(same.Records); same.Records == policy.RecordsNone {
		out.Records = policy.NoRecords
	}
	objects, all := told(p.objects())
	out.Objects, out.Untold = objects, !all
	return out, nil
}

// does returns the command that does tasks: the profile's, without one the run's own. It is
// the same in a run that does a task itself.
func (p *Prepared) does() []string {
	switch {
	case p.template != nil:
		return slices.Clone(p.template)
	case p.Profile != nil && len(p.Profile.Command) > 0:
		return slices.Clone(p.Profile.Command)
	}
	return slices.Clone(p.Request.Command)
}

// jobWord is what a task takes the place of in a command.
const jobWord = "{job}"

// task returns the command that does a task, and whether it reads the task from its standard
// input. The task is one word of the command, and never part of a shell's text.
func (p *Prepared) task(text string) (command []string, stdin bool, err error) {
	command = p.does()
	if len(command) == 0 {
		return nil, false, bourn.WithHint(fmt.Errorf("%w: the profile names no command, so nothing can do the task", bourn.ErrInvalid), "ask a person to give the agent's profile a command")
	}
	if !slices.Contains(command, jobWord) {
		preset, ok := profile.PresetFor(filepath.Base(command[0]))
		if !ok || len(preset.Job) == 0 {
			return command, true, nil
		}
		if slices.Contains(command[1:], preset.Job[0]) {
			return nil, false, bourn.WithHint(fmt.Errorf("%w: the command has a task of its own already: %s", bourn.ErrInvalid, bourn.Printable(preset.Job[0])),
				"ask a person to write {job} in the profile's command, where the task belongs")
		}
		command = append(command, preset.Job...)
	}
	for i, word := range command {
		if i == 0 || word != jobWord {
			continue
		}
		command[i] = text
		if strings.HasPrefix(text, "-") && command[i-1] != "--" {
			command[i] = " " + text // whoever wrote the task is not to set the program's options
		}
	}
	return command, false, nil
}

// narrowing is what a job asks for, with its paths in full.
func (p *Prepared) narrowing(j worker.Job, command []string) (policy.Narrowing, error) {
	at := &Prepared{Options: Options{Cwd: j.Root.Path}, home: p.home}
	full := func(list []string) []string {
		if list == nil {
			return nil
		}
		out := []string{}
		for _, text := range list {
			out = append(out, at.absolute(text))
		}
		return out
	}
	n := policy.Narrowing{Root: j.Root.Path, Read: full(j.Work.Read), Write: full(j.Work.Write), Env: j.Work.Env, Tools: j.Work.Tools, Records: j.Work.Records,
		Limits: policy.Limits{Time: j.Work.Timeout}, Command: command}
	for _, text := range j.Work.Deny {
		if text == "" || strings.ContainsRune(text, 0) {
			return n, bourn.WithHint(fmt.Errorf("%w: a path to deny is empty, or holds a NUL", bourn.ErrInvalid), "name a path or a pattern")
		}
		n.Deny = append(n.Deny, at.denyFlag(text))
	}
	for _, d := range j.Inherit.Denies {
		n.Deny = append(n.Deny, policy.Deny{Pattern: d.Pattern, Glob: d.Glob})
	}
	if j.Work.Hosts != nil {
		n.Hosts = []policy.Host{}
	}
	for _, text := range j.Work.Hosts {
		h, err := policy.ParseHost(text)
		if err != nil {
			return n, err
		}
		n.Hosts = append(n.Hosts, h)
	}
	return n, nil
}

// inheritHosts adds the hosts that the caller is denied.
func (p *Prepared) inheritHosts(hosts []string) error {
	if len(hosts) > 0 && p.Request.Network == policy.NetworkOpen {
		return bourn.WithHint(fmt.Errorf("%w: the caller is denied hosts, and the network of %s is open: nothing would keep that", bourn.ErrDenied, of(p.Options.Agent)),
			"narrow it: name the hosts that the task needs")
	}
	for _, text := range hosts {
		h, err := policy.ParseHost(text)
		if err != nil {
			return err
		}
		p.Request.HostDenies = append(p.Request.HostDenies, policy.HostWish{Host: h, From: policy.FromSubagent})
	}
	return nil
}

func of(agent bourn.AgentName) string {
	if agent == "" {
		return "the run"
	}
	return "agent " + string(agent)
}

// startChildren has the control plane start children of the run from here on. Gone is called
// when it no longer can.
func (p *Prepared) startChildren(c *crew, id string, upgrade func(what string) (net.Conn, error), gone func()) error {
	h, err := p.children()
	if err != nil {
		return err
	}
	prepare := h.Prepare
	h.Prepare = func(ctx context.Context, run string, j worker.Job) (worker.Child, error) {
		if j.Parent != id {
			return nil, bourn.WithHint(fmt.Errorf("%w: the work is another run's", bourn.ErrInternal), "start the run again")
		}
		return prepare(ctx, run, j)
	}
	conn, err := upgrade("worker")
	if err != nil {
		return err
	}
	c.serve(conn, h, gone)
	return nil
}
