package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"bourn/api"

	"github.com/danielgtaylor/huma/v2"
)

func TestOpenAPI(t *testing.T) {
	p := begin(t)
	a := p.ask("GET", "/openapi.json", "")
	if a.status != 200 || a.header.Get("Content-Type") != "application/openapi+json" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	document := a.body
	var raw struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type            any
					ContentEncoding string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(document), &raw); err != nil {
		t.Fatal(err)
	}
	if raw.OpenAPI != "3.1.0" {
		t.Errorf("version %s", raw.OpenAPI)
	}
	// What is described is there, and each once.
	names := map[string]bool{}
	for path, item := range raw.Paths {
		for method, op := range item {
			if op.OperationID == "" || names[op.OperationID] {
				t.Errorf("%s %s has the name %q, as another has or none", method, path, op.OperationID)
			}
			names[op.OperationID] = true
			if a := p.ask(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", "x"), ""); a.status == 404 && !strings.Contains(path, "{id}") {
				t.Errorf("%s %s is described and not there", method, path)
			}
		}
	}
	if len(names) < 12 {
		t.Errorf("%d routes are described", len(names))
	}
	// Every reference leads somewhere.
	for ref := range strings.SplitSeq(document, `"$ref":"`) {
		at, _, _ := strings.Cut(ref, `"`)
		if name, ok := strings.CutPrefix(at, "#/components/schemas/"); ok && len(raw.Components.Schemas[name].Properties) == 0 {
			t.Errorf("%s leads nowhere", at)
		}
	}
	if strings.Contains(document, "$schema") {
		t.Error("schemas link to addresses that are not served")
	}
	for _, c := range []struct{ schema, property, want string }{
		{"SaveBoundaries", "document", "object"}, {"TestBoundaries", "document", "object"}, {"Boundaries", "document", "object"}, {"LogLine", "entry", "object"},
		{"SignedStatement", "statement", "string"}, {"SignedStatement", "signature", "string"},
	} {
		if got := fmt.Sprint(raw.Components.Schemas[c.schema].Properties[c.property].Type); got != c.want {
			t.Errorf("%s.%s is of the type %s, want %s", c.schema, c.property, got, c.want)
		}
	}
}

// Every answer is as the description says, of errors too, and the client reads it.
func TestAnswersAsDescribed(t *testing.T) {
	p := begin(t)
	described := newServer(p.control).api.OpenAPI()
	check := func(method, path, body string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, "http://bourn"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := p.socket.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, resp.StatusCode, want, text)
		}
		if strings.HasPrefix(path, "/v1/log/export") {
			return // lines, read below
		}
		pattern, _, _ := strings.Cut(path, "?")
		if strings.HasPrefix(path, "/v1/diagnostics-tokens/") {
			pattern = "/v1/diagnostics-tokens/{id}"
		}
		item := described.Paths[pattern]
		op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete}[method]
		answer := op.Responses[strconv.Itoa(resp.StatusCode)]
		if answer == nil {
			t.Errorf("%s %s: the answer %d is not described", method, path, resp.StatusCode)
			return
		}
		content := answer.Content[resp.Header.Get("Content-Type")]
		if content == nil {
			t.Errorf("%s %s: the answer %d of the type %s is not described", method, path, resp.StatusCode, resp.Header.Get("Content-Type"))
			return
		}
		var read any
		if err := json.Unmarshal(text, &read); err != nil {
			t.Error(err)
		}
		var result huma.ValidateResult
		huma.Validate(described.Components.Schemas, content.Schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeReadFromServer, read, &result)
		for _, found := range result.Errors {
			t.Errorf("%s %s: the answer %d is not as described: %v: %s", method, path, resp.StatusCode, found, text)
		}
	}
	check("GET", "/v1/health", "", 200)
	check("GET", "/v1/status", "", 200)
	check("GET", "/v1/boundaries", "", 200)
	check("PUT", "/v1/boundaries", `{"after":0,"document":`+rules+`}`, 200)
	check("PUT", "/v1/boundaries", `{"after":0,"document":`+rules+`}`, 409)
	check("PUT", "/v1/boundaries", `{"after":0,"document":{"hardBlocks":[{"id":"x","type":"path","pattern":"[","operations":[]}]}}`, 422)
	check("PUT", "/v1/boundaries", `{"after":0,"after":1}`, 422)
	check("PUT", "/v1/boundaries", ``, 422)
	check("GET", "/v1/boundaries", "", 200)
	check("GET", "/v1/boundaries/history?most=1", "", 200)
	check("POST", "/v1/boundaries/test", `{"command":"git -C x push"}`, 200)
	check("POST", "/v1/boundaries/test", `{"path":"/x","operation":"write"}`, 200)
	check("POST", "/v1/boundaries/test", `{"argv":["git","push"],"document":`+rules+`}`, 200)
	check("POST", "/v1/boundaries/test", `{}`, 422)
	check("POST", "/v1/diagnostics-tokens", `{"name":"x","expires":"2100-01-01T00:00:00Z"}`, 200)
	check("GET", "/v1/diagnostics-tokens", "", 200)
	check("DELETE", "/v1/diagnostics-tokens/x", "", 404)
	check("GET", "/v1/log", "", 200)
	check("GET", "/v1/log?most=0", "", 422)
	check("GET", "/v1/log?most=1&newest=true", "", 200)
	p.chained()
	check("POST", "/v1/log/verify", `{}`, 200)
	check("GET", "/v1/traces", "", 200)
	p.admin("control", "update control.metadata set value = '[1]' where key = 'execution_boundaries'")
	until(t, 3*time.Second, "it is read", func() bool { return p.boundaries.Show().State == "invalid" })
	check("GET", "/v1/boundaries", "", 200)
	check("GET", "/v1/boundaries/history", "", 200)
	check("GET", "/v1/health", "", 200)

	c := api.NewSocketClient(p.config.Home + "/" + SocketName)
	made, err := c.NewDiagnosticsToken(t.Context(), api.NewDiagnosticsToken{Name: "grafana"})
	if err != nil || made.Token == "" {
		t.Fatalf("%+v, %v", made, err)
	}
	if h, err := api.NewClient(p.base, made.Token).Health(t.Context()); err != nil || h.Status != "degraded" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := c.RevokeDiagnosticsToken(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
	if _, err := api.NewClient(p.base, made.Token).Health(t.Context()); err == nil {
		t.Error("a revoked token is let in")
	}
	verified, err := c.VerifyLog(t.Context(), api.VerifyLog{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.VerifyLog(t.Context(), api.VerifyLog{Checkpoints: []api.SignedStatement{verified.Checkpoint}}); err != nil {
		t.Errorf("a checkpoint as it was given is not taken: %v", err)
	}
}

// The export is the whole log, each entry as it was signed.
func TestExport(t *testing.T) {
	p := begin(t)
	p.note(2500)
	v := p.chained()
	a := p.ask("GET", "/v1/log/export", "")
	if got := strings.Count(a.body, "\n"); a.status != 200 || int64(got) < v.Entries {
		t.Errorf("%d: %d lines of %d", a.status, got, v.Entries)
	}
	var first api.LogLine
	line, _, _ := strings.Cut(a.body, "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil || first.Position != 1 {
		t.Errorf("%s: %v", line, err)
	}
	// One that breaks off is seen to: the answer does not end as a whole one does.
	p.admin("control", "alter table log.entry rename to moved")
	status, all := raw(t, "unix", p.config.Home+"/"+SocketName, "GET /v1/log/export HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if status == 200 && !strings.Contains(all, "EOF") {
		t.Errorf("%d %.300s", status, all)
	}
}
