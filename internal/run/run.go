package run

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"bourn"
	"bourn/internal/egress"
	"bourn/internal/launch"
	"bourn/internal/policy"
	"bourn/internal/sandbox"
)

// Streams are the command's standard streams; nil is /dev/null. Child is one that
// launch.Spawn has started with them, or nil.
type Streams struct {
	In, Out, Err *os.File
	Child        *launch.Child
}

// An Outcome says how a run ended and what is worth saying afterwards.
type Outcome struct {
	launch.Result
	Run     string
	Sandbox policy.Sandbox
	Notes   []string // what a person should know, in order
	// Refusals are the distinct things that were refused, in the order in which they were
	// first seen. Of many those come first that lead into the host's own network.
	Refusals []Refusal
	NotKept  int // further ones, which a run made too many of
}

// runner carries one run from the prepared plan to its end.
type runner struct {
	*Prepared
	id      string
	sandbox policy.Sandbox
	unlock  func()
	record  *draft // of the run's record, until it is committed
	notices []launch.Notice
	kept    Record // what the record says
	placed  bool   // placeholders of this run may stand on the host
	noted   noted
	probe   bool
	aside   int      // how many things were moved aside
	denied  []memory // what it denies
	tell    func(Report)
	egress  *egress.Server
	access  *accesses // nil without --watch
	refused refusals

	unresolved unresolved
	pruned     chan error // what came of removing old records, once that was begun
}

// Run starts the prepared run and returns when it has ended. Told is called with the
// report when the seal holds, before the command's first instruction. With probe set
// the seal is made and nothing is executed.
//
// An error means that the command was not executed: it is launch's, or wraps a code of
// package bourn. On a host that cannot keep the seal the run goes on without one, and
// its report says ADVISORY, only if the profile asks for that.
func (p *Prepared) Run(s Streams, told func(Report), probe bool) (Outcome, error) {
	handed := false
	defer func() {
		if s.Child != nil && !handed {
			s.Child.Discard()
		}
	}()
	id, end, err := p.identity()
	if err != nil {
		return Outcome{}, err
	}
	r := &runner{Prepared: p, id: id, tell: told, probe: probe,
		sandbox: policy.Sandbox{State: policy.StateEnforcing, Backend: policy.Backend}}
	defer r.release()
	if err := r.claim(); err != nil {
		return Outcome{}, err
	}
	defer func() { _, _ = r.unplace() }() // where it comes to nothing; else below
	if err := r.placehold(); err != nil {
		return Outcome{}, err
	}
	gate := newGate(p.Plan, r.report, p.judgeName)
	actor := newActor(r)
	if !p.actorOnly {
		gate.tools = actor.tools
	}
	if p.Whole != p.Plan {
		gate.whole = p.Whole
	}
	handed = true
	result, err := launch.Run(launch.Config{
		Child: s.Child, Plan: p.Plan, Program: p.home.Program, Stdin: s.In, Stdout: s.Out, Stderr: s.Err,
		Report: r.prepare,
		Sealed: r.sealed, Gate: gate.serve, Network: r.serveNetwork, Accessed: r.accessed(), Probe: probe, Aside: p.origin != nil, Steady: p.actorOnly, End: end,
		Notice: func(n launch.Notice) {
			if len(r.notices) < maxNotices {
				r.notices = append(r.notices, n)
			}
		},
	})
	if errors.Is(err, bourn.ErrWeakHost) && p.Request.Advisory && !probe && p.home.user == nil {
		result, err = r.advisory(s, err)
	}
	actor.stop()
	if r.egress != nil {
		r.egress.Close()
	}
	r.access.close()
	out := Outcome{Result: result, Run: id, Sandbox: r.sandbox}
	left, placeErr := r.unplace()
	refusals, more := r.refused.list()
	noteErr := r.noteEnd(result, refusals, more, err)
	if err == nil {
		out.Refusals, out.NotKept = refusals, more
		out.Notes = slices.Concat(r.notes(), left, r.unresolved.notes(), r.access.notes())
		if noteErr != nil { // it has run
			out.Notes = append(out.Notes, "its end is not in the log: "+noteErr.Error())
		}
		r.recordRefusals(out.Refusals, out.NotKept)
	}
	return out, errors.Join(err, placeErr, r.finish())
}

