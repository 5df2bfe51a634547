package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/tool"
	"bourn/internal/worker"
	"bourn/internal/workspace"
)

// Work that an agent hands over is done by a child: a run of its own, started by the launcher
// of the agent's run, or for a member with a profile of its own by a process of that member's.
//
//	GET /v1/runs/{run}/worker   (upgraded to bourn-worker)   what starts the run's children
//
// Which runs are children, of which, and which tools they have, is known here: a child's
// launcher only says which run it is.

// Limits of what one run, with all that works for it, hands over.
const (
	maxDepth    = 3  // children of children of children
	maxChildren = 8  // at once
	maxSpawned  = 64 // in the life of the run that no other one started
	maxFamilies = 4096
)

// A childRun is what is known of a run that works for another.
type childRun struct {
	of    *gatedRun
	agent bourn.AgentName
	depth int
	tools []string // that it was left, as policy.ToolAmong reads them
	// records is what it was left of them, as policy.Narrowing has it.
	records string
}

// A family is a run that no other one started, with all that work for it.
type family struct{ live, spawned int }

// crews are what starts children, and the children that there are.
type crews struct {
	workers  map[runKey]*worker.Client
	children map[runKey]*childRun
	families map[runKey]*family
}

func newCrews() crews {
	return crews{map[runKey]*worker.Client{}, map[runKey]*childRun{}, map[runKey]*family{}}
}

// serveWorker takes over a connection to what starts a run's children.
func (s *server) serveWorker(w http.ResponseWriter, r *http.Request) {
	s.handedOver(w, r, "bourn-worker", func(key runKey, _ bourn.AgentName, _ *childRun, conn net.Conn) { s.tools.keepWorker(key, conn) })
}

// keepWorker keeps what starts a run's children until it goes.
func (g *gate) keepWorker(key runKey, conn net.Conn) {
	ctx, cancel := context.WithTimeout(g.ctx, actorWithin)
	defer cancel()
	client, err := worker.Dial(ctx, conn)
	if err != nil {
		g.control.config.Log.Warn("what starts a run's children did not come up", "run", key.run, "error", err)
		return
	}
	g.mu.Lock()
	g.crews.workers[key] = client
	g.mu.Unlock()
	<-client.Ended()
	g.mu.Lock()
	if g.crews.workers[key] == client {
		delete(g.crews.workers, key)
	}
	g.mu.Unlock()
}

// worker waits for what starts a run's children: it comes up with the run's actor.
func (g *gate) worker(ctx context.Context, key runKey) (*worker.Client, error) {
	return comesUp(ctx, g, "what starts the run's children", func() *worker.Client { return g.crews.workers[key] })
}

// child returns what is known of a run as a child of the run of, which is "" for none. One
// that says that it is another agent's or another run's is refused, and so is one that
// nobody waits for any more: it may live on for as long as it has to end, and is not to have
// more by then than it was left.
func (g *gate) child(key runKey, agent bourn.AgentName, of string) (*childRun, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.crews.children[key]
	switch {
	case c == nil && of != "":
		return nil, bourn.WithHint(fmt.Errorf("%w: nobody waits for this subagent any more", bourn.ErrDenied), "end it: what it was to do was given up")
	case c != nil && (c.agent != agent || c.of.run != of):
		return nil, fmt.Errorf("%w: the run is another agent's, or works for another run", bourn.ErrDenied)
	}
	return c, nil
}

func (r *gatedRun) key() runKey { return runKey{r.member, r.run} }

func (r *gatedRun) depth() int {
	if r.child == nil {
		return 0
	}
	return r.child.depth
}

// first is the run that began it all.
func (r *gatedRun) first() *gatedRun {
	for r.child != nil {
		r = r.child.of
	}
	return r
}

// has reports whether a tool is among those that a run was left by whoever it works for, and
// by whoever that works for.
func (r *gatedRun) has(name string) bool {
	for ; r.child != nil; r = r.child.of {
		if !policy.ToolAmong(r.child.tools, name) {
			return false
		}
	}
	return true
}

