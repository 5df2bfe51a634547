package tool

import (
	"fmt"
	"math"
	"strings"
	"time"

	"bourn"
	"bourn/internal/workspace"
)

// job is a task as a tool takes it. A list that is left out keeps what the caller has.
type job struct {
	Task    string   `json:"task" jsonschema:"what the subagent is to do"`
	Root    string   `json:"root,omitzero" jsonschema:"the directory it works in, below which it writes; left out: the working directory"`
	Agent   string   `json:"agent,omitzero" jsonschema:"an agent that does it under a profile of its own; left out: the caller's own kind"`
	Read    []string `json:"read,omitzero" jsonschema:"the only paths it may read, besides what it writes and the system's; left out: all that the caller may"`
	Write   []string `json:"write,omitzero" jsonschema:"the only paths it may write; left out: what is below root"`
	Deny    []string `json:"deny,omitzero" jsonschema:"paths and patterns that are closed to it, besides what is closed to the caller"`
	Hosts   []string `json:"hosts,omitzero" jsonschema:"the only hosts it may reach; left out: the caller's"`
	Tools   []string `json:"tools,omitzero" jsonschema:"the only governed tools it has, by name or beginning with a * behind; left out: the caller's"`
	Env     []string `json:"env,omitzero" jsonschema:"the only variables it gets, by name; left out: the caller's"`
	Records string   `json:"records,omitzero" jsonschema:"what it does with the company's records: read or none; left out: what the caller does"`
	Timeout float64  `json:"timeout,omitzero" jsonschema:"seconds after which it is ended"`
}

// work is a task as it is reviewed.
func (j job) work() (workspace.Job, error) {
	w := workspace.Job{Task: j.Task, Root: j.Root, Agent: j.Agent, Read: j.Read, Write: j.Write, Deny: j.Deny, Hosts: j.Hosts, Tools: j.Tools, Env: j.Env, Records: j.Records}
	if w.Root == "" {
		w.Root = "."
	}
	if j.Timeout < 0 || j.Timeout > 1e6 || math.IsNaN(j.Timeout) {
		return w, fmt.Errorf("%w: timeout is a number of seconds", bourn.ErrInvalid)
	}
	w.Timeout = time.Duration(j.Timeout * float64(time.Second))
	if j.Agent != "" {
		if _, err := bourn.ParseAgentName(j.Agent); err != nil {
			return w, err
		}
	}
	return w, w.Check()
}

func spawnSubagent() *Tool {
	return define(Tool{
		Name: "spawn_subagent", Title: "Hand a task to a subagent", Tier: bourn.TierWrite, Destructive: true, OpenWorld: true,
		Description: "Hands a task to a subagent, waits, and returns its output and exit status. It has at most what the caller has, and everything that is closed to the caller is closed to it.",
	}, func(in job) (workspace.Request, error) {
		w, err := in.work()
		return workspace.Request{Verb: workspace.Delegate, Jobs: []workspace.Job{w}, Parallel: 1}, err
	}, func(r workspace.JobResults) string {
		var b strings.Builder
		for _, j := range r.Jobs {
			b.WriteString(jobEnd(j))
		}
		return b.String()
	})
}

// jobEnd is what came of a job, as a model reads it.
func jobEnd(j workspace.JobResult) string {
	var b strings.Builder
	lined := func() {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
	}
	if j.LeftOut > 0 {
		fmt.Fprintf(&b, "(%s before this are left out)\n", plural(int(j.LeftOut), "byte"))
	}
	b.WriteString(shown(j.Stdout))
	if len(j.Stderr) > 0 {
		lined()
		b.WriteString("stderr:\n" + shown(j.Stderr))
	}
	lined()
	switch {
	case j.Problem != nil:
		fmt.Fprintf(&b, "(%s%s: %s", j.Problem.Code, inBrackets(j.Problem.Reason), j.Problem.Text)
		if j.Problem.Hint != "" {
			fmt.Fprintf(&b, "; hint: %s", j.Problem.Hint)
		}
	case j.TimedOut:
		b.WriteString("(ended: it took too long")
	case j.Signal != "":
		fmt.Fprintf(&b, "(ended by %s", j.Signal)
	default:
		fmt.Fprintf(&b, "(exit status %d", j.Status)
	}
	if j.Child != "" {
		fmt.Fprintf(&b, ", run %s", j.Child)
	}
	b.WriteString(")")
	for _, f := range j.Files {
		fmt.Fprintf(&b, "\n(the whole is in %s)", f)
	}
	for _, r := range j.Refusals {
		fmt.Fprintf(&b, "\nrefused: %s", r)
	}
	for _, n := range j.Notes {
		fmt.Fprintf(&b, "\nnote: %s", n)
	}
	return b.String()
}

func inBrackets(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
