package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/workspace"

	"github.com/go-json-experiment/json"
)

// reportPath is where a run finds its report; see package launch.
const reportPath = "/run/bourn/report.json"

func whoami() *Tool {
	type input struct{}
	return define(Tool{
		Name: "whoami", Title: "Who am I", Tier: bourn.TierRead,
		Description: "Says which agent this is, in which run, and what became of each of its grants: enforced, or dropped with the reason.",
	}, func(input) (workspace.Request, error) {
		return workspace.Request{Verb: workspace.Read, Path: reportPath}, nil
	}, func(r workspace.ReadResult) string { return grants(r.Content) })
}

// grants is a report as a model reads it.
func grants(report []byte) string {
	var r struct {
		Agent   string `json:"agent"`
		Run     string `json:"run"`
		Parent  string `json:"parent"`
		Sandbox struct {
			State   string `json:"state"`
			Backend string `json:"backend"`
		} `json:"sandbox"`
		Items []struct {
			Kind   string `json:"kind"`
			Target string `json:"target"`
			Fate   string `json:"fate"`
			Reason string `json:"reason"`
			Caveat string `json:"caveat"`
		} `json:"items"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return "(the run's report cannot be read)"
	}
	var b strings.Builder
	name := "no agent"
	if r.Agent != "" {
		name = "agent " + r.Agent
	}
	fmt.Fprintf(&b, "%s, run %s, sandbox %s", name, r.Run, r.Sandbox.State)
	if r.Sandbox.Backend != "" {
		fmt.Fprintf(&b, " (%s)", r.Sandbox.Backend)
	}
	if r.Parent != "" {
		fmt.Fprintf(&b, ", works for run %s", r.Parent)
	}
	for _, it := range r.Items {
		fmt.Fprintf(&b, "\n%s %s: %s", it.Kind, it.Target, it.Fate)
		if it.Reason != "" {
			fmt.Fprintf(&b, ", %s", it.Reason)
		}
		if it.Caveat != "" {
			fmt.Fprintf(&b, " (%s)", it.Caveat)
		}
	}
	return b.String()
}
