package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/mcp"
	"bourn/internal/policy"
	"bourn/internal/review"
	"bourn/internal/store"
	"bourn/internal/tool"
	"bourn/internal/tool/tier"
	"bourn/internal/workspace"
)

// The gate is where agents' tool calls come in. A run's launcher, outside the seal and the
// person's own process, hands over two kinds of connections:
//
//	GET /v1/runs/{run}/actor   (upgraded to bourn-actor)   the run's actor, to be asked
//	GET /v1/runs/{run}/mcp     (upgraded to bourn-mcp)     a client of the run's, that asks
//	GET /v1/runs/{run}/worker  (upgraded to bourn-worker)  what starts the run's children
//
// Who the agent is comes with the connection and from nothing that a client sends.
type gate struct {
	control *control
	all     sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	known   map[string]*tool.Tool
	budget  *mcp.Budget // of what all clients have asked for

	policies *policies
	ledgers  *ledgers
	failing  failures // starts of hosts
	sql      *sqlRuns

	mu    sync.Mutex
	runs  map[runKey]*gatedRun
	hosts map[hostKey]*host
	crews crews
}

type runKey struct {
	member store.MemberID
	run    string
}

// gatedRun is a run with its actor.
type gatedRun struct {
	run    string
	agent  bourn.AgentName
	member store.MemberID
	actor  *workspace.Client
	calls  chan struct{}  // one for each call at once, of all its clients
	child  *childRun      // of a run that works for another, else nil
	flag   policy.Records // of records, for this run alone

	asked, answers *mcp.Budget // what its clients may have held: a run takes no other's

	session heldSession // of the member's, for the typed tools of records

	mu       sync.Mutex
	from     *inForce // what rules was made of
	rules    *review.Compiled
	clients  int
	attached int // commands that are executed for clients of their own
}

