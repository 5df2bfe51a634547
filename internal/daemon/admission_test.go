package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// token makes a diagnostics token.
func (p *plane) token(expires time.Time) (token, id string) {
	p.t.Helper()
	var until *time.Time
	if !expires.IsZero() {
		until = &expires
	}
	token, kept, err := p.store.NewDiagnosticsToken(p.t.Context(), "test", "test", until)
	if err != nil {
		p.t.Fatal(err)
	}
	return token, kept.ID
}

// raw sends a request as it stands here to an address and returns the status and all of the
// answer.
func raw(t testing.TB, network, address, request string) (status int, all string) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, fmt.Sprint(resp.Header) + string(body)
}

// A diagnostics token reads four addresses, written as they are, and nothing else.
func TestDiagnosticsToken(t *testing.T) {
	p := begin(t)
	token, _ := p.token(time.Time{})
	tcp, local := strings.TrimPrefix(p.base, "http://"), p.config.Home+"/"+SocketName
	for line, want := range map[string]int{
		"GET /v1/health": 200, "GET /v1/status": 200, "GET /metrics": 200, "GET /v1/traces": 200,
		"HEAD /v1/health": 403, "POST /v1/health": 403, "PUT /v1/health": 403, "OPTIONS /v1/health": 403, "get /v1/health": 403, "PROPFIND /v1/health": 403,
		"GET //v1/health": 403, "GET /v1/health/": 403, "GET /v1//health": 403, "GET /v1/./health": 403, "GET /v1/health/../boundaries": 403,
		"GET /v1/boundaries/../health": 403, "GET /v1/%68ealth": 403, "GET /v1%2fhealth": 403, "GET /v1/%2e/health": 403, "GET /v1/health;x": 403,
		"GET /v1/health%00": 403, "GET /V1/health": 403, "GET /v1/Health": 403, "GET /METRICS": 403, "GET /v1/health%20": 403, "GET /v1/health.json": 403,
		"GET /v1/boundaries": 403, "PUT /v1/boundaries": 403, "GET /v1/log": 403, "POST /v1/log/verify": 403, "GET /v1/log/export": 403,
		"GET /v1/diagnostics-tokens": 403, "POST /v1/diagnostics-tokens": 403, "GET /openapi.json": 403, "GET /openapi.yaml": 403, "GET /": 403, "OPTIONS *": 403,
		"GET http://localhost/v1/health": 200, "GET http://localhost/v1/log": 403, "GET http://elsewhere.example.com/v1/log": 403, "CONNECT localhost:1": 403,
		"GET /v1/health?x=1": 422, "GET /v1/health?": 200,
	} {
		for network, address := range map[string]string{"tcp": tcp, "unix": local} {
			status, _ := raw(t, network, address, line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\nX-HTTP-Method-Override: PUT\r\nX-Original-URL: /v1/log\r\n\r\n")
			if status != want {
				t.Errorf("%s over %s: %d, want %d", line, network, status, want)
			}
		}
	}
	// The method that a header asks for instead is not one.
	if status, all := raw(t, "tcp", tcp, "GET /v1/boundaries HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: bearer "+token+"\r\nX-HTTP-Method: GET\r\n\r\n"); status != 403 {
		t.Errorf("%d %s", status, all)
	}
}

// A bearer that is none is nobody, at the local socket too: who sent it is not asked instead.
func TestBadBearer(t *testing.T) {
	p := begin(t)
	good, _ := p.token(time.Time{})
	revoked, id := p.token(time.Time{})
	if a := p.ask("DELETE", "/v1/diagnostics-tokens/"+id, ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := p.ask("DELETE", "/v1/diagnostics-tokens/"+id, ""); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	expired, _ := p.token(time.Now().Add(-time.Second))
	header := func(values ...string) string {
		var h strings.Builder
		for _, v := range values {
			fmt.Fprintf(&h, "%s\r\n", v)
		}
		return h.String()
	}
	for name, h := range map[string]string{
		"expired":      header("Authorization: Bearer " + expired),
		"revoked":      header("Authorization: Bearer " + revoked),
		"mangled":      header("Authorization: Bearer " + good[:len(good)-1]),
		"longer":       header("Authorization: Bearer " + good + "A"),
		"upper case":   header("Authorization: Bearer " + strings.ToUpper(good)),
		"two blanks":   header("Authorization: Bearer  " + good),
		"no scheme":    header("Authorization: " + good),
		"basic":        header("Authorization: Basic " + good),
		"empty":        header("Authorization:"),
		"only scheme":  header("Authorization: Bearer"),
		"two":          header("Authorization: Bearer "+good, "Authorization: Bearer "+good),
		"bad and good": header("Authorization: Bearer x", "authorization: Bearer "+good),
		"a list":       header("Authorization: Bearer " + good + ", Bearer " + good),
		"another kind": header("Authorization: Bearer bourn_session_" + strings.TrimPrefix(good, "bourn_diag_")),
		"in utf-8":     header("Authorization: Bearer " + good + "\u00e9"),
		"a nobody":     "",
		"a cookie":     header("Cookie: session=" + good),
		"a proxy's":    header("Proxy-Authorization: Bearer " + good),
		"in the query": "",
	} {
		path := "/v1/health"
		if name == "in the query" {
			path += "?access_token=" + good
		}
		for network, address := range map[string]string{"tcp": strings.TrimPrefix(p.base, "http://"), "unix": p.config.Home + "/" + SocketName} {
			if !strings.Contains(h, "uthorization") || strings.Contains(h, "Proxy-") {
				if network == "unix" {
					continue // that is a member's own request
				}
			}
			status, all := raw(t, network, address, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+h+"\r\n")
			if status != 403 || !strings.Contains(all, `"code":"denied"`) {
				t.Errorf("%s over %s: %d %s", name, network, status, all)
			}
			for _, secret := range []string{good, expired, revoked} {
				if strings.Contains(all, secret[11:]) || strings.Contains(p.said.String(), secret[11:30]) {
					t.Errorf("%s over %s: the token stands in the answer or in the log", name, network)
				}
			}
		}
	}
	if log := p.ask("GET", "/v1/log?outcome=denied", "").body; !strings.Contains(log, "ask the control plane") || strings.Contains(log, good[11:]) {
		t.Errorf("the log of refusals: %s", log)
	}
	if a := ask(t, http.DefaultClient, "GET", p.base+"/v1/health", "", func(r *http.Request) { r.Header.Set("Authorization", "BEARER "+good) }); a.status != 200 {
		t.Errorf("a good one: %d %s", a.status, a.body)
	}
}

// A page of another site gets nothing, whatever it leads a browser to send.
func TestOtherSites(t *testing.T) {
	p := begin(t)
	token, _ := p.token(time.Time{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host, header string
		want         int
	}{
		"localhost":         {"localhost:" + port, "", 200},
		"upper case":        {"LOCALHOST", "", 200},
		"127.0.0.1":         {"127.0.0.1:" + port, "", 200},
		"[::1]":             {"[::1]:" + port, "", 200},
		"rebinding":         {"evil.example.com:" + port, "", 403},
		"a sub-domain":      {"localhost.example.com", "", 403},
		"a dot":             {"localhost.", "", 403},
		"another loopback":  {"127.0.0.2", "", 403},
		"all addresses":     {"0.0.0.0", "", 403},
		"no host":           {"", "", 403},
		"another's page":    {"localhost:" + port, "Origin: http://evil.example.com\r\n", 403},
		"another port":      {"localhost:" + port, "Origin: http://localhost:1\r\n", 403},
		"a file":            {"localhost:" + port, "Origin: null\r\n", 403},
		"cross-site":        {"localhost:" + port, "Sec-Fetch-Site: cross-site\r\n", 403},
		"same site":         {"localhost:" + port, "Sec-Fetch-Site: same-site\r\n", 403},
		"the own page":      {"localhost:" + port, "Origin: http://localhost:" + port + "\r\nSec-Fetch-Site: same-origin\r\n", 200},
		"typed in":          {"localhost:" + port, "Sec-Fetch-Site: none\r\n", 200},
		"forwarded":         {"evil.example.com", "X-Forwarded-Host: localhost\r\n", 403},
		"forwarded outward": {"localhost", "X-Forwarded-Host: evil.example.com\r\n", 200},
	} {
		status, all := raw(t, "tcp", "127.0.0.1:"+port, "GET /v1/health HTTP/1.1\r\nHost: "+c.host+"\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n"+c.header+"\r\n")
		if status != c.want || strings.Contains(all, "evil.example.com") || strings.Contains(all, "Access-Control") {
			t.Errorf("%s: %d, want %d: %s", name, status, c.want, all)
		}
		if c.header == "" && c.host != "" {
			if status, all := raw(t, "unix", p.config.Home+"/"+SocketName, "GET /v1/health HTTP/1.1\r\nHost: "+c.host+"\r\nConnection: close\r\n\r\n"); status != 200 {
				t.Errorf("%s at the local socket: %d %s", name, status, all)
			}
		}
	}
}

// A member who is none any more is out within a second or two; one who is no administrator
// reads no log.
func TestMembers(t *testing.T) {
	p := begin(t)
	all, err := p.store.Roster(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	me := all[0]
	me.Administrator = false
	if err := p.store.PutMember(t.Context(), me); err != nil {
		t.Fatal(err)
	}
	until(t, 5*time.Second, "it is known", func() bool { return p.ask("GET", "/v1/log", "").status == 403 })
	for _, a := range []struct{ method, path, body string }{
		{"GET", "/v1/log", ""}, {"GET", "/v1/log/export", ""}, {"POST", "/v1/log/verify", "{}"}, {"PUT", "/v1/boundaries", `{"after":0,"document":` + rules + `}`},
		{"GET", "/v1/boundaries", ""}, {"GET", "/v1/boundaries/history", ""}, {"POST", "/v1/boundaries/test", `{"path":"/x"}`}, {"GET", "/v1/traces", ""},
		{"GET", "/v1/diagnostics-tokens", ""}, {"POST", "/v1/diagnostics-tokens", `{"name":"x"}`}, {"DELETE", "/v1/diagnostics-tokens/x", ""},
	} {
		if got := p.ask(a.method, a.path, a.body); got.status != 403 || got.problem(t).Hint == "" {
			t.Errorf("%s %s: %d %s", a.method, a.path, got.status, got.body)
		}
	}
	if got := p.ask("GET", "/v1/status", ""); got.status != 200 || strings.Contains(string(got.body), "hardBlocks") {
		t.Errorf("status: %d %s", got.status, got.body)
	}
	me.Removed = true
	if err := p.store.PutMember(t.Context(), me); err != nil {
		t.Fatal(err)
	}
	until(t, 5*time.Second, "it is known", func() bool { return p.ask("GET", "/v1/health", "").status == 403 })
}
