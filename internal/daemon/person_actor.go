package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/mcp"
	"bourn/internal/posix"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// A personActor is an actor that is a person, started by the helper, with its client:
//
//	control plane ── spec ──▶ bourn person-actor (the person) ── seals ──▶ actor
//	      └──────────── actor's protocol, on the same socket ──────────────┘
//
// It ends with the socket: with the control plane at the latest.
type personActor struct {
	client *workspace.Client
	done   <-chan helperEnd
	said   *newest
	person posix.Entry
}

// startPerson starts an actor for a host whose member is a person.
func (g *gate) startPerson(ctx context.Context, h *host) (*personRun, error) {
	c := g.control
	registry, person, err := c.people.entry(h.key.member)
	var spec workspace.Spec
	if err == nil {
		spec, err = c.spec(registry, person, h.key)
	}
	if err != nil {
		e := audit.Entry{Kind: audit.KindRun, Who: "member:" + h.key.member.String(), For: h.key.member.String(), Agent: string(h.key.agent), What: "start an actor",
			Outcome: audit.Denied, Reason: err.Error()}
		return nil, errors.Join(err, c.log.Refused(ctx, e))
	}
	ctx, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	r := &personRun{gate: g, began: time.Now(), entry: audit.Entry{ID: audit.NewID(), Kind: audit.KindRun, Who: "person:" + person.ID, For: h.key.member.String(),
		Agent: string(h.key.agent), Run: spec.Run, What: "run started", Target: person.Name, Outcome: audit.Allowed}}
	if err := c.log.Append(ctx, r.entry); err != nil {
		return nil, err
	}
	if r.actor, err = c.people.start(ctx, person, spec); err != nil {
		r.note("run not started", audit.Failed, err.Error())
		return nil, err
	}
	r.run = &gatedRun{run: spec.Run, agent: h.key.agent, member: h.key.member, actor: r.actor.client, calls: make(chan struct{}, maxRunCalls),
		asked: c.people.asked(h.key.member, g.budget).Part(maxRunAsked), answers: mcp.NewBudget(maxRunAnswers)}
	g.mu.Lock()
	g.runs[runKey{h.key.member, spec.Run}] = r.run
	g.mu.Unlock()
	h.run, h.handler = r.run, g.client(r.run).Handler()
	return r, nil
}

// spec is what a person's actor is told.
func (c *control) spec(r posix.Registry, person posix.Entry, key hostKey) (s workspace.Spec, err error) {
	s = workspace.Spec{Version: c.config.Version, Person: person.Name, Agent: key.agent, Dir: key.dir, Run: newRunID(c.now())}
	if s.Rules, err = c.boundaries.snapshot(); err != nil {
		return s, err
	}
	if s.Key, err = os.ReadFile(filepath.Join(c.config.Home, "identity.pub")); err != nil {
		return s, fmt.Errorf("%w: cannot read the host's public key: %w", bourn.ErrInternal, err)
	}
	s.Write, s.Read = r.Shown(person)
	if key.agent == "" {
		s.Write = append([]string{r.Home(person)}, s.Write...)
		return s, nil
	}
	s.Profile, err = readProfile(filepath.Join(c.config.Home, "agents", string(key.agent), "profile.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, &workspace.Problem{Code: bourn.CodeNotFound, Reason: string(posix.NotFound), Text: fmt.Sprintf("there is no agent %s on this host", key.agent),
			Hint: "ask an administrator, who may run: bourn agent create " + string(key.agent)}
	}
	return s, err
}

func readProfile(at string) ([]byte, error) {
	f, err := os.Open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err == nil && len(text) > maxProfile {
		err = fmt.Errorf("%w: the profile has more than %d bytes", bourn.ErrInvalid, maxProfile)
	}
	return text, err
}

// newRunID is a run's id as launchers make them: it sorts by time.
func newRunID(now time.Time) string {
	var b [4]byte
	rand.Read(b[:])
	return now.UTC().Format("20060102T150405.000") + "-" + hex.EncodeToString(b[:])
}

// snapshot is the signed hard blocks as they are published; nil where the host never had any.
func (b *boundaries) snapshot() ([]byte, error) {
	b.loading.Lock()
	defer b.loading.Unlock()
	if b.highest == 0 {
		return nil, nil
	}
	if now := b.now.Load(); now.published != nil {
		return now.published, nil
	}
	return nil, fmt.Errorf("%w: the hard blocks were not read yet", bourn.ErrUnavailable)
}

// start starts an actor and waits until it is there.
func (p *people) start(ctx context.Context, person posix.Entry, spec workspace.Spec) (*personActor, error) {
	if err := p.still(ctx, person.Name); err != nil {
		return nil, err
	}
	x, err := p.runner.execute(posix.Request{Verb: posix.VerbActor, Person: person.Name, Agent: spec.Agent})
	if err != nil {
		return nil, unavailable("start the control plane again", fmt.Sprintf("the helper cannot be executed: %v", err))
	}
	stop := context.AfterFunc(ctx, func() { _ = x.conn.SetDeadline(time.Now()) }) // a spec may be longer than a socket holds
	sent := workspace.WriteSpec(x.conn, spec)
	stop()
	a := &personActor{done: x.done, said: x.said, person: person}
	if a.client, err = workspace.Dial(ctx, x.conn); err == nil {
		return a, nil
	}
	return nil, a.whyNot(p, errors.Join(sent, err))
}

