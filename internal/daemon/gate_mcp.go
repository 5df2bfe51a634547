package daemon

import (
	"context"
	"fmt"
	"net/http"

	"bourn"
	"bourn/internal/mcp"
	"bourn/internal/skill"
	"bourn/internal/tool"
)

// Limits of what clients ask.
const (
	maxRunCalls   = 64        // calls of one run's clients that are performed at once; more wait
	maxRunClients = 32        // clients of one run at once; more are refused
	maxAsked      = 256 << 20 // bytes of requests, of all clients, that are not answered yet
	maxRunAsked   = 64 << 20  // and of one run's
	maxRunAnswers = 64 << 20  // bytes of long answers, of one run's clients, that they have not taken yet
	maxChildHeld  = 16 << 20  // the same two of a run that works for another: of those there are several
)

// mayHold returns how many bytes of requests and of answers a run's clients may have held. A
// run with all that work for it leaves enough for another run.
func (r *gatedRun) mayHold() (asked, answers int) {
	if r.child != nil {
		return maxChildHeld, maxChildHeld
	}
	return maxRunAsked, maxRunAnswers
}

// serveMCP takes over a connection of a run's client.
func (s *server) serveMCP(w http.ResponseWriter, r *http.Request) {
	member, agent, err := s.launcher(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	run, err := s.tools.find(r.Context(), runKey{member, r.PathValue("run")})
	if err == nil && run.agent != agent {
		err = fmt.Errorf("%w: the run is another agent's", bourn.ErrDenied)
	}
	if err == nil {
		err = run.enter()
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	conn, err := takeOver(w, r, "bourn-mcp")
	if err != nil {
		run.leave()
		s.refuse(w, r, err)
		return
	}
	s.tools.all.Go(func() {
		defer run.leave()
		// What asks for tools of an actor that has gone is told so by the end.
		ctx, cancel := context.WithCancel(s.tools.ctx)
		defer cancel()
		s.tools.all.Go(func() {
			select {
			case <-run.actor.Ended():
				cancel()
			case <-ctx.Done():
			}
		})
		if err := s.tools.client(run).Serve(ctx, conn); err != nil {
			s.log.Info("a client of a run's ended", "run", run.run, "error", err)
		}
	})
}

// client is what a client of a run's is served.
func (g *gate) client(run *gatedRun) *mcp.Server {
	return &mcp.Server{Version: g.control.config.Version, Instructions: func() string { return g.told(run) }, Offers: offers(g.known), Budget: run.asked, Answers: run.answers,
		Call: func(ctx context.Context, name string, input []byte, progress func([]byte)) mcp.Answer {
			select {
			case run.calls <- struct{}{}:
				defer func() { <-run.calls }()
			case <-ctx.Done():
				return mcp.Answer{Text: "unavailable (cancelled): the call was cancelled", Failed: true}
			}
			return g.call(ctx, run, g.known[name], input, progress)
		},
		Shown:       func(name string) bool { return run.has(name) && g.shows(run.agent, name) && g.opens(run, name) },
		Unsupported: func(ctx context.Context, name string) { g.unsupported(ctx, run, name) }}
}

// enter counts a client of the run's.
func (r *gatedRun) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients >= maxRunClients {
		return bourn.WithHint(fmt.Errorf("%w: the run has %d clients of its tools already", bourn.ErrUnavailable, maxRunClients), "end one of them")
	}
	r.clients++
	return nil
}

func (r *gatedRun) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients--
}

// offers are tools as a client is offered them.
func offers(known map[string]*tool.Tool) []mcp.Offer {
	var all []mcp.Offer
	for _, t := range known {
		all = append(all, mcp.Offer{Name: t.Name, Title: t.Title, Description: t.Description, Input: t.Input, ReadOnly: t.ReadOnly(),
			Destructive: t.Destructive, Idempotent: t.Idempotent, OpenWorld: t.OpenWorld})
	}
	return all
}

// told is what a model is told at the beginning: what the tools are, and what the run's agent is
// offered besides. It is read whenever a client begins. What cannot be read is not told of: it
// grants nothing, and tools are served without it.
func (g *gate) told(run *gatedRun) string {
	home := g.control.config.Home
	shown, err := skill.Shown(home, run.agent, run.run)
	if err != nil {
		g.control.config.Log.Warn("what an agent is offered cannot be told", "agent", string(run.agent), "run", run.run, "error", err)
		return instructions
	}
	if text := skill.Tell(home, run.agent, shown); text != "" {
		return instructions + "\n\n" + text
	}
	return instructions
}

// instructions tell a model what the tools are.
const instructions = "These tools act in your workspace, under a boundary that the kernel keeps. What is denied is refused, and its message says what to ask a person for."
