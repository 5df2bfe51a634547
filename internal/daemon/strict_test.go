package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// canary stands wherever a test sends something that must not come back.
const canary = "CANARY7720"

// echoes looks for the canary in everything that left the daemon, its own log and the
// signed log of refusals apart from nothing.
func (p *plane) echoes(what, answer string) {
	p.t.Helper()
	for name, text := range map[string]string{"the answer": answer, "the log": p.said.String()} {
		if strings.Contains(strings.ToUpper(text), canary) {
			p.t.Errorf("%s: what was sent stands in %s: %s", what, name, text)
		}
	}
}

// What says two things, or something that is not known, is refused, with the right status
// and without a word of it in the answer or in the log.
func TestStrict(t *testing.T) {
	p := begin(t)
	local := p.config.Home + "/" + SocketName
	deep := strings.Repeat(`{"`+canary+`":[`, 6000) + strings.Repeat("]}", 6000)
	for name, c := range map[string]struct {
		line, kind, body string
		want             int
		at               string // where the answer says that it is
	}{
		"a key twice":              {"PUT /v1/boundaries", "", `{"after":0,"after":1,"document":` + rules + `}`, 422, `"body.after"`},
		"a key twice below":        {"POST /v1/boundaries/test", "", `{"command":"x","document":{"` + canary + `":{"a":1,"a":2}}}`, 422, `"body.document"`},
		"another case":             {"PUT /v1/boundaries", "", `{"After":0,"document":` + rules + `}`, 422, ""},
		"both cases":               {"PUT /v1/boundaries", "", `{"after":0,"AFTER":0,"document":` + rules + `}`, 422, ""},
		"unknown":                  {"PUT /v1/boundaries", "", `{"after":0,"document":` + rules + `,"` + canary + `":1}`, 422, ""},
		"unknown below":            {"POST /v1/log/verify", "", `{"checkpoints":[{"statement":"","signature":"","` + canary + `":1}]}`, 422, `"body.checkpoints.0"`},
		"missing":                  {"PUT /v1/boundaries", "", `{"after":0}`, 422, ""},
		"trailing":                 {"POST /v1/log/verify", "", `{} {"` + canary + `":1}`, 422, ""},
		"trailing word":            {"POST /v1/log/verify", "", `{}` + canary, 422, ""},
		"not UTF-8":                {"POST /v1/diagnostics-tokens", "", "{\"name\":\"" + canary + "\xff\"}", 422, ""},
		"half a pair":              {"POST /v1/diagnostics-tokens", "", `{"name":"` + canary + `\ud800"}`, 422, ""},
		"a NUL":                    {"POST /v1/diagnostics-tokens", "", `{"name":"` + canary + `\u0000"}`, 422, ""},
		"a control character":      {"POST /v1/diagnostics-tokens", "", `{"name":"` + canary + `\u001b[2J"}`, 422, ""},
		"an empty name":            {"POST /v1/diagnostics-tokens", "", `{"name":""}`, 422, `"body.name"`},
		"a long name":              {"POST /v1/diagnostics-tokens", "", `{"name":"` + strings.Repeat(canary, 100) + `"}`, 422, `"body.name"`},
		"a time that is none":      {"POST /v1/diagnostics-tokens", "", `{"name":"x","expires":"` + canary + `"}`, 422, `"body.expires"`},
		"a past time":              {"POST /v1/diagnostics-tokens", "", `{"name":"x","expires":"2020-01-01T00:00:00Z"}`, 422, ""},
		"a deep one":               {"POST /v1/boundaries/test", "", `{"command":"x","document":` + deep + `}`, 422, ""},
		"a deeper one":             {"POST /v1/boundaries/test", "", strings.Repeat("[", 1<<20), 422, ""},
		"another type":             {"PUT /v1/boundaries", "", `{"after":"` + canary + `","document":{}}`, 422, `"body.after"`},
		"a huge number":            {"PUT /v1/boundaries", "", `{"after":1e99999,"document":` + rules + `}`, 422, ""},
		"a large number":           {"PUT /v1/boundaries", "", `{"after":9223372036854775808,"document":` + rules + `}`, 422, ""},
		"a fraction":               {"PUT /v1/boundaries", "", `{"after":0.5,"document":` + rules + `}`, 422, ""},
		"a negative number":        {"PUT /v1/boundaries", "", `{"after":-1,"document":` + rules + `}`, 422, `"body.after"`},
		"the last number":          {"PUT /v1/boundaries", "", `{"after":9223372036854775807,"document":` + rules + `}`, 422, `"body.after"`},
		"no object":                {"PUT /v1/boundaries", "", `["` + canary + `"]`, 422, ""},
		"null":                     {"PUT /v1/boundaries", "", `null`, 422, ""},
		"a null document":          {"PUT /v1/boundaries", "", `{"after":0,"document":null}`, 422, ""},
		"a text for a document":    {"PUT /v1/boundaries", "", `{"after":0,"document":"` + canary + `"}`, 422, ""},
		"cut short":                {"PUT /v1/boundaries", "", `{"after":0,"document":{"` + canary, 422, ""},
		"empty":                    {"PUT /v1/boundaries", "", "", 422, ""},
		"only blanks":              {"PUT /v1/boundaries", "", "  \n", 422, ""},
		"a byte order mark":        {"POST /v1/log/verify", "", "\ufeff{}", 422, ""},
		"a comment":                {"POST /v1/log/verify", "", "{} // " + canary, 422, ""},
		"no base64":                {"POST /v1/log/verify", "", `{"checkpoints":[{"statement":"` + canary + `!","signature":""}]}`, 422, ""},
		"a statement of nobody":    {"POST /v1/log/verify", "", `{"checkpoints":[{"statement":"eyJrZXkiOiJDQU5BUlk3NzIwIn0=","signature":"AAAA"}]}`, 200, ""},
		"two things to test":       {"POST /v1/boundaries/test", "", `{"command":"` + canary + `","path":"/x"}`, 422, ""},
		"an unknown operation":     {"POST /v1/boundaries/test", "", `{"path":"/x","operation":"` + canary + `"}`, 422, `"body.operation"`},
		"a form":                   {"PUT /v1/boundaries", "application/x-www-form-urlencoded", canary + "=1", 415, ""},
		"plain text":               {"POST /v1/log/verify", "text/plain", `{}`, 415, ""},
		"no type":                  {"POST /v1/log/verify", "-", `{}`, 415, ""},
		"another type of body":     {"POST /v1/log/verify", "application/" + canary, `{}`, 415, ""},
		"a type of JSON":           {"POST /v1/log/verify", "application/problem+json", `{}`, 415, ""},
		"two types":                {"POST /v1/log/verify", "application/json\r\nContent-Type: text/plain", `{}`, 415, ""},
		"another character set":    {"POST /v1/log/verify", "application/json; charset=utf-16", `{}`, 415, ""},
		"utf-8":                    {"POST /v1/log/verify", "application/json; charset=UTF-8", `{}`, 200, ""},
		"packed":                   {"POST /v1/log/verify", "application/json\r\nContent-Encoding: gzip", "\x1f\x8b{}", 422, ""},
		"an unknown parameter":     {"GET /v1/log?" + canary + "=1", "", "", 422, `"query"`},
		"a parameter's case":       {"GET /v1/log?Most=1", "", "", 422, `"query"`},
		"a parameter twice":        {"GET /v1/log?most=1&most=2", "", "", 422, `"query.most"`},
		"an unknown one twice":     {"GET /v1/log?" + canary + "=1&" + canary + "=2", "", "", 422, `"query"`},
		"a semicolon":              {"GET /v1/log?most=1;after=2", "", "", 422, ""},
		"a bad escape":             {"GET /v1/log?run=%zz" + canary, "", "", 422, ""},
		"a NUL in a parameter":     {"GET /v1/log?run=%00" + canary, "", "", 422, ""},
		"not UTF-8 in a parameter": {"GET /v1/log?agent=%ff" + canary, "", "", 422, ""},
		"a number that is none":    {"GET /v1/log?most=" + canary, "", "", 422, `"query.most"`},
		"too many":                 {"GET /v1/log?most=10001", "", "", 422, `"query.most"`},
		"a large parameter":        {"GET /v1/log?after=99999999999999999999", "", "", 422, `"query.after"`},
		"a kind there is not":      {"GET /v1/log?kind=" + canary, "", "", 422, `"query.kind"`},
		"a time there is not":      {"GET /v1/log?since=" + canary, "", "", 422, `"query.since"`},
		"a parameter of another":   {"GET /v1/health?most=1", "", "", 422, `"query`},
		"a long parameter":         {"GET /v1/log?run=" + strings.Repeat(canary, 20), "", "", 422, `"query.run"`},
		"an unknown path":          {"GET /v1/" + canary, "", "", 404, ""},
		"an unknown method":        {canary + " /v1/health", "", "", 404, ""},
		"a method that is not":     {"DELETE /v1/boundaries", "", "", 404, ""},
		"an id of nothing":         {"DELETE /v1/diagnostics-tokens/" + canary, "", "", 404, ""},
		"an id with a NUL":         {"DELETE /v1/diagnostics-tokens/%00" + canary, "", "", 422, ""},
		"a long id":                {"DELETE /v1/diagnostics-tokens/" + strings.Repeat(canary, 20), "", "", 422, ""},
		"a path that is cleaned":   {"GET /v1/../" + canary, "", "", 404, ""},
		"a body with GET":          {"GET /v1/health", "", `{"` + canary + `":1}`, 200, ""},
	} {
		kind := "Content-Type: application/json\r\n"
		switch {
		case c.kind == "-":
			kind = ""
		case c.kind != "":
			kind = "Content-Type: " + c.kind + "\r\n"
		}
		for _, chunked := range []bool{false, true} {
			body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(c.body), c.body)
			if chunked && c.body != "" {
				body = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(c.body), c.body)
			}
			status, all := raw(t, "unix", local, c.line+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: text/"+canary+"\r\n"+kind+body)
			if status != c.want || !strings.Contains(all, c.at) {
				t.Errorf("%s (chunked %v): %d, want %d at %s: %.600s", name, chunked, status, c.want, c.at, all)
			}
			if status >= 400 && !strings.Contains(all, `"code":"`) {
				t.Errorf("%s: the answer is no problem: %.600s", name, all)
			}
			p.echoes(name, all)
		}
	}
	if a := p.ask("GET", "/v1/diagnostics-tokens", ""); strings.Contains(a.body, canary) {
		t.Errorf("a token was made: %s", a.body)
	}
}

