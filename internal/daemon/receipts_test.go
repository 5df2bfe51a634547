package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/review"
	"bourn/internal/store"
	"bourn/internal/workspace"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// action is the entry of a call that is let through.
func action(run, tool, member string) audit.Entry {
	return audit.Entry{ID: audit.NewID(), Kind: audit.KindAction, Who: "agent:mur", For: member, Agent: "mur", Run: run, What: tool, Target: "write x", Digest: "d", Outcome: audit.Allowed}
}

func outcomeFor(of audit.Entry, outcome audit.Outcome, detail string) audit.Entry {
	e := audit.Entry{Kind: audit.KindOutcome, Who: of.Who, For: of.For, Agent: of.Agent, Run: of.Run, What: of.What, Of: of.ID, Outcome: outcome, Duration: 7}
	if detail != "" {
		e.Detail = json.RawMessage(detail)
	}
	return e
}

// TestReceipts reads receipts of what the log has.
func TestReceipts(t *testing.T) {
	p := begin(t)
	write := func(all ...audit.Entry) {
		t.Helper()
		for _, e := range all {
			if err := p.log.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	wrote, ran, reading, lost, patched := action("r", "files_write", "a"), action("r", "shell_exec", "a"), action("r", "files_read", "a"), action("r", "files_move", "a"), action("r", "files_patch", "a")
	spawned, jobs := action("r", "spawn_subagent", "a"), action("r", "parallel_jobs", "a")
	refused := action("r", "files_write", "a")
	refused.Outcome = audit.Denied
	parked := action("r", "files_write", "a")
	parked.Outcome = audit.Asked
	foreign := outcomeFor(lost, audit.Done, "")
	foreign.For = "b" // another member's says nothing of this one's
	write(wrote, refused, parked, ran, action("other", "files_write", "a"), outcomeFor(ran, audit.Done, `{"status":0,"verification":true,"evidence":"call"}`),
		outcomeFor(wrote, audit.Done, `{"path":"/w/x","before":"1","after":"2"}`), reading, outcomeFor(reading, audit.Failed, `{"path":"/w/x"}`), lost, foreign,
		patched, outcomeFor(patched, audit.Done, `{"files":[{"path":"/w/a","after":"3"},{"path":"/w/b","before":"4"}]}`),
		spawned, outcomeFor(spawned, audit.Asked, `{"child":"c1","status":0}`), jobs, outcomeFor(jobs, audit.Done, `{"jobs":[{"child":"c2","status":0},{"code":"denied","status":0},{"child":"c3","status":1}]}`))
	c := api.NewSocketClient(filepath.Join(p.config.Home, SocketName))
	defer c.Close()
	ask := func(query url.Values) []api.Receipt {
		t.Helper()
		got, err := c.Receipts(t.Context(), "r", query)
		if err != nil || got.Run != "r" {
			t.Fatalf("%+v: %v", got, err)
		}
		return got.Receipts
	}
	zero := 0
	is := func(e audit.Entry, r api.Receipt) api.Receipt {
		r.ID, r.Run, r.Agent, r.For, r.Tool, r.Target, r.Digest, r.Verdict = e.ID, "r", "mur", "a", e.What, "write x", "d", "allowed"
		if r.State != "unknown" {
			r.Duration = 7
		}
		return r
	}
	want := []api.Receipt{
		is(wrote, api.Receipt{State: "done", Files: []api.ChangedFile{{Path: "/w/x", Before: "1", After: "2"}}}),
		is(ran, api.Receipt{State: "done", Status: &zero, Verification: true}),
		is(reading, api.Receipt{State: "failed"}),
		is(lost, api.Receipt{State: "unknown"}),
		is(patched, api.Receipt{State: "done", Files: []api.ChangedFile{{Path: "/w/a", After: "3"}, {Path: "/w/b", Before: "4"}}}),
		is(spawned, api.Receipt{State: "asked", Status: &zero, Children: []string{"c1"}}),
		is(jobs, api.Receipt{State: "done", Children: []string{"c2", "c3"}}),
	}
	all := ask(nil)
	if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(api.Receipt{}, "Seq", "At", "Outcome")); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	for i, r := range all {
		if r.At.IsZero() || (r.Outcome == "") != (r.State == "unknown") || i > 0 && r.Seq <= all[i-1].Seq {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff(all[:2], ask(url.Values{"most": {"2"}})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all[2:4], ask(url.Values{"most": {"2"}, "after": {fmt.Sprint(all[1].Seq)}})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all[5:], ask(url.Values{"most": {"2"}, "newest": {"true"}})); diff != "" {
		t.Error(diff)
	}
	if got, err := c.Receipts(t.Context(), "none", nil); err != nil || got.Receipts == nil || len(got.Receipts) != 0 {
		t.Errorf("%+v: %v", got, err)
	}
	k, err := c.Capabilities(t.Context(), "r", "commit", "")
	if err != nil || k.Agent != "mur" || k.Mutate || k.Commit || len(k.Reasons) != 1 || k.Reasons[0].Code != "profile_unreadable" || k.Reasons[0].Hint == "" {
		t.Errorf("%+v: %v", k, err)
	}
	for path, status := range map[string]int{"/v1/runs/x%20y/receipts": 422, "/v1/runs/x%20y/capabilities": 422, "/v1/runs/none/capabilities": 404, "/v1/runs/r/capabilities?action=push": 422, "/v1/runs/r/receipts?most=0": 422} {
		if got := p.ask("GET", path, ""); got.status != status {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	noAdministrator(t, p)
	for _, path := range []string{"/v1/runs/r/receipts", "/v1/runs/r/capabilities"} {
		if got := p.ask("GET", path, ""); got.status != 403 || got.problem(t).Hint == "" || strings.Contains(got.body, "files_write") {
			t.Errorf("who is no administrator: %d %s", got.status, got.body)
		}
	}
}

// noAdministrator makes the member who asks one who may not read the log.
func noAdministrator(t *testing.T, p *plane) {
	t.Helper()
	all, err := p.store.Roster(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	all[0].Administrator = false
	if err := p.store.PutMember(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	until(t, 5*time.Second, "it is known", func() bool { return p.ask("GET", "/v1/log", "").status == 403 })
}

// gated is a run of the agent mur, whose commits need a verification, on a gate of its own.
func gated(t testing.TB, p *plane, commit string) (*gate, *gatedRun) {
	t.Helper()
	at := filepath.Join(p.config.Home, "agents/mur/profile.yaml")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("version: 1\nagent: mur\ncommit: "+commit+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return newGate(p.control), &gatedRun{run: "r", agent: "mur", actor: new(workspace.Client)}
}

// starts has a gate begin a call, up to its entry.
func starts(t testing.TB, g *gate, run *gatedRun, r workspace.Request) (*doing, audit.Entry, error) {
	t.Helper()
	a, err := r.Action()
	if err != nil {
		t.Fatal(err)
	}
	e := action(run.run, r.Tool, run.member.String())
	d, err := g.begin(t.Context(), run, r, a, &e)
	if err == nil {
		err = g.control.log.Append(t.Context(), e)
	}
	return d, e, err
}

func ends(g *gate, d *doing, e audit.Entry, result string) {
	shown := d.shows(json.RawMessage(result), nil)
	g.outcome(e, time.Millisecond, json.RawMessage(result), shown, nil)
	d.ended(shown)
}

var (
	aWrite  = workspace.Request{Tool: "files_write", Verb: workspace.Write, Path: "x"}
	aVerify = workspace.Request{Tool: "shell_exec", Verb: workspace.Exec, Command: "make check"}
	aCommit = workspace.Request{Tool: "shell_exec", Verb: workspace.Exec, Command: "git commit -m x"}
)

// TestCommitByWhatIsTrue: what the log does not have yet counts, on both sides.
func TestCommitByWhatIsTrue(t *testing.T) {
	p := begin(t)
	g, run := gated(t, p, "{requires: [verified], verify: make check}")
	refused := func(what string) {
		t.Helper()
		d, e, err := starts(t, g, run, aCommit)
		var problem *workspace.Problem
		if d != nil || !errors.As(err, &problem) || problem.Reason != review.CommitNotVerified || e.By != review.CommitNotVerified || bourn.CodeOf(err) != bourn.CodeDenied || bourn.HintOf(err) == "" {
			t.Errorf("%s: %v, by %q", what, err, e.By)
		}
	}
	does := func(r workspace.Request, result string) {
		t.Helper()
		d, e, err := starts(t, g, run, r)
		if err != nil {
			t.Fatal(err)
		}
		ends(g, d, e, result)
	}
	does(aWrite, `{"path":"/x"}`)
	refused("nothing verified")
	does(aVerify, `{"status":0}`)
	does(aCommit, `{"status":0}`) // its outcome may well be on its way
	refused("committed")
	for result, why := range map[string]string{`{"status":1}`: "it failed", `{"status":0,"timed_out":true}`: "too long", `{"status":137,"signal":"SIGKILL"}`: "killed", `{}`: "no status", `{"verification":true,"evidence":"call"}`: "the actor says so"} {
		does(aVerify, result)
		refused(why)
	}
	other := aVerify
	other.Cwd = "/elsewhere"
	does(other, `{"status":0}`)
	refused("elsewhere")
	does(aVerify, `{"status":0}`)
	if d, _, err := starts(t, g, run, workspace.Request{Tool: "files_read", Verb: workspace.Read, Path: "x"}); d != nil || err != nil {
		t.Errorf("reading is noted: %v", err)
	}
	// What was not performed after all is no change.
	d, _, err := starts(t, g, run, aWrite)
	if err != nil {
		t.Fatal(err)
	}
	refused("something is done")
	d.never()
	// Without an outcome in the log: this process knows that nothing was done, another does not.
	if d, e, err := starts(t, g, run, aCommit); err != nil {
		t.Error(err)
	} else {
		ends(g, d, e, `{"status":1}`)
	}
	does(aVerify, `{"status":0}`)
	run.run = "r"
	if err := p.log.Flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	g = newGate(p.control)
	refused("after a restart")
	run.run = "r2"
	refused("another run")
	does(aVerify, `{"status":0}`)
	// Another profile asks for another verification, and the next for none.
	g2, _ := gated(t, p, "{requires: [verified], verify: make test}")
	g2.ledgers = g.ledgers
	g = g2
	refused("another command verifies now")
	for _, l := range g.ledgers.kept {
		if l.calls != 0 {
			t.Errorf("%d calls are performed for ever", l.calls)
		}
	}
}

// TestNotWrittenIsNotDone: a call whose entry is not in the log was not performed, and changed
// nothing.
func TestNotWrittenIsNotDone(t *testing.T) {
	p := begin(t)
	g, run := gated(t, p, "{requires: [verified], verify: make check}")
	run.from, run.rules = p.boundaries.now.Load(), p.boundaries.now.Load().compiled // its actor knows
	d, e, err := starts(t, g, run, aVerify)
	if err != nil {
		t.Fatal(err)
	}
	ends(g, d, e, `{"status":0}`)
	p.log.mu.Lock()
	p.log.runs["r"] = &quota{since: time.Now(), effects: quotaEffects}
	p.log.mu.Unlock()
	if a := g.call(t.Context(), run, g.known["files_write"], []byte(`{"path":"x","content":""}`), nil); !a.Failed || !strings.Contains(a.Text, "this run writes more to the log") {
		t.Errorf("%+v", a)
	}
	rule := review.CommitRule{Verified: true, Verify: "make check"}
	if l := g.ledgers.take(runKey{run: "r"}); !l.progress.Verified(rule.Evidence()) || l.calls != 1 {
		t.Errorf("what was not done counts: %+v", &l.progress)
	}
}

// TestLedgerIsOfOneMember: runs of two members with one id are two, and what failed shows
// nothing.
func TestLedgerIsOfOneMember(t *testing.T) {
	p := begin(t)
	const passed = `{"status":0,"verification":true,"evidence":"call"}`
	of := func(run, member string, outcome audit.Outcome) {
		t.Helper()
		e := action(run, "shell_exec", member)
		for _, e := range []audit.Entry{e, outcomeFor(e, outcome, passed)} {
			if err := p.log.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	is := func(run, member string, want bool) {
		t.Helper()
		var l ledger
		if err := l.load(t.Context(), p.store, run, member, newGate(p.control).reads); err != nil || l.progress.Verified(review.EvidenceByCall) != want {
			t.Errorf("%s of %q is verified: %v, %v", run, member, !want, err)
		}
	}
	of("r", "a", audit.Done)
	is("r", "a", true)
	is("r", "b", false)
	is("r", "", true)
	of("r", "b", audit.Failed)
	is("r", "a", true)
	is("r", "", false)
	of("f", "a", audit.Failed)
	is("f", "a", false)
	// What is too long to be read again is not verified, whatever its end says.
	for most, want := range map[int]bool{2: true, 1: false} {
		of := fmt.Sprint("long", most)
		e := action(of, "shell_exec", "a")
		for _, e := range []audit.Entry{e, outcomeFor(e, audit.Done, passed)} {
			if err := p.log.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		progress, last, err := progressOf(t.Context(), p.store, of, "a", newGate(p.control).reads, most)
		if err != nil || last == 0 || progress.Verified(review.EvidenceByCall) != want {
			t.Errorf("2 lines of at most %d: verified %v, %v", most, !want, err)
		}
	}
}

// TestChildCommitsAsItsParent: work is not handed to an agent of whom less is asked, to be
// committed there.
func TestChildCommitsAsItsParent(t *testing.T) {
	p := begin(t)
	g, parent := gated(t, p, "{requires: [verified], verify: make check}")
	at := filepath.Join(p.config.Home, "agents/lax/profile.yaml")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("version: 1\nagent: lax\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := &gatedRun{run: "alone", agent: "lax", actor: parent.actor}
	if _, _, err := starts(t, g, alone, aCommit); err != nil {
		t.Errorf("of whom nothing is asked: %v", err)
	}
	child := &gatedRun{run: "child", agent: "lax", actor: parent.actor, child: &childRun{of: parent, agent: "lax", depth: 1}}
	below := &gatedRun{run: "below", agent: "lax", actor: parent.actor, child: &childRun{of: child, agent: "lax", depth: 2}}
	for _, run := range []*gatedRun{child, below} {
		if _, _, err := starts(t, g, run, aCommit); bourn.CodeOf(err) != bourn.CodeDenied || !strings.Contains(bourn.HintOf(err), "make check") {
			t.Errorf("%s: %v", run.run, err)
		}
		d, e, err := starts(t, g, run, aVerify)
		if err != nil {
			t.Fatal(err)
		}
		ends(g, d, e, `{"status":0}`)
		if _, _, err := starts(t, g, run, aCommit); err != nil {
			t.Errorf("%s, verified: %v", run.run, err)
		}
	}
}

// TestLedgerAsTheLog: what this process holds for verified is verified by the log, whatever
// is done at once.
func TestLedgerAsTheLog(t *testing.T) {
	p := begin(t)
	rule := review.CommitRule{Verified: true, Verify: "make check"}
	g, run := gated(t, p, "{requires: [verified], verify: make check}")
	agreed := 0
	for round := range 60 {
		run.run = fmt.Sprint("r", round)
		var all sync.WaitGroup
		for w := range 4 {
			random := rand.New(rand.NewPCG(uint64(round), uint64(w)))
			all.Go(func() {
				for range 1 + random.IntN(3) {
					r, result := aVerify, `{"status":0}`
					if random.IntN(4) == 0 {
						r, result = aWrite, `{"path":"/x"}`
					}
					d, e, err := starts(t, g, run, r)
					if err != nil {
						t.Error(err)
						return
					}
					ends(g, d, e, result)
				}
			})
		}
		all.Wait()
		here := g.ledgers.take(runKey{run: run.run})
		// What is waited for is committed after what is not.
		if err := p.log.Append(t.Context(), action("last", "files_read", "")); err != nil {
			t.Fatal(err)
		}
		var there ledger
		if err := there.load(t.Context(), p.store, run.run, run.member.String(), g.reads); err != nil {
			t.Fatal(err)
		}
		switch mine, its := here.progress.Verified(rule.Evidence()), there.progress.Verified(rule.Evidence()); {
		case mine && !its:
			t.Errorf("round %d: verified here, and not by the log", round)
		case mine:
			agreed++
		}
	}
	if agreed == 0 {
		t.Error("nothing is verified: it shows nothing")
	}
}

// TestLedgersAreBounded: what is performed now is kept, whatever comes.
func TestLedgersAreBounded(t *testing.T) {
	l := newLedgers()
	held := l.take(runKey{run: "held"})
	for i := range maxLedgers + 10 {
		l.leave(l.take(runKey{run: fmt.Sprint(i)}))
	}
	if len(l.kept) > maxLedgers || l.take(runKey{run: "held"}) != held {
		t.Errorf("%d are kept", len(l.kept))
	}
}

// BenchmarkCommit is a run of 10,000 receipts: to read them again after a restart, to decide
// about a commit, and to show the newest and the oldest hundred.
func BenchmarkCommit(b *testing.B) {
	p := begin(b)
	g, run := gated(b, p, "{requires: [verified], verify: make check}")
	const many = 10_000
	for from := 0; from < many; from += 1000 {
		var entries []store.EncodedEntry
		for range 1000 {
			of := action("r", "files_write", run.member.String())
			for _, e := range []audit.Entry{of, outcomeFor(of, audit.Done, `{"path":"/w/x","before":"1","after":"2"}`)} {
				body, err := e.Encode(time.Now())
				if err != nil {
					b.Fatal(err)
				}
				entries = append(entries, store.EncodedEntry{ID: e.ID, At: e.At, Body: body})
			}
		}
		if err := p.store.AppendLog(b.Context(), entries); err != nil {
			b.Fatal(err)
		}
	}
	p.admin("control", "analyze log.entry", "analyze log.link") // as its autovacuum does
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			var l ledger
			if err := l.load(b.Context(), p.store, "r", run.member.String(), g.reads); err != nil || l.next < 2*many {
				b.Fatal(l.next, err)
			}
		}
	})
	b.Run("decide", func(b *testing.B) {
		a, err := aCommit.Action()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			e := action("r", "shell_exec", run.member.String())
			if _, err := g.begin(b.Context(), run, aCommit, a, &e); bourn.CodeOf(err) != bourn.CodeDenied {
				b.Fatal(err)
			}
		}
	})
	for name, newest := range map[string]bool{"newest": true, "oldest": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				all, err := receipts(b.Context(), p.store, &receiptsQuery{Run: "r", Most: 100, Newest: newest}, g.reads)
				if err != nil || len(all) != 100 || all[99].State != "done" {
					b.Fatal(len(all), err)
				}
			}
		})
	}
}
