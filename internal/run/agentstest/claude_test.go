package agentstest

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

func TestClaudeCode(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		installed(t, u, "@anthropic-ai/claude-code")
		everything := filepath.Join(installed(t, u, "@modelcontextprotocol/server-everything"), "dist/index.js")
		furnish(t, u)
		u.Write(filepath.Join(u.Home, ".claude.json"), `{"theme": "light-daltonized"}`)
		agent{"claude", "claude-code", versions["@anthropic-ai/claude-code"], []string{"--print", "mcp"}}.answers(t, u)
		claudeKeeps(t, u, everything)
		claudeWorks(t, u)
		claudeSettings(t, u)
	})
}

// claudeKeeps has a run register a server for the person, and the next one reach it. The
// file that holds it is granted by itself, so that no run can replace it by rename.
func claudeKeeps(t *testing.T, u *runtest.User, everything string) {
	sealed(t, u, "--", "claude", "mcp", "add", "--scope", "user", "everything", "--", "node", everything)
	var state struct {
		Theme      string
		MCPServers map[string]struct{ Command string }
	}
	data := u.Read(filepath.Join(u.Home, ".claude.json"))
	if err := json.Unmarshal([]byte(data), &state); err != nil || state.MCPServers["everything"].Command != "node" || state.Theme != "light-daltonized" {
		t.Fatalf("%v: ~/.claude.json does not hold what was added and what was there:\n%s", err, data)
	}
	// This starts the server, shakes hands with it and asks for its tools.
	if r := sealed(t, u, "--", "claude", "mcp", "list"); !strings.Contains(r.Out, "everything: node "+everything) || !strings.Contains(r.Out, "Connected") {
		t.Errorf("the server is not reached: printed\n%s\nsaid\n%s", r.Out, r.Err)
	}
}

// claudeWorks has the agent do what a model asks for.
func claudeWorks(t *testing.T, u *runtest.User) {
	bash := func(command string) call { return call{tool: "Bash", input: object{"command": command}} }
	m := newModel(t,
		call{tool: "Read", input: object{"file_path": u.Path("hello.txt")}},
		bash(steal),
		call{tool: "Read", input: object{"file_path": filepath.Join(u.Home, ".ssh/id_ed25519")}},
		call{tool: "mcp__everything__echo", input: object{"message": "by MCP"}},
		bash("echo made > made.txt"))
	u.Env = append(u.Env, "ANTHROPIC_BASE_URL=http://localhost:"+m.port, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	r := sealed(t, u, "--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "--",
		"claude", "-p", "read the file hello.txt", "--allowedTools", "Bash,Read,mcp__everything__echo")
	m.result(t, 4)
	if !strings.Contains(r.Out, farewell) {
		t.Errorf("it prints %q, said\n%s", r.Out, r.Err)
	}
	works(t, u, m, r, map[int]string{0: said, 2: "does not exist", 3: "Echo: by MCP"}, ".claude/projects/*/*.jsonl")
}

// claudeSettings goes for the file that names programs which Claude Code starts on the host
// as well. The home had none: the preset makes one, so that there is something to guard.
func claudeSettings(t *testing.T, u *runtest.User) {
	r := sealed(t, u, "--preset", "claude-code", "--", "sh", "-c", `cd ~/.claude && cat settings.json; for f in settings.json state; do echo '{"hooks": {}}' > $f; done; mv settings.json moved; rm -f settings.json; true`)
	at := filepath.Join(u.Home, ".claude/settings.json")
	if got := u.Read(at); got != "{}\n" || r.Out != got {
		t.Errorf("settings.json is read as %q inside, and holds %q: %s", r.Out, got, r.Err)
	}
	if got := u.Read(filepath.Join(u.Home, ".claude/state")); got != "{\"hooks\": {}}\n" {
		t.Errorf("the file beside it holds %q", got)
	}
}
