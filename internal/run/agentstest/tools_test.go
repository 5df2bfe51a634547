package agentstest

import (
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"
)

// controlled starts a control plane of u's and returns where it answers HTTP.
func controlled(t *testing.T, u *runtest.User) string {
	t.Helper()
	has := t.Run("postgres", func(t *testing.T) { storetest.Need(t) })
	if _, err := cluster.Find(t.Context(), nil, 0); err != nil || !has {
		t.SkipNow()
	}
	u.Serves()
	for i, kv := range u.Env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			u.Env[i] = "PATH=" + path + ":" + filepath.Dir(runtest.Binary(t))
		}
	}
	var started struct{ HTTP string }
	r := u.Bourn(append([]string{"serve", "-d", "--json", "--listen", "localhost:0"}, u.DatabaseUser()...)...)
	if err := json.Unmarshal([]byte(r.Out), &started); err != nil || started.HTTP == "" {
		t.Fatalf("%v: %s%s", err, r.Out, r.Err)
	}
	return started.HTTP
}

// bearing returns the address of a server that hands everything on with a bearer, which the
// suite cannot be told.
func bearing(t *testing.T, base, token string) string {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(s.Close)
	return s.URL
}

// madeAgent makes an agent that may write the work directory.
func madeAgent(t *testing.T, u *runtest.User, name string) {
	t.Helper()
	if r := u.Bourn("agent", "create", name, "--write", ".", "--", "true"); r.Status != 0 {
		t.Fatal(r.Err)
	}
}

// TestConformance holds the tools over HTTP to the official suite.
func TestConformance(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	installed(t, u, "@modelcontextprotocol/conformance")
	installed(t, u, "node")
	base := controlled(t, u)
	madeAgent(t, u, "mur")
	r := u.Bourn("key", "mcp", "new", "suite", "--agent", "mur")
	if r.Status != 0 {
		t.Fatal(r.Err)
	}
	expected, err := os.ReadFile("testdata/conformance.yml")
	if err != nil {
		t.Fatal(err)
	}
	at := u.Write("expected.yml", string(expected))
	address := bearing(t, base, strings.TrimSpace(r.Out))
	// A request of the suite's own that is cut short counts as a warning, and a warning as a
	// failure: it has a second try.
	for try := 1; ; try++ {
		r = u.Do("env", "conformance", "server", "--url", address+"/mcp", "--requirements", "2026-07-28", "--expected-failures", at)
		missing := slices.DeleteFunc([]string{"http-header-validation: 14 passed, 0 failed", "caching: 7 passed, 0 failed", "tools-list: 4 passed, 0 failed",
			"dns-rebinding-protection: 2 passed, 0 failed", "server-stateless: 23 passed"}, func(want string) bool { return strings.Contains(r.Out, want) })
		if r.Status == 0 && len(missing) == 0 {
			return
		}
		if try == 2 {
			t.Fatalf("status %d, it does not say %q\n%s%s", r.Status, missing, r.Out, r.Err)
		}
		t.Logf("status %d, it does not say %q", r.Status, missing)
	}
}

// TestInspector has the official client look at the tools, in both ways that lead to them.
func TestInspector(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	installed(t, u, "@modelcontextprotocol/inspector")
	installed(t, u, "node")
	controlled(t, u)
	madeAgent(t, u, "mur")
	u.Write("hello.txt", said+"\n")
	server := []string{"env", "mcp-inspector", "--cli", "bourn", "mcp", "serve", "--agent", "mur"}
	r := u.Do(server[0], append(server[1:], "--method", "tools/list", "--strict")...)
	if r.Status != 0 || strings.Contains(r.Out+r.Err, "Warning") || !strings.Contains(r.Out, `"files_read"`) {
		t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
	}
	r = u.Do(server[0], append(server[1:], "--method", "tools/call", "--tool-name", "files_read", "--tool-arg", "path=hello.txt")...)
	if r.Status != 0 || !strings.Contains(r.Out, said) {
		t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
	}
}

// governed is a client's server of the run's tools.
const governed = `{"mcpServers":{"bourn":{"command":"/run/bourn/bourn","args":["mcp","serve"]}}}`

// TestClaudeCodeTools has the agent use the governed tools of its run, with its own switched
// off.
func TestClaudeCodeTools(t *testing.T) {
	runtest.Accounts(t, func(t *testing.T, u *runtest.User) {
		installed(t, u, "@anthropic-ai/claude-code")
		furnish(t, u)
		controlled(t, u)
		m := newModel(t,
			call{tool: "mcp__bourn__files_read", input: object{"path": "hello.txt"}},
			call{tool: "mcp__bourn__shell_exec", input: object{"command": steal}},
			call{tool: "mcp__bourn__files_read", input: object{"path": filepath.Join(u.Home, ".ssh/id_ed25519")}},
			call{tool: "mcp__bourn__files_write", input: object{"path": "made.txt", "content": "made\n"}})
		u.Env = append(u.Env, "ANTHROPIC_BASE_URL=http://localhost:"+m.port, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
		r := sealed(t, u, "--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "--",
			"claude", "-p", "read the file hello.txt", "--mcp-config", governed, "--strict-mcp-config",
			"--disallowedTools", "Bash,Read,Edit,Write", "--allowedTools", "mcp__bourn")
		m.result(t, 3)
		works(t, u, m, r, map[int]string{0: said, 2: "files_read", 3: "made"}, ".claude/projects/*/*.jsonl")
		logged(t, u, "files_read", "shell_exec", "files_write")
	})
}

// TestCodexTools is that for Codex.
func TestCodexTools(t *testing.T) {
	runtest.Accounts(t, func(t *testing.T, u *runtest.User) {
		installed(t, u, "@openai/codex")
		furnish(t, u)
		controlled(t, u)
		u.Write(filepath.Join(u.Home, ".codex/config.toml"), "[mcp_servers.bourn]\ncommand = \"/run/bourn/bourn\"\nargs = [\"mcp\", \"serve\"]\ndefault_tools_approval_mode = \"approve\"\n")
		space := func(tool string, input object) call { return call{space: "mcp__bourn", tool: tool, input: input} }
		m := newModel(t, space("files_read", object{"path": "hello.txt"}), space("shell_exec", object{"command": steal}),
			space("files_write", object{"path": "made.txt", "content": "made\n"}))
		r := codexExec(t, u, m, "danger-full-access")
		m.result(t, 2)
		works(t, u, m, r, map[int]string{0: said, 2: "made"}, ".codex/sessions/*/*/*/*.jsonl")
		logged(t, u, "files_read", "shell_exec", "files_write")
	})
}

// logged holds the log to have the calls of tools.
func logged(t *testing.T, u *runtest.User, tools ...string) {
	t.Helper()
	log := u.Bourn("audit", "tail")
	for _, name := range tools {
		if !strings.Contains(log.Out, name) {
			t.Errorf("the log lacks %s:\n%s%s", name, log.Out, log.Err)
		}
	}
}