// fenced refuses a tool that a run was not left, or that an agent which it works for is
// denied: its own profile gives it no more than they have.
func (g *gate) fenced(run *gatedRun, t *tool.Tool) error {
	if !run.has(t.Name) {
		return &workspace.Problem{Code: bourn.CodeDenied, Reason: "tool_not_delegated", Text: "the tool is not among those that were left to this run", Hint: "do without it, and say so in what you answer"}
	}
	for c := run.child; c != nil; c = c.of.child {
		if c.of.agent == run.agent {
			continue
		}
		ruling, err := g.ruling(c.of.agent, t.Name, t.Tier)
		if err != nil {
			return err
		}
		if ruling.Outcome == bourn.Deny {
			return &workspace.Problem{Code: bourn.CodeDenied, Reason: "tool_policy:" + ruling.Rule, Text: fmt.Sprintf("the tool is denied to agent %s, which this run works for", c.of.agent), Hint: "do without it, and say so in what you answer"}
		}
	}
	return nil
}

// admit counts children that are to be, of which some are there at once, until release is
// called for those.
func (g *gate) admit(run *gatedRun, jobs, atOnce int) (release func(), err error) {
	refused := func(format string, args ...any) error {
		return &workspace.Problem{Code: bourn.CodeDenied, Reason: "too_many_subagents", Text: fmt.Sprintf(format, args...), Hint: "do the work in this run"}
	}
	if run.depth() >= maxDepth {
		return nil, refused("a run that is %d levels below the first one hands nothing over", maxDepth)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := run.first().key()
	f := g.crews.families[key]
	if f == nil {
		if f = (&family{}); len(g.crews.families) >= maxFamilies {
			g.crews.forget()
		}
		g.crews.families[key] = f
	}
	switch {
	case f.spawned+jobs > maxSpawned:
		return nil, refused("%d subagents were started for this run, %d more are wanted, and %d are the most", f.spawned, jobs, maxSpawned)
	case f.live+atOnce > maxChildren:
		return nil, refused("%d subagents work for this run, %d more are wanted at once, and %d are the most", f.live, atOnce, maxChildren)
	}
	f.spawned += jobs
	f.live += atOnce
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		f.live -= atOnce
	}, nil
}

// forget forgets families that nobody works for: runs of long ago, as a rule. The lock is
// held.
func (c *crews) forget() {
	for key, f := range c.families {
		if f.live == 0 {
			delete(c.families, key)
		}
	}
}

// newRunID returns an id as package run makes them: it sorts by time.
func (g *gate) newRunID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return g.control.now().UTC().Format("20060102T150405.000") + "-" + hex.EncodeToString(b[:])
}

// perform has an actor do what was reviewed, and whoever starts children what the actor only
// looks at.
func (g *gate) perform(ctx context.Context, run *gatedRun, request workspace.Request, review workspace.Review, result *workspace.Raw, progress func([]byte)) error {
	if request.Verb.OfRecords() {
		return g.performRecords(ctx, run, request, result)
	}
	if request.Verb != workspace.Delegate {
		return run.actor.Do(ctx, request, review, result, progress)
	}
	var where workspace.DelegateResult
	if err := run.actor.Do(ctx, request, review, &where, nil); err != nil {
		return err
	}
	if len(where.Roots) != len(request.Jobs) {
		return fmt.Errorf("%w: the actor answers for other jobs", bourn.ErrInternal)
	}
	results, failed := g.delegate(ctx, run, request, where.Roots, progress)
	if len(results.Jobs) == 0 {
		return failed
	}
	raw, err := results.Raw()
	if err != nil {
		return err
	}
	*result = raw
	return failed
}

// jobsReceipt is what an outcome keeps of jobs: which runs did them, and how they ended.
func jobsReceipt(what string, result json.RawMessage) json.RawMessage {
	type one struct {
		Child   string `json:"child,omitempty"`
		Status  *int   `json:"status,omitempty"` // where it is known
		Signal  string `json:"signal,omitempty"`
		TimeOut bool   `json:"timed_out,omitempty"`
		Code    string `json:"code,omitempty"`
	}
	var r workspace.JobResults
	if len(result) == 0 || json.Unmarshal(result, &r) != nil {
		return nil
	}
	all := []one{}
	for _, j := range r.Jobs {
		o := one{Child: j.Child, Signal: j.Signal, TimeOut: j.TimedOut}
		if j.Problem != nil {
			o.Code = string(j.Problem.Code)
		}
		if j.Problem == nil && j.Signal == "" || j.Status != 0 { // what was lost, or never executed, has none
			o.Status = &j.Status
		}
		all = append(all, o)
	}
	var kept any = map[string]any{"jobs": all}
	if what == "spawn_subagent" && len(all) == 1 {
		kept = all[0]
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return text
}
