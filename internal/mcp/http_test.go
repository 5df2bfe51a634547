package mcp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// posted sends a message over HTTP.
func posted(t *testing.T, ctx context.Context, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(data)
}

func TestHTTP(t *testing.T) {
	h := holding()
	h.Budget = NewBudget(4000)
	s := httptest.NewServer(h.Handler())
	defer s.Close()
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:                                                       {200, `"cacheScope":"private"`},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`:               {200, "at once"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"echo","arguments":{}}}`: {400, "twice"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Arguments":{}}}`:               {400, "case only"},
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                                                           {400, "batches"},
		`nonsense`:                             {400, "not JSON"},
		`{"jsonrpc":"2.0","id":1,"result":{}}`: {202, ""},
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                                                                        {202, ""},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"t":"` + strings.Repeat("x", 4000) + `"}}}`: {503, "-32000"},
	} {
		if status, got := posted(t, t.Context(), s.URL, body); status != want.status || !strings.Contains(got, want.says) {
			t.Errorf("%.100s: %d %s, want %d with %q", body, status, got, want.status, want.says)
		}
	}
	// A client of the older era that goes: the SDK alone would let its call go on.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		posted(t, ctx, s.URL, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":1}}}`)
	}()
	from(t, "the call begins", h.began)
	cancel()
	from(t, "the call is cancelled", h.cancelled)
	<-done
	s.Close() // waits until all is answered
	if h.Budget.left != 4000 {
		t.Errorf("%d bytes of the budget are left", h.Budget.left)
	}
}
