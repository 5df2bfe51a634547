package agentstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// farewell is what the model says when it has asked for all tools.
const farewell = "all tools were asked for"

// A call is a tool that the model asks for.
type call struct {
	space string // of the tool, where the protocol has such
	tool  string
	input map[string]any
}

// A model stands in for a provider. It asks for one tool after the other, each when the
// agent has handed back what the one before it gave, and then says farewell:
//
//	agent                                   model
//	  POST: the conversation so far  ──────→
//	                                 ←────── call 0
//	  POST: the same, and result 0   ──────→
//	                                 ←────── call 1
//	  …
//	                                 ←────── farewell
//
// It knows what of the Messages API and the Responses API such a conversation needs.
type model struct {
	port  string
	calls []call

	mu      sync.Mutex
	results []string // of the calls, as JSON
	unknown []string // requests that it has no answer for
}

// newModel serves a model on the host's loopback until the test ends.
func newModel(t *testing.T, calls ...call) *model {
	m := &model{calls: calls}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.messages)
	mux.HandleFunc("POST /v1/responses", m.responses)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.unknown = append(m.unknown, r.Method+" "+r.URL.Path)
		http.NotFound(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	m.port = at.Port()
	return m
}

// result returns what the agent handed back for a call.
func (m *model) result(t *testing.T, n int) string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n >= len(m.results) {
		t.Fatalf("the agent handed back %d results, not %d: %q; unknown requests: %q", len(m.results), n+1, m.results, m.unknown)
	}
	return m.results[n]
}

// next notes the results of a conversation and returns the call that follows.
func (m *model) next(results []string) (int, *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(results) > len(m.results) {
		m.results = results
	}
	if n := len(results); n < len(m.calls) {
		return n, &m.calls[n]
	}
	return len(results), nil
}

// object is a JSON object.
type object = map[string]any

// messages answers as the Messages API does when it streams.
func (m *model) messages(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model    string
		Tools    []json.RawMessage
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var results []string
	for _, message := range asked.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &blocks) // or it is a string
		for _, b := range blocks {
			if b.Type == "tool_result" {
				results = append(results, string(b.Content))
			}
		}
	}
	n, c := m.next(results)
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": farewell}, "end_turn"
	if c != nil && len(asked.Tools) > 0 { // a request without tools is about something else, such as a title
		block = object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", n), "name": c.tool, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": compact(c.input)}, "tool_use"
	}
	stream(w,
		object{"type": "message_start", "message": object{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "model": asked.Model,
			"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": 1}}},
		object{"type": "content_block_start", "index": 0, "content_block": block},
		object{"type": "content_block_delta", "index": 0, "delta": delta},
		object{"type": "content_block_stop", "index": 0},
		object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 1}},
		object{"type": "message_stop"})
}

// responses answers as the Responses API does when it streams.
func (m *model) responses(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var results []string
	for _, item := range asked.Input {
		if strings.HasSuffix(item.Type, "_call_output") {
			results = append(results, string(item.Output))
		}
	}
	n, c := m.next(results)
	item := object{"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d", n), "content": []any{object{"type": "output_text", "text": farewell}}}
	if c != nil {
		item = object{"type": "function_call", "id": fmt.Sprintf("fc_%d", n), "call_id": fmt.Sprintf("call_%d", n), "name": c.tool, "arguments": compact(c.input)}
		if c.space != "" {
			item["namespace"] = c.space
		}
	}
	id := fmt.Sprintf("resp_%d", n)
	stream(w,
		object{"type": "response.created", "response": object{"id": id}},
		object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": object{"id": id, "usage": object{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
}

// stream sends server-sent events.
func stream(w http.ResponseWriter, events ...object) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], compact(e))
	}
}

// compact returns v as JSON on one line.
func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the test wrote v
	}
	return string(data)
}
