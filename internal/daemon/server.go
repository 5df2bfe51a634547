package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"bourn"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Limits of a request.
const (
	maxBody     = 2 << 20 // bytes
	maxHeader   = 32 << 10
	headWithin  = 5 * time.Second
	readWithin  = 15 * time.Second
	idleWithin  = 2 * time.Minute
	maxConns    = 512 // of each listener
	answerMost  = 10 * time.Minute
	closeWithin = 10 * time.Second
)

// A server answers requests.
type server struct {
	config    Config
	started   time.Time
	gate      *gatekeeper
	control   *control
	log       *slog.Logger
	metrics   *metrics
	traces    *traces
	handler   http.Handler
	api       huma.API
	listensTo []string
}

// newServer builds the handler of every request.
func newServer(c *control) *server {
	s := &server{config: c.config, started: c.now(), control: c, log: c.config.Log, metrics: c.metrics, traces: c.traces,
		gate: &gatekeeper{store: c.store, log: c.log, now: c.now}}
	humaErrors.Do(useProblems)
	mux := http.NewServeMux()
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Bourn", Version: c.config.Version, Description: "The control plane of Bourn. " +
				"On the local socket the kernel says who asks; over HTTP a bearer does."},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"diagnostics": {Type: "http", Scheme: "bearer", Description: "reads health, status, metrics and traces"}},
			},
		},
		OpenAPIPath:                  "/openapi",
		Formats:                      map[string]huma.Format{"application/json": strictFormat, "json": strictFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	s.api = humago.New(mux, config)
	s.routes()
	mux.Handle("GET /metrics", s.metrics.handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, bourn.WithHint(errNoRoute, "GET /openapi.json lists what there is"))
	})
	s.handler = s.measured(s.recovered(s.identified(s.bounded(routed(mux)))))
	return s
}

var errNoRoute = wrap(bourn.ErrNotFound, "there is nothing at this address for this method")

// wrap makes an error of a sentinel and a text.
func wrap(sentinel error, text string) error { return errors.Join(sentinelText{sentinel, text}) }

type sentinelText struct {
	error
	text string
}

func (s sentinelText) Error() string { return s.error.Error() + ": " + s.text }
func (s sentinelText) Unwrap() error { return s.error }

// refuse answers with an error.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, problemOf(r.Context(), s.log, err))
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Problem) // the caller has gone away, then
}

// bounded refuses what is larger than any request needs, and bodies of another type than
// JSON: a form that a browser was led to send is one.
func (s *server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			writeProblem(w, humaProblem(requestID(r.Context()), http.StatusRequestEntityTooLarge, "request body is too large"))
			return
		}
		if r.ContentLength != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
			if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
				writeProblem(w, humaProblem(requestID(r.Context()), http.StatusUnsupportedMediaType, "request body is not application/json"))
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// recovered makes a panic an internal error.
func (s *server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.log.ErrorContext(r.Context(), "panic", "value", p, "stack", string(debug.Stack()))
				writeProblem(w, problemOf(r.Context(), s.log, bourn.ErrInternal))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// http returns a server for one listener.
func (s *server) http(base context.Context) *http.Server {
	return &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headWithin, ReadTimeout: readWithin, WriteTimeout: answerMost, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: withPeer,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// withPeer notes who is at the other end of a local connection.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if local, ok := conn.(*peerConn); ok {
		return context.WithValue(ctx, peerKey, local.peer)
	}
	return ctx
}
