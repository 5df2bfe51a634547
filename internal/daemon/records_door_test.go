package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/tool/tier"
	"bourn/internal/workspace"
)

// TestRecordsAllowed: the profile or a flag opens the door, a run that works for another has
// no more of it than that one and than it was left, and what is not known opens nothing.
func TestRecordsAllowed(t *testing.T) {
	home := t.TempDir()
	profile := func(name bourn.AgentName, records string) {
		t.Helper()
		at := filepath.Join(home, "agents", string(name), "profile.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte("version: 1\nagent: "+string(name)+"\n"+records), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	profile("none", "")
	profile("reader", "records: read\n")
	profile("writer", "records: write\n")
	profile("broken", "records: all\n")
	g := &gate{policies: newPolicies(home, time.Now)}
	run := func(agent bourn.AgentName, flag policy.Records) *gatedRun { return &gatedRun{agent: agent, flag: flag} }
	child := func(of *gatedRun, agent bourn.AgentName, left string) *gatedRun {
		return &gatedRun{agent: agent, flag: policy.RecordsWrite, child: &childRun{of: of, agent: agent, records: left}}
	}
	for what, c := range map[string]struct {
		run  *gatedRun
		want string
	}{
		"no agent, no flag":                  {run("", ""), "refused"},
		"no agent, a flag":                   {run("", "read"), "read"},
		"no agent, a flag to write":          {run("", "write"), "write"},
		"a flag that is none":                {run("", "all"), "refused"},
		"a profile without":                  {run("none", ""), "refused"},
		"a profile to read":                  {run("reader", ""), "read"},
		"a profile to write":                 {run("writer", ""), "write"},
		"a flag beside a profile":            {run("reader", "write"), "write"},
		"a flag that is less":                {run("writer", "read"), "write"},
		"a profile that is wrong":            {run("broken", "write"), "refused"},
		"an agent that is not there":         {run("nobody", "write"), "refused"},
		"a child":                            {child(run("", "write"), "", ""), "write"},
		"a child of nothing, with a flag":    {child(run("", ""), "", ""), "refused"},
		"a child that was left reading":      {child(run("writer", ""), "writer", "read"), "read"},
		"a child that was left nothing":      {child(run("writer", ""), "writer", "none"), "refused"},
		"a child that was left what is none": {child(run("writer", ""), "writer", "all"), "refused"},
		"a member that may less":             {child(run("writer", ""), "reader", ""), "read"},
		"a member that may nothing":          {child(run("writer", ""), "none", ""), "refused"},
		"a member that may more":             {child(run("reader", ""), "writer", ""), "read"},
		"a member of one that may nothing":   {child(run("none", ""), "writer", ""), "refused"},
		"below one that was left reading":    {child(child(run("writer", ""), "writer", "read"), "writer", "write"), "read"},
	} {
		readOnly, err := g.recordsAllowed(c.run)
		got := map[bool]string{true: "read", false: "write"}[readOnly]
		if err != nil {
			got = "refused"
			if !errors.Is(err, bourn.ErrDenied) || bourn.HintOf(err) == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got != c.want || err != nil && !readOnly {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		if opens := g.opens(c.run, tier.RecordsQuery); opens != (c.want != "refused") || !g.opens(c.run, "files_read") {
			t.Errorf("%s: records_query is offered: %v", what, opens)
		}
	}
	var p *workspace.Problem
	if _, err := g.recordsAllowed(run("", "")); !errors.As(err, &p) || p.Reason != "records_not_granted" {
		t.Errorf("the reason: %v", err)
	}
	profile("reader", "")
	if _, err := g.recordsAllowed(run("reader", "")); err == nil {
		t.Error("what a profile does not say any more holds still")
	}
}
