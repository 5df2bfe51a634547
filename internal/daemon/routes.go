package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// out and in are what huma makes answers and requests of.
type (
	out[T any] struct{ Body T }
	in[T any]  struct{ Body T }
	none       struct{}
)

// operation describes one route. What it changes needs an administrator.
func operation(id, method, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: maxBody, BodyReadTimeout: readWithin,
		Errors: []int{403, 404, 409, 422, 503}}
}

// handle registers a handler whose errors are Bourn's.
func handle[I, O any](s *server, op huma.Operation, f func(ctx context.Context, in *I) (*O, error)) {
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		o, err := f(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, s.log, err)
		}
		return o, nil
	})
}

// routes registers everything that the interface has.
func (s *server) routes() {
	handle(s, operation("health", "GET", "/v1/health", "Whether the control plane does its work"), func(ctx context.Context, _ *none) (*out[api.Health], error) {
		return &out[api.Health]{s.control.health(ctx)}, nil
	})
	handle(s, operation("status", "GET", "/v1/status", "What the control plane is doing"), func(ctx context.Context, _ *none) (*out[api.Status], error) {
		st := s.control.status(ctx)
		st.Started, st.Listens = s.started, s.listensTo
		return &out[api.Status]{st}, nil
	})
	handle(s, operation("traces", "GET", "/v1/traces", "The newest spans"), func(ctx context.Context, _ *none) (*out[api.Traces], error) {
		if principalOf(ctx).token == nil {
			if _, err := s.gate.administrator(ctx, "read traces"); err != nil {
				return nil, err
			}
		}
		return &out[api.Traces]{api.Traces{Spans: s.traces.Newest()}}, nil
	})
	s.boundariesRoutes()
	s.logRoutes()
	s.receiptRoutes()
	s.tokenRoutes()
	s.agentTokenRoutes()
	s.peopleRoutes()
	s.recordsRoutes()
	s.queryRoutes()
}

func (s *server) boundariesRoutes() {
	handle(s, operation("show-boundaries", "GET", "/v1/boundaries", "The hard blocks in force"), func(ctx context.Context, _ *none) (*out[api.Boundaries], error) {
		if _, err := s.gate.administrator(ctx, "read the hard blocks"); err != nil {
			return nil, err
		}
		return &out[api.Boundaries]{s.control.boundaries.Show()}, nil
	})
	handle(s, operation("set-boundaries", "PUT", "/v1/boundaries", "Save a new version of the hard blocks"), func(ctx context.Context, in *in[api.SaveBoundaries]) (*out[api.Boundaries], error) {
		who, err := s.gate.administrator(ctx, "set the hard blocks")
		if err != nil {
			return nil, err
		}
		if err := s.control.boundaries.Save(ctx, who, in.Body.Document, in.Body.After); err != nil {
			return nil, err
		}
		return &out[api.Boundaries]{s.control.boundaries.Show()}, nil
	})
	handle(s, operation("boundaries-history", "GET", "/v1/boundaries/history", "The versions of the hard blocks, the newest first"), func(ctx context.Context, in *historyQuery) (*out[api.BoundariesHistory], error) {
		if _, err := s.gate.administrator(ctx, "read the hard blocks"); err != nil {
			return nil, err
		}
		h, err := s.control.boundaries.History(ctx, in.Most)
		return &out[api.BoundariesHistory]{h}, err
	})
	handle(s, operation("test-boundaries", "POST", "/v1/boundaries/test", "Which hard blocks an action meets"), func(ctx context.Context, in *in[api.TestBoundaries]) (*out[api.TestedBoundaries], error) {
		if _, err := s.gate.administrator(ctx, "test the hard blocks"); err != nil {
			return nil, err
		}
		r, err := s.control.boundaries.Test(in.Body)
		return &out[api.TestedBoundaries]{r}, err
	})
}

// historyQuery says how many versions are wanted.
type historyQuery struct {
	Most int `query:"most" minimum:"1" maximum:"1000" default:"50"`
}

// byID names one thing.
type byID struct {
	ID string `path:"id" maxLength:"64"`
}

// logQuery says which lines of the log are wanted.
type logQuery struct {
	After   int64     `query:"after" minimum:"0" doc:"lines after this seq"`
	Run     string    `query:"run" maxLength:"100"`
	Agent   string    `query:"agent" maxLength:"64"`
	Kind    string    `query:"kind" enum:"action,outcome,change,session,run,service"`
	Outcome string    `query:"outcome" enum:"allowed,denied,asked,done,failed"`
	Since   time.Time `query:"since"`
	Most    int       `query:"most" minimum:"1" maximum:"10000" default:"1000"`
	Newest  bool      `query:"newest" doc:"the newest that fit"`
}

func (q logQuery) filter() store.LogFilter {
	return store.LogFilter{After: q.After, Run: q.Run, Agent: q.Agent, Kind: audit.Kind(q.Kind), Outcome: audit.Outcome(q.Outcome), Since: q.Since, Most: q.Most, Newest: q.Newest}
}

