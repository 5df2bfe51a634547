package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn/internal/operation"
	"bourn/internal/run/runtest"
)

// A toolClient is a client of `bourn mcp serve`.
type toolClient struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said *strings.Builder

	hello string // the answer to initialize
}

// toolServer starts a program that serves MCP on its standard streams, and says hello.
func toolServer(t testing.TB, u *runtest.User, line ...string) *toolClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := &toolClient{t: t, cmd: u.Command(ctx, runtest.Binary(t), line...), said: &strings.Builder{}}
	c.cmd.Stderr = c.said
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.send(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if c.hello = c.next(); !strings.Contains(c.hello, `"serverInfo"`) {
		t.Fatalf("it does not say hello: %s\n%s", c.hello, c.said)
	}
	return c
}

func (c *toolClient) send(id int, method, params string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		c.t.Fatalf("cannot ask: %v\n%s", err, c.said)
	}
}

func (c *toolClient) next() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.in.Close()
		_ = c.cmd.Wait()
		c.t.Fatalf("no answer: %v\n%s", err, c.said)
	}
	return line
}

// call calls a tool and returns its text.
func (c *toolClient) call(name, arguments string) string {
	c.t.Helper()
	c.send(2, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	return toolText(c.t, c.next())
}

// toolText is what an answer to a call says.
func toolText(t testing.TB, answer string) string {
	t.Helper()
	var a struct {
		Result struct{ Content []struct{ Text string } }
		Error  struct{ Message string }
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if len(a.Result.Content) == 0 {
		return "error: " + a.Error.Message
	}
	return a.Result.Content[0].Text
}

// leaves ends the client and returns the server's exit status.
func (c *toolClient) leaves() int {
	c.t.Helper()
	c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

// runs reports whether a process has a word among its arguments.
func runs(t *testing.T, word string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range lines {
		if data, err := os.ReadFile(at); err == nil && strings.Contains(string(data), "\x00"+word+"\x00") {
			return true
		}
	}
	return false
}

func (c *toolClient) mustSay(want, name, arguments string) {
	c.t.Helper()
	if got := c.call(name, arguments); !strings.Contains(got, want) {
		c.t.Errorf("%s %s: %q, want %q", name, arguments, got, want)
	}
}

// TestToolsOutside has a client outside of runs use an agent's tools, by a run of its own.
func TestToolsOutside(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("a.txt", "hello\n")
		u.Write(".env", "secret")
		succeeds(t, u, "agent", "create", "mur", "--write", ".", "--deny", ".env", "--", "sleep", "600")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		c.mustSay("hello", "files_read", `{"path":"a.txt"}`)
		c.mustSay("denied", "files_read", `{"path":".env"}`)
		c.mustSay("unsupported_tool", "no_tool", `{}`)
		c.mustSay("made", "files_write", `{"path":"b.txt","content":"x"}`)
		c.mustSay("Permission denied", "shell_exec", `{"command":"cat .env b.txt"}`)
		// Neither tools nor agents lead further from inside.
		c.mustSay("unknown method", "shell_exec", `{"command":"echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}' | /run/bourn/bourn mcp serve"}`)
		c.mustSay("not possible inside a seal", "shell_exec", `{"command":"/run/bourn/bourn mcp serve --agent mur"}`)
		if got := u.Read("b.txt"); got != "x" {
			t.Errorf("b.txt holds %q", got)
		}
		if status := c.leaves(); status != 0 || c.said.String() != "" {
			t.Errorf("status %d: %s", status, c.said)
		}
		within(t, "the log has the run and its calls", func() bool {
			log := succeeds(t, u, "audit", "tail")
			return strings.Contains(log, "run started") && strings.Contains(log, "run ended") && strings.Contains(log, "files_write")
		})
		gone(t, u)
		fails(t, u, 2, "--agent names nobody", "mcp", "serve")
		fails(t, u, 1, `no agent "none"`, "mcp", "serve", "--agent", "none")
	})
}

// gone has clients leave, and be killed, while a command of theirs runs.
func gone(t *testing.T, u *runtest.User) {
	for i, leave := range []func(*toolClient){
		func(c *toolClient) { c.leaves() },
		func(c *toolClient) { _ = c.cmd.Process.Kill(); c.leaves() },
		func(c *toolClient) { _ = c.cmd.Process.Signal(os.Interrupt); c.leaves() },
	} {
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		for len := range 2 {
			c.send(10+len, "tools/call", fmt.Sprintf(`{"name":"shell_exec","arguments":{"command":"sleep 98765%d%d"}}`, i, len))
		}
		word := fmt.Sprintf("98765%d1", i)
		within(t, "the command runs", func() bool { return runs(t, word) })
		began := time.Now()
		leave(c)
		within(t, "nothing of it runs", func() bool { return !runs(t, word) && !runs(t, fmt.Sprintf("98765%d0", i)) })
		if took := time.Since(began); took > time.Second {
			t.Errorf("client %d: its commands end after %s", i, took)
		}
	}
}

// TestToolsInside has a client in a run use the run's tools.
func TestToolsInside(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("a.txt", "hello\n")
		u.Write(".env", "secret")
		c := toolServer(t, u, "run", "-q", "--deny", ".env", "--", "/run/bourn/bourn", "mcp", "serve")
		c.mustSay("hello", "files_read", `{"path":"a.txt"}`)
		c.mustSay("denied", "files_read", `{"path":".env"}`)
		c.send(5, "tools/call", `{"name":"shell_exec","arguments":{"command":"sleep 9876599"}}`)
		within(t, "the command runs", func() bool { return runs(t, "9876599") })
		c.send(6, "notifications/cancelled", `{"requestId":5}`) // a request of that name: not it
		if got := toolText(t, c.next()); !strings.Contains(got, "error: ") || !runs(t, "9876599") {
			t.Errorf("a request cancels: %s", got)
		}
		if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`+"\n"); err != nil {
			t.Fatal(err)
		}
		within(t, "the command is ended", func() bool { return !runs(t, "9876599") })
		c.mustSay("hello", "files_read", `{"path":"a.txt"}`)
		c.send(7, "tools/call", `{"name":"shell_exec","arguments":{"command":"echo first"},"_meta":{"progressToken":"mine"}}`)
		if told := c.next(); !strings.Contains(told, `"notifications/progress"`) || !strings.Contains(told, `"mine"`) || !strings.Contains(told, `first\n`) {
			t.Errorf("output is not told as it comes: %s", told)
		}
		if got := toolText(t, c.next()); !strings.Contains(got, "first") {
			t.Errorf("the result: %q", got)
		}
		c.leaves()

		// A client that goes takes its calls with it, and not the run.
		c = toolServer(t, u, "run", "-q", "--", "sh", "-c", "/run/bourn/bourn mcp serve; exec sleep 9876577")
		c.send(5, "tools/call", `{"name":"shell_exec","arguments":{"command":"sleep 9876566"}}`)
		within(t, "the command runs", func() bool { return runs(t, "9876566") })
		began := time.Now()
		c.in.Close()
		within(t, "the command is ended", func() bool { return !runs(t, "9876566") })
		if took := time.Since(began); took > time.Second {
			t.Errorf("it takes %s", took)
		}
		within(t, "the run goes on", func() bool { return runs(t, "9876577") })
		if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		c.leaves()
	})
}

// TestToolsStartControl has a client find no control plane.
func TestToolsStartControl(t *testing.T) {
	runtest.Need(t, "userns", canSeal(t))
	uid := os.Getuid()
	if uid == 0 { // whose database needs a flag
		uid = runtest.Nobody
	}
	u := runtest.NewUser(t, uid)
	if !withDatabase(t, u) {
		return
	}
	u.Env = append(u.Env, "PATH="+filepath.Dir(runtest.Binary(t))+":"+os.Getenv("PATH"))
	u.Write("a.txt", "hello\n")
	succeeds(t, u, "agent", "create", "mur", "--write", ".", "--", "sleep", "600")
	both := make(chan *toolClient)
	for range 2 { // as when an editor starts
		go func() { both <- toolServer(t, u, "mcp", "serve", "--agent", "mur") }()
	}
	for range 2 {
		c := <-both
		c.mustSay("hello", "files_read", `{"path":"a.txt"}`)
		defer c.leaves()
	}
	succeeds(t, u, "serve", "--status")
}

// TestToolsByHTTP has clients with tokens use an agent's tools.
func TestToolsByHTTP(t *testing.T) {
	controlledHTTP(t, func(t *testing.T, u *runtest.User, base string) {
		u.Write("a.txt", "hello\n")
		u.Write(".env", "secret")
		succeeds(t, u, "agent", "create", "mur", "--write", ".", "--deny", ".env", "--", "sleep", "600")
		succeeds(t, u, "agent", "create", "other", "--read", ".", "--", "sleep", "600")
		token, other := newToken(t, u, "mur"), newToken(t, u, "other")
		read := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"files_read","arguments":{"path":%q}}}`
		for _, tt := range []struct {
			body, bearer string
			headers      []string
			status       int
			says         string
		}{
			{fmt.Sprintf(read, "a.txt"), token, nil, 200, "hello"},
			{fmt.Sprintf(read, ".env"), token, nil, 200, "denied"},
			{fmt.Sprintf(read, ".env"), other, nil, 200, "secret"},
			{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"files_write","arguments":{"path":"c","content":""}}}`, other, nil, 200, "denied"},
			{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, token, nil, 200, "files_read"},
			{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, token, nil, 200, "serverInfo"},
			{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}`, token, nil, 200, "unsupported_tool"},
			// One meaning to every reader, or none.
			{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope","name":"files_read","arguments":{"path":"a.txt"}}}`, token, nil, 400, "twice"},
			{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"files_read","arguments":{"path":"a.txt"}}}`, token, nil, 400, "case only"},
			{`[` + fmt.Sprintf(read, "a.txt") + `]`, token, nil, 400, "batches"},
			{modern("files_read", "a.txt"), token, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "files_read"}, 200, "hello"},
			{modern("files_read", "a.txt"), token, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "files_list"}, 400, "-32020"},
			{modern("files_read", "a.txt"), token, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list", "Mcp-Name", "files_read"}, 400, "-32020"},
			{modern("files_read", "a.txt"), token, []string{"MCP-Protocol-Version", "2025-11-25"}, 400, ""},
			{fmt.Sprintf(read, strings.Repeat("x", 18<<20)), token, nil, 413, ""},
			// Who asks is the bearer's, and nobody else.
			{fmt.Sprintf(read, "a.txt"), "", nil, 403, "denied"},
			{fmt.Sprintf(read, "a.txt"), token[:len(token)-1], nil, 403, "bearer"},
			{fmt.Sprintf(read, "a.txt"), "bourn_agent_" + strings.Repeat("A", 43), nil, 403, "bearer"},
			{fmt.Sprintf(read, "a.txt"), token, []string{"Origin", "https://other.example"}, 403, "page"},
			{fmt.Sprintf(read, "a.txt"), token, []string{"Origin", "null"}, 403, "page"},
			{fmt.Sprintf(read, "a.txt"), token, []string{"Host", "other.example"}, 403, "host"},
			{fmt.Sprintf(read, "a.txt"), token, []string{"Content-Type", "text/plain"}, 415, ""},
		} {
			status, got := post(t, t.Context(), base+"/mcp", tt.bearer, tt.body, tt.headers...)
			if status != tt.status || !strings.Contains(got, tt.says) {
				t.Errorf("%.200s %v: %d %.300s, want %d with %q", tt.body, tt.headers, status, got, tt.status, tt.says)
			}
		}
		if status, got := post(t, t.Context(), base+"/v1/boundaries/test", token, `{"path":"/x"}`); status != 403 {
			t.Errorf("an agent token reaches more than its tools: %d %s", status, got)
		}
		leavesByHTTP(t, base, token)
		tokens := succeeds(t, u, "key", "mcp", "list")
		if strings.Contains(tokens, token) || strings.Count(tokens, u.Work) != 2 {
			t.Errorf("the list is\n%s", tokens)
		}
		id := strings.Fields(strings.Split(tokens, "\n")[2])[0] // the older one
		succeeds(t, u, "key", "mcp", "revoke", id)
		fails(t, u, 1, "no agent token of that id", "key", "mcp", "revoke", id)
		if status, got := post(t, t.Context(), base+"/mcp", token, fmt.Sprintf(read, "a.txt")); status != 403 {
			t.Errorf("a revoked token: %d %s", status, got)
		}
		if log := u.Read(filepath.Join(u.Home, ".bourn/bournd.log")) + succeeds(t, u, "audit", "tail"); strings.Contains(log, token) || strings.Contains(log, other) {
			t.Error("a log holds a token")
		}
		if !runs(t, "actor-host") {
			t.Error("no host runs: what ends below shows nothing")
		}
		succeeds(t, u, "serve", "--stop")
		within(t, "no host runs", func() bool { return !runs(t, "actor-host") })
	})
}

// leavesByHTTP has a client of either era go while its command runs.
func leavesByHTTP(t *testing.T, base, token string) {
	for i, headers := range [][]string{nil, {"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "shell_exec"}} {
		word := fmt.Sprintf("9876588%d", i)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell_exec","arguments":{"command":"sleep %s"}}}`, word)
		if headers != nil {
			body = strings.Replace(body, `"arguments"`, modernMeta+`,"arguments"`, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); post(nil, ctx, base+"/mcp", token, body, headers...) }()
		within(t, "the command runs", func() bool { return runs(t, word) })
		cancel()
		<-done
		within(t, "the command is ended", func() bool { return !runs(t, word) })
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modern is a call as the era of 2026-07-28 has it.
func modern(tool, path string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s,"name":%q,"arguments":{"path":%q}}}`, modernMeta, tool, path)
}

func newToken(t *testing.T, u *runtest.User, agent string) string {
	t.Helper()
	return strings.TrimSpace(succeeds(t, u, "key", "mcp", "new", "editor", "--agent", agent))
}

// post sends a message. Without t its failing is not told.
func post(t *testing.T, ctx context.Context, url, bearer, body string, headers ...string) (int, string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		if t != nil {
			t.Errorf("%v", err)
		}
		return 0, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil && t != nil {
		t.Errorf("%v", err)
	}
	return resp.StatusCode, string(data)
}

// controlledHTTP is controlled, with HTTP at a port of its own.
func controlledHTTP(t *testing.T, f func(t *testing.T, u *runtest.User, base string)) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		succeeds(t, u, "serve", "--stop")
		var started operation.Started
		out := succeeds(t, u, append([]string{"serve", "-d", "--json", "--listen", "localhost:0"}, u.DatabaseUser()...)...)
		if err := json.Unmarshal([]byte(out), &started); err != nil || started.HTTP == "" {
			t.Fatalf("%v: %s", err, out)
		}
		f(t, u, started.HTTP)
	})
}