// identity returns the id of a run, and what ends it from outside.
func (p *Prepared) identity() (id string, end <-chan struct{}, err error) {
	if p.origin != nil {
		return p.origin.run, p.origin.end, nil
	}
	if p.given != "" {
		return p.given, nil, nil
	}
	id, err = p.home.newRunID()
	return id, nil, err
}

// parent is the run that this one works for, "" for none.
func (p *Prepared) parent() string {
	if p.origin == nil {
		return ""
	}
	return p.origin.parent
}

// maxNotices bounds what a run can make its launcher keep.
const maxNotices = 1000

// newRunID returns an id that sorts by time.
func (h *Home) newRunID() (string, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return h.now().UTC().Format("20060102T150405.000") + "-" + hex.EncodeToString(b[:]), nil
}

// claim takes the agent's lock, which is held until the record is on disk: two starts
// must not both think that the mount points in the agent's home are theirs.
func (r *runner) claim() error {
	if r.Options.Agent == "" {
		return nil
	}
	unlock, err := r.home.lock(r.Options.Agent)
	if err != nil {
		return fmt.Errorf("cannot lock agent %q: %w", r.Options.Agent, err)
	}
	r.unlock = unlock
	if err := r.home.ownHome(r.Options.Agent); err != nil {
		return err
	}
	return r.home.makePlaces(r.Options.Agent, r.Whole)
}

func (r *runner) release() {
	if r.unlock != nil {
		r.unlock()
		r.unlock = nil
	}
}

func (r *runner) report() Report {
	return Report{Agent: r.Options.Agent, Run: r.id, Parent: r.parent(), Sandbox: r.sandbox, Items: r.Items,
		Generation: policy.Generation(r.sandbox, r.Items)}
}

// prepare writes the run's record beside its place, while the child builds its root, and
// returns the report that the run will find inside.
func (r *runner) prepare(pid int) ([]byte, error) {
	rec, err := newRecord(r.id, r.Options.Agent, pid)
	if err != nil {
		return nil, err
	}
	rep := r.report()
	rec.Generation, rec.ProfileDigest, rec.Sandbox, rec.Items = rep.Generation, r.Digest, rep.Sandbox, rep.Items
	rec.Boundaries, rec.Parent = r.Boundaries, r.parent()
	rec.Writes = []string{}
	for _, it := range rep.Items {
		if it.Kind == policy.KindWrite && it.Fate == policy.Enforced {
			rec.Writes = append(rec.Writes, it.Target)
		}
	}
	r.kept = rec
	if r.record, err = r.home.draft(rec); err != nil {
		return nil, err
	}
	if !r.probe {
		if err := r.noteStart(rep); err != nil {
			return nil, err
		}
	}
	r.denied = memories(r.Request, r.Whole)
	return json.MarshalIndent(rep, "", "  ")
}

// sealed puts the record in its place. What cannot be recorded does not run.
func (r *runner) sealed(int, int) error {
	if err := r.record.commit(nil); err != nil {
		return fmt.Errorf("cannot record the run: %w", err)
	}
	if err := r.keepMemory(); err != nil {
		return err
	}
	if err := r.home.keepGitLinks(r.links); err != nil { // before what it makes doubtful
		return err
	}
	if err := r.home.keepWritten(r.written, r.kept.Writes); err != nil {
		return err
	}
	if err := r.home.keepProjects(r.projects, r.Request); err != nil {
		return err
	}
	r.release()
	r.prune()
	if r.tell != nil {
		r.tell(r.report())
	}
	return nil
}