// What is too large is refused before it is read, and whoever is slow is let go.
func TestLargeAndSlow(t *testing.T) {
	p := begin(t)
	local := p.config.Home + "/" + SocketName
	if status, all := raw(t, "unix", local, fmt.Sprintf("PUT /v1/boundaries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", maxBody+1)); status != 413 || !strings.Contains(all, "invalid") {
		t.Errorf("by its length: %d %s", status, all)
	}
	big := strings.Repeat(" ", maxBody+1)
	if status, all := raw(t, "unix", local, fmt.Sprintf("PUT /v1/boundaries HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(big), big)); status != 413 || !strings.Contains(all, "invalid") {
		t.Errorf("in chunks: %d %s", status, all)
	}
	if status, _ := raw(t, "unix", local, "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 2*maxHeader)+"\r\n\r\n"); status != 431 {
		t.Errorf("a large header: %d", status)
	}
	for name, request := range map[string]string{
		"two lengths":          "POST /v1/log/verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
		"two ways of length":   "POST /v1/log/verify HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked, identity\r\n\r\n{}",
		"no hexadecimal chunk": "POST /v1/log/verify HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n{}\r\n0\r\n\r\n",
	} {
		status, all := raw(t, "unix", local, request)
		if status < 400 || status > 501 || status == 500 {
			t.Errorf("%s: %d %s", name, status, all)
		}
		p.echoes(name, all)
	}
}

// A request whose head or body does not come is let go, and meanwhile others are served;
// one user's connections are not all that there are.
func TestSlow(t *testing.T) {
	t.Parallel()
	p := begin(t)
	local := p.config.Home + "/" + SocketName
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range maxPerUser + 20 {
		c, err := net.Dial("unix", local)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		_, _ = io.WriteString(c, "GET /v1/health HT")
	}
	// Those beyond one user's places are closed at once.
	closed := 0
	for _, c := range held[maxPerUser:] {
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "reset") {
			closed++
		}
	}
	if closed < 19 { // one place may have been somebody else's
		t.Errorf("%d of 20 connections beyond the limit were closed", closed)
	}
	// HTTP is another door.
	token, _ := p.token(time.Time{})
	if a := ask(t, http.DefaultClient, "GET", p.base+"/v1/health", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	// Who is slow is let go.
	if err := held[0].SetReadDeadline(time.Now().Add(headWithin + 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(bufio.NewReader(held[0])); err != nil {
		t.Errorf("a head that does not come is waited for: %q %v", text, err)
	}
	until(t, 10*time.Second, "there is room again", func() bool {
		c, err := net.Dial("unix", local)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, "GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		text, err := io.ReadAll(c)
		return err == nil && strings.Contains(string(text), " 200 ")
	})
}

// FuzzStrict: what the strict format takes says one thing, to it and to others.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{`{}`, `{"after":0,"document":{}}`, `{"after":0,"after":1}`, `{"After":0}`, "{\"after\":\"\xff\"}", `{"document":{"a":1,"a":2}}`, `[1]`, `nul`, `{} {}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { strictly(t, data) })
}
