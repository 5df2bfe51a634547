package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler answers MCP over HTTP (streamable, without sessions), a message a request, in
// both eras. Who asks, the host and the origin are the caller's to check, before. A call
// whose client has gone has its context ended, in both eras: nobody could be given its
// answer.
func (s *Server) Handler() http.Handler {
	by := exchanges{s.Answers}
	server := s.server(by)
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, Logger: s.Log, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxMessage})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r) // which says what is allowed
			return
		}
		// Before it is read: who sends slowly holds what is there for it.
		size := int(min(r.ContentLength, maxMessage))
		if size < 0 {
			size = maxMessage // it is not said
		}
		if !s.Budget.take(size) {
			refuse(w, http.StatusServiceUnavailable, &fault{nil, codeTooMuch, "too much at once: wait for answers, and try again"})
			return
		}
		defer s.Budget.give(size)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		if err != nil {
			status := http.StatusBadRequest
			if large := new(http.MaxBytesError); errors.As(err, &large) {
				status = http.StatusRequestEntityTooLarge
			}
			refuse(w, status, &fault{nil, jsonrpc.CodeInvalidRequest, "the message cannot be read whole"})
			return
		}
		m, f := parse(body)
		switch {
		case f != nil:
			refuse(w, http.StatusBadRequest, f)
			return
		case m.reply:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if body, err = m.encode(); err != nil {
			refuse(w, http.StatusBadRequest, &fault{m.raw, jsonrpc.CodeInvalidRequest, "the message cannot be read"})
			return
		}
		ctx := context.WithValue(r.Context(), goneKey{}, r.Context())
		r, release := by.holding(r.WithContext(ctx))
		defer release()
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// goneKey is under which a call finds the context of the request that it came by: the SDK
// keeps its end from calls of the older era.
type goneKey struct{}

// withGone ends a call's context when its client has gone.
func withGone(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	gone, ok := ctx.Value(goneKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(gone, cancel)
	return ctx, func() { stop(); cancel() }
}

// encode is the message as it was read, and nothing else.
func (m message) encode() ([]byte, error) {
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params,omitempty"`
	}{"2.0", m.raw, m.method, m.params})
}

// refuse answers what is not handed on.
func refuse(w http.ResponseWriter, status int, f *fault) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(f.encode()) // the client has gone, then
}
