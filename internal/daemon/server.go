package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
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
	batchWithin = 30 * time.Second // each part of an export
	maxPerUser  = 256              // connections of one OS user at the local socket
)

// A server answers requests.
type server struct {
	tools     *gate
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
	members   memberSessions // of who asks for records
	largeOf   sync.Map       // of a store.MemberID a chan struct{}: the large answers that they have
	answering sync.WaitGroup // requests that are being answered
}

// newServer builds the handler of every request.
func newServer(c *control) *server {
	s := &server{config: c.config, started: c.now(), control: c, log: c.config.Log, metrics: c.metrics, traces: c.traces,
		gate: newGatekeeper(c.store, c.log, c.now)}
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
	s.describeObjects()
	s.tools = newGate(c)
	mux.HandleFunc("GET /v1/runs/{run}/actor", s.serveActor)
	mux.HandleFunc("GET /v1/runs/{run}/mcp", s.serveMCP)
	mux.HandleFunc("GET /v1/runs/{run}/worker", s.serveWorker)
	mux.HandleFunc("GET /v1/people/{person}/exec", s.serveExec)
	mux.HandleFunc(mcpPath, s.serveMCPByHTTP)
	mux.Handle("GET /metrics", s.measuredNow(s.metrics.handler()))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, bourn.WithHint(errNoRoute, "GET /openapi.json lists what there is"))
	})
	s.handler = s.measured(s.recovered(s.identified(s.bounded(routed(mux)))))
	return s
}

// describeObjects says of what is kept as the bytes that were sent that it is an object: a
// type alone does not.
func (s *server) describeObjects() {
	for name, schema := range s.api.OpenAPI().Components.Schemas.Map() {
		property := map[string]string{"SaveBoundaries": "document", "TestBoundaries": "document", "Boundaries": "document", "LogLine": "entry", "Record": "body", "NewRecord": "body", "RecordChange": "body"}[name]
		if p := schema.Properties[property]; p != nil {
			p.Type, p.AdditionalProperties = huma.TypeObject, true
			p.PrecomputeMessages()
		}
	}
}

var errNoRoute = fmt.Errorf("%w: there is nothing at this address for this method", bourn.ErrNotFound)

// refuse answers with an error.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, problemOf(r.Context(), s.log, err))
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Problem) // the caller has gone away, then
}

// http returns a server for one listener.
func (s *server) http(base context.Context) *http.Server {
	return &http.Server{
		Handler: s.handler, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: headWithin, ReadTimeout: readWithin, WriteTimeout: answerMost, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader,
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