// whyNot says why an actor did not come up: the helper's reason, or what the launcher said. It
// has ended then, or is ended.
func (a *personActor) whyNot(p *people, err error) error {
	end, ended := a.wait(p)
	if ended {
		if why := helperProblem(end, a.said.bytes()); why != nil {
			return why
		}
	}
	var said *workspace.Problem
	if errors.As(err, &said) && said.Hint != "" {
		return said // the launcher's own
	}
	text, hint := helperSaid(a.said.bytes())
	if said != nil && said.Reason != string(posix.RuntimeUnavailable) {
		return said
	}
	return unavailable(hint, "the actor did not come up: "+text)
}

// wait waits for the launcher, whose socket is closed. One that does not end in time is ended,
// with everything else that the person runs.
func (a *personActor) wait(p *people) (end helperEnd, ended bool) {
	late := time.NewTimer(hostGrace)
	defer late.Stop()
	select {
	case end := <-a.done:
		return end, true
	case <-late.C:
	}
	p.log.Warn("a person's actor does not end: all that they run is ended", "person", a.person.ID)
	if err := p.kill(context.Background(), a.person.Name); err != nil {
		p.log.Error("what a person runs cannot be ended", "person", a.person.ID, "error", err)
	}
	late.Reset(hostGrace)
	select {
	case end := <-a.done:
		return end, true
	case <-late.C:
		return helperEnd{}, false
	}
}

// A personRun is a run that the control plane has started for a person.
type personRun struct {
	gate  *gate
	actor *personActor
	run   *gatedRun
	entry audit.Entry // of its start
	began time.Time
}

// stop ends the run, and waits for it.
func (r *personRun) stop() {
	g := r.gate
	key := runKey{r.run.member, r.run.run}
	g.mu.Lock()
	if g.runs[key] == r.run {
		delete(g.runs, key)
	}
	g.mu.Unlock()
	_ = r.actor.client.Close() // it may have gone
	g.endSession(r.run)
	end, ended := r.actor.wait(g.control.people)
	switch {
	case !ended:
		r.note("run ended", audit.Failed, "its process does not end")
	case end.Status != 0 || end.Error != "":
		r.note("run ended", audit.Failed, fmt.Sprintf("status %d: %s", end.Status, r.actor.said.text()))
	default:
		r.note("run ended", audit.Done, "")
	}
}

// note logs what became of the run.
func (r *personRun) note(what string, outcome audit.Outcome, reason string) {
	e := audit.Entry{Kind: audit.KindOutcome, Who: r.entry.Who, For: r.entry.For, Agent: r.entry.Agent, Run: r.entry.Run, What: what, Target: r.entry.Target, Of: r.entry.ID,
		Outcome: outcome, Reason: reason, Duration: time.Since(r.began).Microseconds()}
	log := r.gate.control.config.Log
	r.gate.control.log.Later(e, func(err error) { log.Error("the end of a run is not in the log", "run", r.entry.Run, "error", err) })
}

// endChanged ends the actors of persons whose entries are not what they were: the next call
// starts anew. What was taken away ends at once, with everything that the person runs: a
// process keeps its groups for life.
func (g *gate) endChanged(all []change) {
	for _, change := range all {
		if g.ctx.Err() != nil {
			return // all end
		}
		var release func()
		if change.less { // before the first can start anew
			release = g.control.people.hold(change.name)
		}
		if id, err := memberID(change.member); err == nil && change.less {
			g.sql.endOf(id)
		}
		had := g.endHosts(change.member)
		if had {
			g.control.config.Log.Info("a person's actors end: their entry has changed", "person", change.name)
		}
		switch {
		case release == nil:
		case !had:
			release()
		default:
			g.all.Go(func() {
				defer release()
				if err := g.control.people.kill(context.Background(), change.name); err != nil && !errors.Is(err, bourn.ErrNotFound) {
					g.control.config.Log.Error("what a person runs cannot be ended", "person", change.name, "error", err)
				}
			})
		}
	}
}

// endHosts ends every host of a member's, and reports whether there were any.
func (g *gate) endHosts(member string) (had bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, h := range g.hosts {
		if key.member.String() == member {
			g.forget(h)
			h.end()
			had = true
		}
	}
	return had
}

// Limits of a shared host: what everybody has ready at once, and what one person has.
const (
	maxPeopleHosts = 1024
	maxPersonHosts = maxHosts
)

// maxPersonAsked is how many bytes of requests one person's agents may have held, however many
// they are: calls that nobody answers keep no others' out.
const maxPersonAsked = maxRunAsked

// asked is the part of a budget that a person's agents share.
func (p *people) asked(member store.MemberID, of *mcp.Budget) *mcp.Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budgets[member] == nil {
		if p.budgets == nil {
			p.budgets = map[store.MemberID]*mcp.Budget{}
		}
		p.budgets[member] = of.Part(maxPersonAsked)
	}
	return p.budgets[member]
}

// full reports whether no more hosts can be held ready for a member. The lock is held.
func (g *gate) full(member store.MemberID) bool {
	if g.control.people == nil {
		return len(g.hosts) >= maxHosts
	}
	of := 0
	for key := range g.hosts {
		if key.member == member {
			of++
		}
	}
	return len(g.hosts) >= maxPeopleHosts || of >= maxPersonHosts
}

func (n *newest) bytes() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.kept)
}
