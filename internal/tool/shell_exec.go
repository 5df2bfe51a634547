package tool

import (
	"fmt"
	"math"
	"strings"
	"time"

	"bourn"
	"bourn/internal/workspace"
)

func shellExec() *Tool {
	type input struct {
		Command string            `json:"command,omitzero" jsonschema:"what a shell is to run; or give argv"`
		Argv    []string          `json:"argv,omitzero" jsonschema:"a program and its arguments, without a shell"`
		Cwd     string            `json:"cwd,omitzero" jsonschema:"where to run it; left out: the working directory"`
		Timeout float64           `json:"timeout,omitzero" jsonschema:"seconds after which it is ended"`
		Env     map[string]string `json:"env,omitzero" jsonschema:"variables to set besides those of the run"`
		Pty     bool              `json:"pty,omitzero" jsonschema:"give it a terminal; output and errors are one then"`
		// Where the agent's profile names the command, the control plane does not ask.
		Verifies bool `json:"verifies,omitzero" jsonschema:"it verifies the work: where it passes, a commit may follow. Of no effect where the agent's profile names the command that does"`
	}
	return define(Tool{
		Name: "shell_exec", Title: "Run a command", Tier: bourn.TierWrite, Destructive: true, OpenWorld: true,
		Description: "Runs a command, under the agent's seal, and returns its output and exit status. What it starts ends with it.",
	}, func(in input) (workspace.Request, error) {
		r := workspace.Request{Verb: workspace.Exec, Command: in.Command, Argv: in.Argv, Cwd: in.Cwd, Pty: in.Pty, Verifies: in.Verifies}
		if (in.Command == "") == (len(in.Argv) == 0) {
			return r, fmt.Errorf("%w: give one of command and argv", bourn.ErrInvalid)
		}
		if in.Timeout < 0 || in.Timeout > 1e6 || math.IsNaN(in.Timeout) {
			return r, fmt.Errorf("%w: timeout is a number of seconds", bourn.ErrInvalid)
		}
		r.Timeout = time.Duration(in.Timeout * float64(time.Second))
		env, err := variables(in.Env)
		r.Env = env
		return r, err
	}, executed)
}

func executed(r workspace.ExecResult) string {
	var b strings.Builder
	b.WriteString(shown(r.Stdout))
	if len(r.Stderr) > 0 {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		b.WriteString("stderr:\n" + shown(r.Stderr))
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteString("\n")
	}
	switch {
	case r.TimedOut:
		fmt.Fprintf(&b, "(ended after %s: it took too long)", time.Duration(r.Duration)*time.Microsecond)
	case r.Signal != "":
		fmt.Fprintf(&b, "(ended by %s)", r.Signal)
	default:
		fmt.Fprintf(&b, "(exit status %d)", r.Status)
	}
	if r.Spill != "" {
		fmt.Fprintf(&b, "\n(the whole output is in %s)", r.Spill)
	}
	return b.String()
}
