package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bourn"
	"bourn/internal/worker"
	"bourn/internal/workspace"
)

// A delegation is one call that hands jobs over. First all are planned, then they are
// started: where one cannot be, none is.
type delegation struct {
	gate     *gate
	run      *gatedRun
	own      *worker.Client // what starts the caller's children
	members  map[bourn.AgentName]*member
	children []*delegated
	tell     func([]byte)

	telling sync.Mutex
}

// delegated is one job.
type delegated struct {
	id      string
	job     workspace.Job
	root    workspace.Root
	agent   bourn.AgentName
	by      *worker.Client
	inherit worker.Inherited
	planned bool
	result  workspace.JobResult
}

// delegate hands jobs over, and returns when all have ended. No results and an error: nothing
// was started. Results and an error: the call has come to nothing, but for what is in them.
func (g *gate) delegate(ctx context.Context, run *gatedRun, request workspace.Request, roots []workspace.Root, tell func([]byte)) (workspace.JobResults, error) {
	atOnce := min(max(request.Parallel, 1), len(request.Jobs))
	release, err := g.admit(run, len(request.Jobs), atOnce)
	if err != nil {
		return workspace.JobResults{}, err
	}
	defer release()
	d := &delegation{gate: g, run: run, members: map[bourn.AgentName]*member{}, tell: tell}
	defer d.close()
	if d.own, err = g.worker(ctx, run.key()); err != nil {
		return workspace.JobResults{}, err
	}
	for i, j := range request.Jobs {
		d.children = append(d.children, &delegated{id: g.newRunID(), job: j, root: roots[i], agent: run.agent, by: d.own})
	}
	if err := d.engage(ctx); err != nil {
		return workspace.JobResults{}, err
	}
	if err := d.plan(ctx); err != nil {
		return workspace.JobResults{}, err
	}
	return d.perform(ctx, atOnce)
}

// engage finds who does each job.
func (d *delegation) engage(ctx context.Context) error {
	for i, c := range d.children {
		if c.job.Agent == "" {
			continue
		}
		name, err := bourn.ParseAgentName(c.job.Agent)
		if err == nil {
			err = d.gate.mayDelegate(d.run.agent, name)
		}
		m := d.members[name]
		if err == nil && m == nil {
			if m, err = d.gate.startMember(ctx, d.run.member, name); err == nil {
				d.members[name] = m
			}
		}
		if err != nil {
			return d.ofJob(i, err)
		}
		c.agent, c.by, c.inherit = name, m.client, d.own.Denied()
	}
	return nil
}

// ofJob says which job an error is about, where there are several.
func (d *delegation) ofJob(i int, err error) error {
	if len(d.children) == 1 {
		return err
	}
	p := *workspace.ProblemOf(err)
	p.Text = fmt.Sprintf("task %d: %s; none of the %d was started", i+1, p.Text, len(d.children))
	return &p
}

// maxPlanning is how many jobs of a call are planned at once.
const maxPlanning = 2

// plan has every job planned. The error is that of the first that cannot be.
func (d *delegation) plan(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make([]error, len(d.children))
	each(len(d.children), maxPlanning, func(i int) {
		c := d.children[i]
		d.gate.know(runKey{d.run.member, c.id}, &childRun{of: d.run, agent: c.agent, depth: d.run.depth() + 1, tools: c.job.Tools, records: c.job.Records})
		failed[i] = c.by.Prepare(ctx, c.id, worker.Job{Parent: d.run.run, Caller: string(d.run.agent), Root: c.root, Work: c.job, Inherit: c.inherit})
		c.planned = failed[i] == nil
		if failed[i] != nil {
			cancel() // the others are not needed any more
		}
	})
	for _, cancelled := range []bool{false, true} { // the one that was the reason, first
		for i, err := range failed {
			if err != nil && errors.Is(err, worker.ErrEnded) == cancelled {
				return d.ofJob(i, err)
			}
		}
	}
	return nil
}

// each calls f for every number below n, some at once, and returns when all have returned.
func each(n, atOnce int, f func(i int)) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// perform starts the jobs, so many at once, and waits for all.
func (d *delegation) perform(ctx context.Context, atOnce int) (workspace.JobResults, error) {
	each(len(d.children), atOnce, func(i int) {
		c := d.children[i]
		if ctx.Err() != nil {
			c.result = workspace.JobResult{Problem: worker.ErrEnded}
			return
		}
		c.planned = false // from here on it ends by itself
		var out, err worker.Kept
		ended, failed := c.by.Run(ctx, c.id, func() { d.told(i, nil, "run "+c.id+" has started\n") }, func(s worker.Stream, b []byte) {
			if s == worker.Stderr {
				err.Add(b)
			} else {
				out.Add(b)
			}
			d.told(i, b, "")
		})
		c.result = ended.Result(c.id, &out, &err)
		if failed != nil {
			c.result.Problem = workspace.ProblemOf(failed)
		}
	})
	var r workspace.JobResults
	for _, c := range d.children {
		r.Jobs = append(r.Jobs, c.result)
	}
	switch {
	case ctx.Err() != nil:
		return r, worker.ErrEnded
	case len(r.Jobs) == 1 && r.Jobs[0].Problem != nil:
		return r, r.Jobs[0].Problem
	}
	return r, nil
}

// told tells the client what a job says, with its number where there are several.
func (d *delegation) told(i int, output []byte, line string) {
	if d.tell == nil {
		return
	}
	d.telling.Lock()
	defer d.telling.Unlock()
	if len(d.children) > 1 {
		line = fmt.Sprintf("task %d: %s", i+1, line)
	}
	d.tell(append([]byte(line), output...))
}

// close lets go everything of the call: no child is left.
func (d *delegation) close() {
	for _, c := range d.children {
		if c.planned {
			c.by.Drop(c.id)
		}
		d.gate.know(runKey{d.run.member, c.id}, nil)
	}
	for _, m := range d.members {
		m.close()
	}
}

// know keeps what is known of a child, until that is nil.
func (g *gate) know(key runKey, c *childRun) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c == nil {
		delete(g.crews.children, key)
		return
	}
	g.crews.children[key] = c
}