func (s *server) logRoutes() {
	handle(s, operation("log", "GET", "/v1/log", "Lines of the log, in order"), func(ctx context.Context, in *logQuery) (*out[api.LogLines], error) {
		if _, err := s.gate.administrator(ctx, "read the log"); err != nil {
			return nil, err
		}
		s.control.log.settle(ctx)
		lines, err := s.control.store.LogLines(ctx, in.filter())
		if err != nil {
			return nil, err
		}
		return &out[api.LogLines]{api.LogLines{Lines: wire(lines)}}, nil
	})
	handle(s, operation("verify-log", "POST", "/v1/log/verify", "Verify the whole log"), func(ctx context.Context, in *in[api.VerifyLog]) (*out[api.VerifiedLog], error) {
		if _, err := s.gate.administrator(ctx, "verify the log"); err != nil {
			return nil, err
		}
		r, err := s.control.verify(ctx, in.Body.Checkpoints)
		return &out[api.VerifiedLog]{r}, err
	})
	handle(s, operation("export-log", "GET", "/v1/log/export", "The log as JSON lines"), func(ctx context.Context, in *logQuery) (*huma.StreamResponse, error) {
		if _, err := s.gate.administrator(ctx, "export the log"); err != nil {
			return nil, err
		}
		filter := in.filter()
		filter.Most, filter.Newest = 1000, false
		s.control.log.settle(ctx)
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			hc.SetHeader("Content-Type", "application/jsonl")
			s.export(ctx, hc, filter)
		}}, nil
	})
}

// export writes line after line. One that cannot be read breaks the answer off: the
// reader sees that it is not whole.
func (s *server) export(ctx context.Context, hc huma.Context, filter store.LogFilter) {
	_, answer := humago.Unwrap(hc)
	control := http.NewResponseController(answer)
	w := bufio.NewWriter(answer)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		// A long log takes long; a reader who takes nothing does not.
		if err := control.SetWriteDeadline(time.Now().Add(batchWithin)); err != nil {
			s.log.ErrorContext(ctx, "cannot bound the export of the log", "error", err)
			panic(http.ErrAbortHandler)
		}
		lines, err := s.control.store.LogLines(ctx, filter)
		if err != nil {
			s.log.ErrorContext(ctx, "cannot export the log", "error", err)
			panic(http.ErrAbortHandler)
		}
		for _, line := range wire(lines) {
			if err := enc.Encode(line); err != nil {
				return // the reader has gone
			}
		}
		if err := w.Flush(); err != nil || len(lines) < filter.Most {
			return
		}
		filter.After = lines[len(lines)-1].Seq
	}
}

func wire(lines []store.LogLine) []api.LogLine {
	out := make([]api.LogLine, len(lines))
	for i, l := range lines {
		out[i] = api.LogLine{Seq: l.Seq, Position: l.Position, Entry: l.Body}
	}
	return out
}

func (s *server) tokenRoutes() {
	handle(s, operation("list-diagnostics-tokens", "GET", "/v1/diagnostics-tokens", "The diagnostics tokens"), func(ctx context.Context, _ *none) (*out[api.DiagnosticsTokens], error) {
		if _, err := s.gate.administrator(ctx, "list diagnostics tokens"); err != nil {
			return nil, err
		}
		all, err := s.control.store.DiagnosticsTokens(ctx)
		if err != nil {
			return nil, err
		}
		list := api.DiagnosticsTokens{Tokens: []api.DiagnosticsToken{}}
		for _, t := range all {
			list.Tokens = append(list.Tokens, wireToken(t))
		}
		return &out[api.DiagnosticsTokens]{list}, nil
	})
	handle(s, operation("new-diagnostics-token", "POST", "/v1/diagnostics-tokens", "Make a diagnostics token; it is shown once"), func(ctx context.Context, in *in[api.NewDiagnosticsToken]) (*out[api.DiagnosticsToken], error) {
		who, err := s.gate.administrator(ctx, "make a diagnostics token")
		if err != nil {
			return nil, err
		}
		var expires *time.Time
		if !in.Body.Expires.IsZero() {
			if !in.Body.Expires.After(s.control.now()) {
				return nil, fmt.Errorf("%w: the token would have expired already", bourn.ErrInvalid)
			}
			expires = &in.Body.Expires
		}
		if bourn.Printable(in.Body.Name) != in.Body.Name {
			return nil, fmt.Errorf("%w: the token's name holds characters that cannot be printed", bourn.ErrInvalid)
		}
		entry := audit.Entry{Kind: audit.KindChange, Who: who, What: "diagnostics token made", Target: in.Body.Name, Outcome: audit.Allowed, Trace: traceID(ctx)}
		var token string
		var kept store.DiagnosticsToken
		err = s.control.log.Effect(ctx, entry, func() (err error) {
			token, kept, err = s.control.store.NewDiagnosticsToken(ctx, in.Body.Name, who, expires)
			return err
		})
		if err != nil {
			return nil, err
		}
		made := wireToken(kept)
		made.Token = token
		return &out[api.DiagnosticsToken]{made}, nil
	})
	handle(s, operation("revoke-diagnostics-token", "DELETE", "/v1/diagnostics-tokens/{id}", "End a diagnostics token at once"), func(ctx context.Context, in *byID) (*none, error) {
		who, err := s.gate.administrator(ctx, "revoke a diagnostics token")
		if err != nil {
			return nil, err
		}
		entry := audit.Entry{Kind: audit.KindChange, Who: who, What: "diagnostics token revoked", Target: in.ID, Outcome: audit.Allowed, Trace: traceID(ctx)}
		return nil, s.control.log.Effect(ctx, entry, func() error { return s.control.store.RevokeDiagnosticsToken(ctx, in.ID) })
	})
}

func wireToken(t store.DiagnosticsToken) api.DiagnosticsToken {
	return api.DiagnosticsToken{ID: t.ID, Name: t.Name, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, Expires: t.Expires, Revoked: t.Revoked}
}
