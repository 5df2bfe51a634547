package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/mcp"
	"bourn/internal/posix"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// DefaultSharedSocket is where the control plane of a shared host answers.
const DefaultSharedSocket = api.SharedSocket

// people are the persons of a shared host, as its registry has them, and the way to become
// one. The control plane of any other host has none: nil.
type people struct {
	path   string // of the registry
	helper string
	log    *slog.Logger
	runner *runner // nil where nobody can be become
	broken error   // why

	mu       sync.Mutex
	registry posix.Registry
	seen     seen
	bad      error // why the registry cannot be used
	synced   bool  // the members are as the registry has it
	end      func(changed []change)
	killing  map[string]chan struct{} // by user name: who is being ended; closed when that is over
	budgets  map[store.MemberID]*mcp.Budget
}

// seen is a registry's file as it was last read.
type seen struct {
	info  os.FileInfo
	stamp [2]int64
	at    time.Time
}

// still reports whether the file is as it was, by what os.Stat says of it now.
func (s seen) still(info os.FileInfo) bool {
	return s.info != nil && os.SameFile(info, s.info) && stampOf(info) == s.stamp && info.Size() == s.info.Size() && s.at.Sub(info.ModTime()) > settledAfter
}

// a change is what became of a person's entry.
type change struct {
	member string
	name   string // the user's
	less   bool   // something was taken away
}

// findPeople tells whether this control plane is that of a shared host: its registry is there
// and names this user as the service. One that is there and cannot be used is an error, and
// so is root as the control plane.
func findPeople(c *Config) (*people, error) {
	p := &people{path: c.Registry, helper: c.Helper, log: c.Log, killing: map[string]chan struct{}{}}
	if p.path == "" {
		p.path = posix.RegistryPath
	}
	info, err := os.Stat(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		p.registry, err = posix.LoadRegistry(p.path)
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot tell who the people of this host are: %w", err), "run: bourn people sync, or remove "+p.path+" where the host is not shared")
	}
	switch uid := uint32(os.Geteuid()); {
	case uid == 0:
		return nil, bourn.WithHint(fmt.Errorf("%w: root is not the control plane of a shared host; user %d is, says %s", bourn.ErrDenied, p.registry.Service, p.path),
			"systemctl start bourn.service starts it as the user bourn")
	case uid != p.registry.Service:
		return nil, nil
	}
	p.note(info)
	if p.helper == "" {
		if p.helper, err = helperPath(); err != nil {
			return nil, err
		}
	}
	if c.Socket == "" {
		c.Socket = DefaultSharedSocket
	}
	return p, nil
}

// begin starts what executes the helper, and gives up privileges for everything else. Where
// nobody can be become the control plane starts all the same, and says so to who asks; what
// it cannot give up is an error.
func (p *people) begin(ctx context.Context) error {
	p.broken = checkHelper(p.helper)
	if p.broken == nil {
		var err error
		if p.runner, err = startRunner(p.helper); err != nil {
			p.broken = unavailable("the control plane's log may say more", fmt.Sprintf("cannot start the process that executes the helper: %v", err))
		}
	}
	if err := giveUpPrivileges(); err != nil {
		p.close()
		return fmt.Errorf("%w: cannot set no_new_privs: %w", bourn.ErrWeakHost, err)
	}
	if p.broken == nil {
		p.broken = p.try(ctx)
	}
	if p.broken != nil {
		p.close()
		p.log.ErrorContext(ctx, "nobody can be become on this host", "error", p.broken, "hint", bourn.HintOf(p.broken))
		return nil
	}
	q := posix.Request{Verb: posix.VerbKill, Person: nobodyIs(p.registry)}
	if err := tryDirectly(ctx, p.helper, q); err != nil {
		p.close()
		return fmt.Errorf("%w: %w", bourn.ErrWeakHost, err)
	}
	return nil
}

// helperWithin is how long the helper may take for what is no actor.
const helperWithin = 10 * time.Second

// try has the helper look for a person whom nobody is: it says so if it could become one.
func (p *people) try(ctx context.Context) error {
	end, said, err := p.ask(ctx, posix.Request{Verb: posix.VerbKill, Person: nobodyIs(p.registry)})
	if err != nil {
		return err
	}
	if reason, _ := posix.ReasonOf(end.Status); end.Error == "" && reason == posix.IdentityMissing {
		return nil
	}
	if why := helperProblem(end, said); why != nil {
		return unavailable(why.Hint, "the helper refuses: "+why.Text)
	}
	return unavailable("see that helper and control plane are of one version", fmt.Sprintf("the helper ended with status %d", end.Status))
}

// ask has the helper do what is no actor, and returns how it ended.
func (p *people) ask(ctx context.Context, q posix.Request) (helperEnd, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, helperWithin)
	defer cancel()
	x, err := p.runner.execute(q)
	if err != nil {
		return helperEnd{}, nil, unavailable("start the control plane again", fmt.Sprintf("the helper cannot be executed: %v", err))
	}
	defer x.conn.Close()
	select {
	case end := <-x.done:
		return end, x.said.bytes(), nil
	case <-ctx.Done():
		return helperEnd{}, nil, unavailable("look at the host: the helper does not end", "the helper took too long")
	}
}

