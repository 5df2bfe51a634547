package daemon

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/worker"
	"bourn/internal/workspace"
)

// A member does work for others under a profile of its own, in a process of its own:
//
//	control plane ── starts ──▶ bourn worker --agent NAME ── the member's runs
//	      └──── worker protocol, on its standard streams ──┘
//
// It ends when its standard input does: with the control plane at the latest.
type member struct {
	process *hostProcess
	client  *worker.Client
}

// mayDelegate refuses work for an agent that the caller's profile does not name.
func (g *gate) mayDelegate(caller, name bourn.AgentName) error {
	refused := func(hint string) error {
		return &workspace.Problem{Code: bourn.CodeDenied, Reason: "not_delegated", Text: fmt.Sprintf("this agent may not hand work to agent %s", name), Hint: hint}
	}
	if caller == "" {
		return refused("leave agent out; a run without a profile hands work to its own kind alone")
	}
	granted, err := g.policies.delegates(caller)
	if err != nil {
		return err
	}
	if slices.Contains(granted, name) {
		return nil
	}
	var names []string
	for _, n := range append(slices.Clone(granted), name) {
		names = append(names, string(n))
	}
	return refused(fmt.Sprintf("ask a person, who may write in the profile of agent %s: delegate: [%s]", caller, strings.Join(names, ", ")))
}

// startMember starts a member's process.
func (g *gate) startMember(ctx context.Context, owner store.MemberID, name bourn.AgentName) (*member, error) {
	if err := g.ownUser(ctx, owner); err != nil {
		return nil, err
	}
	home := g.control.config.Home
	p, err := startProcess(home, home, "worker", "--agent", string(name))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actorWithin)
	defer cancel()
	client, err := worker.Dial(ctx, &pipes{Reader: p.out, Closer: p.stdin, Writer: p.stdin})
	if err != nil {
		p.stop() // so that all that it said is there
		return nil, &workspace.Problem{Code: bourn.CodeDenied, Reason: "agent_unavailable", Text: fmt.Sprintf("agent %s cannot be started: %s", name, p.said.text()), Hint: "bourn plan --agent " + string(name) + " shows what is wrong"}
	}
	return &member{p, client}, nil
}

// pipes are a process's standard streams as a connection.
type pipes struct {
	io.Reader
	io.Writer
	io.Closer
}

// close lets the process end with every run of its, and waits for it.
func (m *member) close() {
	late := time.AfterFunc(hostGrace, func() { _ = m.process.cmd.Process.Kill() })
	defer late.Stop()
	m.client.Close() // reads to the end, before Wait closes what is read from
	m.process.stop()
}

// ownUser refuses what only a process of the member's own could do, where the control plane
// is another OS user's.
func (g *gate) ownUser(ctx context.Context, id store.MemberID) error {
	if g.control.people != nil {
		return bourn.WithHint(fmt.Errorf("%w: agents of people on a shared host start no subagents", bourn.ErrDenied), "let the agent do the work itself")
	}
	own, err := g.control.isOwn(ctx, id)
	if err == nil && !own {
		err = bourn.WithHint(fmt.Errorf("%w: the agent is of another OS user than the control plane", bourn.ErrDenied), "use the tools inside a run, or bourn mcp serve --agent")
	}
	return err
}

// delegates returns the agents that an agent may hand work to.
func (p *policies) delegates(name bourn.AgentName) ([]bourn.AgentName, error) {
	has, err := p.latest(name)
	return has.delegate, err
}