// keepMemory writes down what this seal denies.
func (r *runner) keepMemory() error {
	if len(r.Request.Denies) == 0 {
		return nil
	}
	if r.unlock == nil {
		unlock, err := r.home.lock(r.Options.Agent)
		if err != nil {
			return err
		}
		defer unlock()
		r.home.removeStale("")
	}
	return r.home.remember(r.Options.Agent, r.denied, r.Request, r.Whole)
}

// prune begins to remove the oldest records, while the command starts.
func (r *runner) prune() {
	r.pruned = make(chan error, 1)
	go func() { r.pruned <- r.home.prune(r.Options.Agent) }()
}

// finish removes the mount points that the run made in the agent's home, and waits for
// what prune began.
func (r *runner) finish() error {
	if r.record != nil {
		r.record.discard()
	}
	if r.pruned == nil { // nothing was sealed
		r.prune()
	}
	err := <-r.pruned
	if r.Options.Agent == "" {
		return err
	}
	r.release()
	return errors.Join(err, r.home.sweepAgent(r.Options.Agent))
}

// notes says what happened to denied and guarded paths during the run.
func (r *runner) notes() []string {
	var out []string
	add := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	late := func(l policy.Late, changed, made bool) {
		switch {
		case made && r.Profile != nil && r.Profile.Sandbox.Quarantine:
			add("%s", r.quarantine(l))
		case made:
			add("%s was created during the run: %s. Read it before you use it", bourn.Printable(l.Path), l.Reason)
		case changed:
			add("%s is not what it was when the run began: %s. Read it before you use it", bourn.Printable(l.Path), l.Reason)
		}
	}
	// First what a person must look at: the run decides how many of the others there are.
	for _, l := range r.Whole.Late {
		changed, made := sandbox.Changed(l)
		late(l, changed, made)
	}
	appeared, missed := r.appeared()
	for _, dir := range missed {
		add("%s holds more directories by now than are looked through: what the run made there, and runs code on the host later, is not known", bourn.Printable(dir))
	}
	for _, l := range appeared {
		late(l, false, true)
	}
	for _, n := range r.notices {
		switch {
		case n.Error != "":
			add("%s: %s", bourn.Printable(n.Path), n.Error)
		case n.Item >= 0 && n.Item < len(r.Plan.Items) && r.Plan.Items[n.Item].Fate == policy.Dropped:
			add("%s appeared during the run and was closed then", bourn.Printable(n.Path))
		case r.quiet(n.Path):
		default:
			add("%s was replaced on the host during the run and closed again", bourn.Printable(n.Path))
		}
	}
	return out
}

// appeared returns what appeared during the run in projects that were not there before.
func (r *runner) appeared() (out []policy.Late, missed []string) {
	err := r.home.asUser(func() error {
		out, missed = sandbox.Appeared(r.Request)
		return nil
	})
	if err != nil { // it could become that user when it began
		return nil, []string{r.Options.Cwd}
	}
	return out, missed
}

// advisory runs the command without a kernel sandbox, because the profile says so and
// the host cannot keep one. Nothing that the kernel would keep is shown as enforced.
func (r *runner) advisory(s Streams, cause error) (launch.Result, error) {
	if _, err := r.unplace(); err != nil { // they would keep nothing
		return launch.Result{}, err
	}
	if err := r.noteEnd(launch.Result{}, nil, 0, cause); err != nil {
		return launch.Result{}, err
	}
	r.sandbox = policy.Sandbox{State: policy.StateAdvisory}
	r.Plan.DropProxy()
	for i := range r.Items {
		it := &r.Items[i]
		if it.Kind != policy.KindEnv && it.Fate == policy.Enforced {
			it.Fate, it.By, it.Caveat = policy.Dropped, nil, ""
			it.Reason = "running without a kernel sandbox"
		}
	}
	return launch.RunUnsealed(launch.Config{Plan: r.Plan, Stdin: s.In, Stdout: s.Out, Stderr: s.Err, Sealed: func(pid, abi int) error {
		if r.record != nil {
			r.record.discard() // it says that a seal holds
		}
		if _, err := r.prepare(pid); err != nil {
			return err
		}
		return r.sealed(pid, abi)
	}}, cause)
}
