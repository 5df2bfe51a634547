package tool

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/workspace"
)

// Limits of one call.
const (
	maxJobs     = 16
	maxParallel = 8
	parallel    = 2 // where a call says nothing
)

func parallelJobs() *Tool {
	type input struct {
		Tasks    []job `json:"tasks" jsonschema:"1 to 16 tasks, each as spawn_subagent takes it"`
		Parallel int   `json:"parallel,omitzero" jsonschema:"how many run at once, 8 at most; left out: 2"`
	}
	return define(Tool{
		Name: "parallel_jobs", Title: "Hand tasks to several subagents", Tier: bourn.TierWrite, Destructive: true, OpenWorld: true,
		Description: "Hands tasks to subagents as spawn_subagent does, several at once, and returns what came of each. None is started unless all may be; one that fails does not end the others.",
	}, func(in input) (workspace.Request, error) {
		r := workspace.Request{Verb: workspace.Delegate, Parallel: in.Parallel}
		if len(in.Tasks) == 0 || len(in.Tasks) > maxJobs {
			return r, fmt.Errorf("%w: tasks has 1 to %d tasks", bourn.ErrInvalid, maxJobs)
		}
		if r.Parallel == 0 {
			r.Parallel = parallel
		}
		if r.Parallel < 1 || r.Parallel > maxParallel {
			return r, fmt.Errorf("%w: parallel is 1 to %d", bourn.ErrInvalid, maxParallel)
		}
		for i, j := range in.Tasks {
			w, err := j.work()
			if err != nil {
				return r, bourn.WithHint(fmt.Errorf("task %d: %w", i+1, err), bourn.HintOf(err))
			}
			r.Jobs = append(r.Jobs, w)
		}
		return r, nil
	}, func(r workspace.JobResults) string {
		var b strings.Builder
		for i, j := range r.Jobs {
			if i > 0 {
				b.WriteString("\n\n")
			}
			fmt.Fprintf(&b, "task %d:\n%s", i+1, jobEnd(j))
		}
		return b.String()
	})
}