func newGate(c *control) *gate {
	g := &gate{control: c, known: map[string]*tool.Tool{}, runs: map[runKey]*gatedRun{}, hosts: map[hostKey]*host{}, crews: newCrews(), budget: mcp.NewBudget(maxAsked), policies: newPolicies(c.config.Home, c.now), ledgers: newLedgers(), sql: newSQLRuns(c)}
	for _, t := range tool.All() {
		g.known[t.Name] = t
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	c.people.onChange(g.endChanged)
	return g
}

// close ends every connection and waits until all is still.
func (g *gate) close() {
	g.stop()
	g.sql.close()
	g.all.Wait()
}

// runID is what a run's id looks like; see package run.
var runID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,99}$`) })

// actorWithin is how long an actor may take to come up: it makes a seal.
const actorWithin = 10 * time.Second

// serveActor takes over a connection to a run's actor.
func (s *server) serveActor(w http.ResponseWriter, r *http.Request) {
	flag, err := policy.RecordsNone, error(nil)
	if word := r.URL.Query().Get("records"); word != "" {
		flag, err = policy.ParseRecords(word)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.handedOver(w, r, "bourn-actor", func(key runKey, agent bourn.AgentName, child *childRun, conn net.Conn) {
		s.tools.serve(&gatedRun{run: key.run, agent: agent, member: key.member, child: child, calls: make(chan struct{}, maxRunCalls), flag: flag}, conn)
	})
}

// handedOver takes over a connection to what a run's launcher started for it, and keeps it until
// serve returns or the gate closes.
func (s *server) handedOver(w http.ResponseWriter, r *http.Request, protocol string, serve func(runKey, bourn.AgentName, *childRun, net.Conn)) {
	member, agent, err := s.launcher(r)
	key := runKey{member, r.PathValue("run")}
	var child *childRun
	if err == nil {
		child, err = s.tools.child(key, agent, r.URL.Query().Get("of"))
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	conn, err := takeOver(w, r, protocol)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.tools.all.Go(func() {
		defer conn.Close()
		defer context.AfterFunc(s.tools.ctx, func() { conn.Close() })()
		serve(key, agent, child, conn)
	})
}

// serve keeps a run's actor until it goes.
func (g *gate) serve(run *gatedRun, conn net.Conn) {
	ctx, cancel := context.WithTimeout(g.ctx, actorWithin)
	defer cancel()
	key := runKey{run.member, run.run}
	end := io.ReadWriteCloser(conn)
	if p, ok := conn.(*peerConn); ok {
		end = p.UnixConn // the place among connections is given back by closing conn
	}
	client, err := workspace.Dial(ctx, end)
	if err != nil {
		g.control.config.Log.Warn("an actor did not come up", "run", run.run, "error", err)
		return
	}
	defer context.AfterFunc(g.ctx, func() { _ = client.Close() })()
	run.actor = client
	asked, answers := run.mayHold()
	run.asked, run.answers = g.budget.Part(asked), mcp.NewBudget(answers)
	g.mu.Lock()
	g.runs[key] = run // a newer actor of a run takes an older one's place
	g.mu.Unlock()
	<-client.Ended()
	g.mu.Lock()
	if g.runs[key] == run {
		delete(g.runs, key)
	}
	g.mu.Unlock()
	_ = client.Close() // it has gone
	g.endSession(run)
}

// find waits for the actor of a run, which is coming up.
func (g *gate) find(ctx context.Context, key runKey) (*gatedRun, error) {
	return comesUp(ctx, g, "the run's actor", func() *gatedRun { return g.runs[key] })
}

// comesUp waits for what of a run is coming up: get, which is called with the lock held,
// returns nil until it is there.
func comesUp[T any](ctx context.Context, g *gate, what string, get func() *T) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, actorWithin)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		g.mu.Lock()
		it := get()
		g.mu.Unlock()
		if it != nil {
			return it, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, bourn.WithHint(fmt.Errorf("%w: %s is not there", bourn.ErrUnavailable, what), "start the run again")
		}
	}
}

// launcher tells whose launcher asks, for which agent.
func (s *server) launcher(r *http.Request) (store.MemberID, bourn.AgentName, error) {
	p := principalOf(r.Context())
	if _, local := r.Context().Value(peerKey).(Peer); p.member == nil || !local {
		return store.MemberID{}, "", fmt.Errorf("%w: runs come in by the local socket", bourn.ErrDenied)
	}
	if !runID().MatchString(r.PathValue("run")) {
		return store.MemberID{}, "", fmt.Errorf("%w: that is no run's id", bourn.ErrInvalid)
	}
	agent := bourn.AgentName("")
	if name := r.URL.Query().Get("agent"); name != "" {
		var err error
		if agent, err = bourn.ParseAgentName(name); err != nil {
			return store.MemberID{}, "", err
		}
	}
	return p.member.ID, agent, nil
}

// takeOver answers that the connection is another protocol's from here on.
func takeOver(w http.ResponseWriter, r *http.Request, protocol string) (net.Conn, error) {
	if r.Header.Get("Upgrade") != protocol {
		return nil, fmt.Errorf("%w: this address is for the protocol %s", bourn.ErrInvalid, protocol)
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("%w: cannot take the connection over: %w", bourn.ErrInternal, err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if buffered.Reader.Buffered() == 0 {
		return conn, nil
	}
	return &takenOver{conn, buffered.Reader}, nil
}

// takenOver is a connection whose first bytes came with the request.
type takenOver struct {
	net.Conn
	r *bufio.Reader
}

func (t *takenOver) Read(p []byte) (int, error) { return t.r.Read(p) }

// judged returns the rules that hold for a run now, which its actor has been told.
func (g *gate) judged(run *gatedRun) (*review.Compiled, error) {
	now := g.control.boundaries.now.Load()
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.from == now {
		return run.rules, nil
	}
	base := review.Base{Root: run.actor.Cwd(), Home: run.actor.Home()}
	compiled, document := review.Invalid(errors.New("the hard blocks cannot be read")), []byte(nil)
	if now.state != "invalid" {
		rules := review.NoRules()
		var problems []review.Problem
		if now.state == "ok" {
			rules, problems = review.Parse(now.document.Value, base)
		}
		if len(problems) == 0 {
			c, err := review.Compile(rules, base)
			if err == nil {
				compiled, document = c, rules.Encode()
			}
		}
	}
	if err := run.actor.SetRules(document); err != nil {
		return nil, err
	}
	run.from, run.rules = now, compiled
	return compiled, nil
}

// call reviews a call, logs it, and has it performed.
func (g *gate) call(ctx context.Context, run *gatedRun, t *tool.Tool, input []byte, progress func([]byte)) mcp.Answer {
	entry := audit.Entry{ID: audit.NewID(), Kind: audit.KindAction, Who: "agent:" + string(run.agent), For: run.member.String(), Agent: string(run.agent), Run: run.run, What: t.Name}
	request, err := t.Request(input)
	if err != nil {
		return g.refused(ctx, entry, err)
	}
	allowed, noted, err := g.grant(ctx, run, t, request, &entry)
	if err != nil {
		return failed(entry, err)
	}
	began := time.Now()
	var result workspace.Raw
	err = g.perform(ctx, run, request, allowed, &result, progress)
	g.ended(entry, noted, time.Since(began), result.JSON, err)
	if err != nil {
		return failed(entry, err)
	}
	text, err := t.Text(result)
	if err != nil {
		return failed(entry, err)
	}
	return mcp.Answer{Text: text, Entry: entry.ID}
}

// grant reviews a request of a tool's and logs what comes of that. Where it is allowed the
// entry is in the log, and what was noted is to be ended; else nothing is to be done.
func (g *gate) grant(ctx context.Context, run *gatedRun, t *tool.Tool, request workspace.Request, entry *audit.Entry) (workspace.Review, *doing, error) {
	allowed, action, err := g.reviewed(run, t, request, entry)
	var noted *doing
	if err == nil {
		noted, err = g.begin(ctx, run, request, action, entry)
	}
	if err != nil {
		return workspace.Review{}, nil, g.refuse(ctx, *entry, err)
	}
	entry.Outcome = audit.Allowed
	if err := g.control.log.Append(ctx, *entry); err != nil {
		noted.never()
		return workspace.Review{}, nil, err
	}
	return allowed, noted, nil
}

// reviewed judges a request of a tool's. One that is not allowed is an error.
func (g *gate) reviewed(run *gatedRun, t *tool.Tool, request workspace.Request, entry *audit.Entry) (allowed workspace.Review, action bourn.Action, err error) {
	if action, err = request.Action(); err != nil {
		return allowed, action, err
	}
	entry.Digest, entry.Target = action.Digest(), summary(action)
	rules, err := g.judged(run)
	if err != nil {
		return allowed, action, err
	}
	if err := g.fenced(run, t); err != nil {
		return allowed, action, err
	}
	if _, err := g.closed(run, request); err != nil {
		return allowed, action, err
	}
	ruling, err := g.ruling(run.agent, t.Name, t.Tier)
	if err != nil {
		return allowed, action, err
	}
	v := review.Judge(action, rules).And(ruling.Verdict())
	entry.By, entry.Reason = decidedBy(v)
	switch v.Outcome {
	case bourn.Deny:
		text, hint := why(run.agent, t.Name, v.Reasons[0])
		return allowed, action, &workspace.Problem{Code: bourn.CodeDenied, Reason: entry.By, Text: text, Hint: hint}
	case bourn.Ask:
		text, hint := why(run.agent, t.Name, v.Reasons[0])
		entry.Outcome = audit.Asked
		return allowed, action, &workspace.Problem{Code: bourn.CodeParked, Reason: entry.By, Text: text, Hint: hint}
	case bourn.Allow:
	}
	return workspace.Review{Outcome: bourn.Allow, Action: action.Digest(), Rules: rules.Digest()}, action, nil
}

// ended logs what became of what was granted, and ends what was noted of it.
func (g *gate) ended(entry audit.Entry, noted *doing, took time.Duration, result json.RawMessage, err error) {
	shown := noted.shows(result, err)
	g.outcome(entry, took, result, shown, err)
	noted.ended(shown)
}

// outcome logs what became of an action. It was performed by then: nobody waits for its line,
// and what cannot be logged is said to operators.
func (g *gate) outcome(of audit.Entry, took time.Duration, result json.RawMessage, shown marks, err error) {
	g.logOutcome(of, took, receipt(of.What, result, shown), err)
}

// logOutcome logs what became of an action, and detail of it.
func (g *gate) logOutcome(of audit.Entry, took time.Duration, detail json.RawMessage, err error) {
	e := audit.Entry{Kind: audit.KindOutcome, Who: of.Who, For: of.For, Agent: of.Agent, Run: of.Run, What: of.What, Target: of.Target, Digest: of.Digest, Of: of.ID,
		Outcome: audit.Done, Duration: took.Microseconds(), Detail: detail}
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, loggedReason(err)
		if code := bourn.CodeOf(err); code == bourn.CodeDenied {
			e.Outcome = audit.Denied
		} else if code == bourn.CodeParked {
			e.Outcome = audit.Asked
		}
	}
	g.control.log.Later(e, func(err error) {
		g.control.config.Log.Error("the outcome of an action is not in the log", "entry", of.ID, "error", err)
	})
}

// receipt is what an outcome keeps of a result: which files changed to which digests, how a
// command ended, and what that shows; no content.
func receipt(what string, result json.RawMessage, shown marks) json.RawMessage {
	if what == "spawn_subagent" || what == "parallel_jobs" {
		return jobsReceipt(what, result)
	}
	if recordsTools[what] != nil {
		return recordsReceipt(result)
	}
	if what == tier.RecordsQuery {
		var r api.QueriedRecords
		if len(result) == 0 || json.Unmarshal(result, &r) != nil {
			return nil
		}
		return sqlReceipt(r)
	}
	var r struct {
		marks
		Path    string                  `json:"path,omitempty"`
		Before  string                  `json:"before,omitempty"`
		After   string                  `json:"after,omitempty"`
		Files   []workspace.WriteResult `json:"files,omitempty"`
		Status  *int                    `json:"status,omitempty"`
		Signal  string                  `json:"signal,omitempty"`
		Digest  string                  `json:"digest,omitempty"`
		TimeOut bool                    `json:"timed_out,omitempty"`
	}
	if what == "files_search" || len(result) == 0 || json.Unmarshal(result, &r) != nil {
		return nil
	}
	r.marks = shown // whatever the actor says of it
	kept, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	return kept
}

// refused logs a call that nothing was done for, and answers it.
func (g *gate) refused(ctx context.Context, entry audit.Entry, why error) mcp.Answer {
	return failed(entry, g.refuse(ctx, entry, why))
}

// refuse logs what nothing was done for, and returns why, or that it cannot be logged.
func (g *gate) refuse(ctx context.Context, entry audit.Entry, why error) error {
	if entry.Outcome == "" {
		entry.Outcome = audit.Denied
	}
	if entry.Reason == "" {
		entry.Reason = why.Error()
	}
	if err := g.control.log.Refused(ctx, entry); err != nil {
		return err
	}
	return why
}

func (g *gate) unsupported(ctx context.Context, run *gatedRun, name string) {
	g.refused(ctx, audit.Entry{Kind: audit.KindAction, Who: "agent:" + string(run.agent), For: run.member.String(), Agent: string(run.agent), Run: run.run,
		What: "tools/call", Target: name, By: "unsupported_tool"}, errors.New("there is no such tool"))
}

// failed is an error as a model reads it: the code, what is wrong, and what to do.
func failed(entry audit.Entry, err error) mcp.Answer {
	text := string(bourn.CodeOf(err))
	var p *workspace.Problem
	if errors.As(err, &p) && p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	if bourn.CodeOf(err) == bourn.CodeInternal && p == nil {
		text += ": something went wrong in the control plane"
	} else {
		// Without the code again, which what it wraps begins with.
		text += ": " + strings.TrimPrefix(err.Error(), bourn.CodeOf(err).Err().Error()+": ")
	}
	if hint := bourn.HintOf(err); hint != "" {
		text += "\nhint: " + hint
	}
	return mcp.Answer{Text: text, Failed: true, Entry: entry.ID}
}

// summary is what an action is about, for the log: its paths or its program, never its
// arguments, which may hold secrets.
func summary(a bourn.Action) string {
	switch {
	case a.Command != nil:
		return "a command"
	case a.Tool == tier.RecordsQuery:
		return "SQL"
	}
	s := ""
	for i, t := range a.Targets {
		if i > 0 {
			s += ", "
		}
		s += string(t.Operation) + " " + t.Path
		if len(s) > 500 {
			return s + ", …"
		}
	}
	return s
}

// decidedBy names the first reason of a verdict.
func decidedBy(v bourn.Verdict) (by, reason string) {
	if len(v.Reasons) == 0 {
		return "", ""
	}
	return v.Reasons[0].Blocker(), v.Reasons[0].Text
}
