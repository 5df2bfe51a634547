package daemon

import (
	"encoding/json"
	"testing"

	"bourn"
	"bourn/internal/workspace"
)

// TestJobsReceipt: a receipt has the exit status of a subagent that ended, and of no other.
func TestJobsReceipt(t *testing.T) {
	lost := &workspace.Problem{Code: bourn.CodeUnavailable, Text: "it has gone"}
	result, err := json.Marshal(workspace.JobResults{Jobs: []workspace.JobResult{
		{Child: "a"}, {Child: "b", Status: 3}, {Child: "c", Problem: lost}, {Problem: lost}, {Child: "d", Status: 143, Problem: lost}, {Child: "e", Signal: "signal 9", TimedOut: true}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"jobs":[{"child":"a","status":0},{"child":"b","status":3},{"child":"c","code":"unavailable"},{"code":"unavailable"},` +
		`{"child":"d","status":143,"code":"unavailable"},{"child":"e","signal":"signal 9","timed_out":true}]}`
	if got := string(jobsReceipt("parallel_jobs", result)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := string(jobsReceipt("spawn_subagent", []byte(`{"jobs":[{"child":"c","problem":{"code":"unavailable"}}]}`))); got != `{"child":"c","code":"unavailable"}` {
		t.Error(got)
	}
}

// TestFamilyHolds: a run with as many subagents as there may be leaves another run what that
// may have held.
func TestFamilyHolds(t *testing.T) {
	first := &gatedRun{run: "first"}
	asked, answers := first.mayHold()
	for range maxChildren {
		a, b := (&gatedRun{child: &childRun{of: first}}).mayHold()
		asked, answers = asked+a, answers+b
	}
	if asked+maxRunAsked > maxAsked || answers > 4*maxRunAnswers {
		t.Errorf("%d bytes of requests, of %d, and %d of answers", asked, maxAsked, answers)
	}
}

// TestFinishedChild: what is no run's child any more is refused, and is none of another.
func TestFinishedChild(t *testing.T) {
	g := &gate{crews: newCrews()}
	key := runKey{run: "child"}
	is := func(agent bourn.AgentName, of string, child bool, code bourn.Code) {
		t.Helper()
		c, err := g.child(key, agent, of)
		if (c != nil) != child || err != nil && bourn.CodeOf(err) != code || (err == nil) != (code == "") {
			t.Errorf("%s of %s: %v %v", agent, of, c, err)
		}
	}
	is("mur", "", false, "")
	is("mur", "first", false, bourn.CodeDenied) // it was never one
	g.know(key, &childRun{of: &gatedRun{run: "first"}, agent: "mur"})
	is("mur", "first", true, "")
	is("other", "first", false, bourn.CodeDenied)
	is("mur", "second", false, bourn.CodeDenied)
	is("mur", "", false, bourn.CodeDenied)
	g.know(key, nil)
	is("mur", "first", false, bourn.CodeDenied)
}
