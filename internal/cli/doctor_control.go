package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"bourn"
	"bourn/internal/operation"
	"bourn/internal/run"
)

// controlChecks look at the control plane and what it needs. A run needs neither.
func (a *app) controlChecks(h *run.Home) []run.Check {
	return []run.Check{a.postgresCheck(h), a.controlCheck(h)}
}

// postgresWithin is how long bournd may look at its database for a checkup.
const postgresWithin = 20 * time.Second

// postgresCheck asks bournd which PostgreSQL there is: it knows the places and the versions.
func (a *app) postgresCheck(h *run.Home) run.Check {
	c := run.Check{Name: "PostgreSQL", State: run.Untold}
	program, err := a.daemonProgram(h)
	if err != nil {
		c.Detail, c.Mend = "bourn serve is not possible: "+sentence(err), bourn.HintOf(err)
		if !errors.Is(err, bourn.ErrNotFound) {
			c.State = run.Unhealthy
		}
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), postgresWithin)
	defer cancel()
	ask := exec.CommandContext(ctx, program, "db", "status", "--json")
	ask.Env, ask.Dir = a.daemonEnviron(h), "/"
	out, runErr := ask.Output()
	var said struct {
		operation.DatabaseStatus
		operation.Failure
	}
	if err := json.Unmarshal(out, &said); err != nil {
		c.Detail = fmt.Sprintf("bournd db status: %v", errors.Join(runErr, err))
		return c
	}
	if said.Error.Code != "" {
		c.State, c.Detail, c.Mend = run.Unhealthy, said.Error.Message, said.Error.Hint
		return c
	}
	c.State, c.Detail = run.Healthy, said.Summary()
	if said.Mend != "" {
		c.State, c.Mend = run.Unhealthy, said.Mend
	}
	return c
}

func (a *app) controlCheck(h *run.Home) run.Check {
	c := run.Check{Name: "control plane", State: run.Healthy}
	s, err := a.askControl(h)
	version := a.Version
	if version == "" {
		version = "dev"
	}
	switch {
	case errors.Is(err, errNoControl):
		c.Detail = "none runs, and bourn run needs none; bourn serve --background starts it"
	case err != nil:
		c.State, c.Detail, c.Mend = run.Unhealthy, sentence(err), bourn.HintOf(err)
	case s.Version != version:
		c.State, c.Detail = run.Unhealthy, fmt.Sprintf("it is version %s, and this bourn is %s", s.Version, version)
		c.Mend = "bourn serve --stop, then bourn serve --background"
	default:
		c.Detail = fmt.Sprintf("%s (process %d)", s.Status, s.Pid)
		for _, part := range s.Components {
			if part.Status != "ok" {
				c.State, c.Detail, c.Mend = run.Unhealthy, part.Name+": "+part.Detail, part.Hint
			}
		}
	}
	return c
}
