package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/operation"
	"bourn/internal/run"
)

// askWithin is how long a control plane has to say how it is.
const askWithin = 10 * time.Second

// askControl asks the control plane of a home how it is.
func (a *app) askControl(h *run.Home) (api.Status, error) {
	client, err := a.controlOf(h)
	if err != nil {
		return api.Status{}, err
	}
	defer client.Close() // who asks may be there for long, and asks no more
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	return client.Status(ctx)
}

// controlStatus prints how the control plane is.
func (a *app) controlStatus(h *run.Home, o operation.Serve) error {
	s, err := a.askControl(h)
	if err != nil {
		return err
	}
	if s.Status == "failing" {
		a.exit = bourn.CodeUnavailable.ExitStatus()
	}
	if o.JSON {
		return printJSON(a.Stdout, s)
	}
	a.printf("the control plane is %s (process %d, version %s)\n", wellness[s.Status], s.Pid, bourn.Printable(s.Version))
	for _, c := range s.Components {
		line := "  " + fmt.Sprintf("%-10s  %s", c.Name, wellness[c.Status])
		if c.Detail != "" {
			line += ": " + bourn.Printable(c.Detail)
		}
		a.printf("%s\n", line)
		if c.Hint != "" {
			a.printf("  %-10s  mend: %s\n", "", bourn.Printable(c.Hint))
		}
	}
	a.printf("  %-10s  %s\n", "listens", bourn.Printable(strings.Join(s.Listens, ", ")))
	if d := s.Database; d.Embedded {
		a.printf("  %-10s  private PostgreSQL %s in %s, as %s\n", "server", d.Version, bourn.Printable(d.Data), bourn.Printable(d.User))
	} else if d.Socket != "" {
		a.printf("  %-10s  the PostgreSQL of bourn db serve, at %s\n", "server", bourn.Printable(d.Socket))
	} else {
		a.printf("  %-10s  run by others\n", "server")
	}
	a.printf("  %-10s  %d entries signed\n", "log", s.Log.Position)
	return nil
}

// wellness are the words for how a part of the control plane is.
var wellness = map[string]string{"ok": "ok", "degraded": "degraded", "failing": "FAILING"}