// close ends what executes the helper.
func (p *people) close() {
	if p != nil && p.runner != nil {
		p.runner.close()
	}
}

// problem is why nobody, or not everybody, can be become; nil for everybody can.
func (p *people) problem() error {
	if p.broken != nil {
		return p.broken
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.bad != nil:
		return p.bad
	case !p.synced:
		return unavailable("it is tried again every second", "the members are not yet as the registry of people has them")
	}
	return nil
}

// entry returns the person that a member is, with the registry that says so.
func (p *people) entry(member store.MemberID) (posix.Registry, posix.Entry, error) {
	if p.broken != nil {
		return posix.Registry{}, posix.Entry{}, p.broken
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad != nil {
		return posix.Registry{}, posix.Entry{}, p.bad
	}
	i := slices.IndexFunc(p.registry.People, func(e posix.Entry) bool { return e.Member == member.String() })
	if i < 0 {
		return posix.Registry{}, posix.Entry{}, &workspace.Problem{Code: posix.IdentityMissing.Code(), Reason: string(posix.IdentityMissing),
			Text: "the member is no person of this host", Hint: "ask an administrator, who may run: bourn people add"}
	}
	e, err := p.registry.Lookup(p.registry.People[i].Name)
	if refusal := new(posix.Refusal); errors.As(err, &refusal) {
		err = &workspace.Problem{Code: refusal.Reason.Code(), Reason: string(refusal.Reason), Text: refusal.Text, Hint: helperHints[refusal.Reason]}
	}
	return p.registry, e, err
}

// note keeps how the registry's file was.
func (p *people) note(info os.FileInfo) {
	p.seen = seen{info: info, stamp: stampOf(info), at: time.Now()}
}

// reread reads the registry where its file is another than it was, and returns the persons
// whose entries are. A registry that cannot be used lets nobody act.
func (p *people) reread() []change {
	info, err := os.Stat(p.path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.bad == nil && p.seen.still(info) {
		return nil
	}
	var next posix.Registry
	if err == nil {
		next, err = posix.LoadRegistry(p.path)
	}
	if err == nil && next.Service != p.registry.Service {
		err = fmt.Errorf("it names another service, the user %d", next.Service)
	}
	if err != nil {
		had := p.bad == nil
		p.bad = unavailable("run: bourn people sync", fmt.Sprintf("the registry of people cannot be used: %v", err))
		if !had {
			return nil
		}
		return changed(p.registry, posix.Registry{Workspace: p.registry.Workspace})
	}
	all := changed(p.registry, next)
	circles := !slices.Equal(p.registry.Circles, next.Circles)
	p.bad, p.registry = nil, next
	p.note(info)
	if len(all) > 0 || circles {
		p.synced = false
	}
	return all
}

// changed returns whose entries are not as they were; who came is among them.
func changed(before, after posix.Registry) []change {
	now := map[string]posix.Entry{}
	for _, e := range after.People {
		now[e.Name] = e
	}
	var all []change
	for _, e := range before.People {
		n, is := now[e.Name]
		delete(now, e.Name)
		same := is && n.ID == e.ID && n.Member == e.Member && n.UID == e.UID && n.GID == e.GID && n.Active == e.Active && slices.Equal(n.Groups, e.Groups) &&
			before.Workspace == after.Workspace
		if same {
			continue
		}
		lost := slices.ContainsFunc(e.Groups, func(g uint32) bool { return !slices.Contains(n.Groups, g) })
		all = append(all, change{e.Member, e.Name, !is || lost || e.Active && !n.Active || n.Member != e.Member || n.UID != e.UID})
	}
	for _, e := range after.People {
		if _, came := now[e.Name]; came {
			all = append(all, change{e.Member, e.Name, false})
		}
	}
	return all
}

// onChange has f told of changed entries.
func (p *people) onChange(f func([]change)) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = f
}

// hold keeps everybody from starting something for a person until release. Where it is held
// already, release is nil.
func (p *people) hold(name string) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killing[name] != nil {
		return nil
	}
	over := make(chan struct{})
	p.killing[name] = over
	return func() {
		p.mu.Lock()
		delete(p.killing, name)
		p.mu.Unlock()
		close(over)
	}
}

// kill ends all that a person runs.
func (p *people) kill(ctx context.Context, name string) error {
	end, said, err := p.ask(ctx, posix.Request{Verb: posix.VerbKill, Person: name})
	if err != nil || end.Status == 0 && end.Error == "" {
		return err
	}
	if why := helperProblem(end, said); why != nil {
		return why
	}
	return fmt.Errorf("%w: the helper ended with status %d", bourn.ErrInternal, end.Status)
}

// still waits until nobody is ending what a person runs.
func (p *people) still(ctx context.Context, name string) error {
	p.mu.Lock()
	over := p.killing[name]
	p.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
