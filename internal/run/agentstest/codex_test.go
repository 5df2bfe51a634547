package agentstest

import (
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/run/runtest"
)

func TestCodex(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		installed(t, u, "@openai/codex")
		everything := filepath.Join(installed(t, u, "@modelcontextprotocol/server-everything"), "dist/index.js")
		furnish(t, u)
		agent{"codex", "codex", versions["@openai/codex"], []string{"exec", "mcp"}}.answers(t, u)
		codexKeeps(t, u, everything)
		codexWorks(t, u)
		codexOwnSandbox(t, u)
	})
}

// codexKeeps has a run register a server, and the next one know it.
func codexKeeps(t *testing.T, u *runtest.User, everything string) {
	sealed(t, u, "--", "codex", "mcp", "add", "everything", "--", "node", everything)
	if config := u.Read(filepath.Join(u.Home, ".codex/config.toml")); !strings.Contains(config, everything) {
		t.Errorf("~/.codex/config.toml holds\n%s", config)
	}
	if r := sealed(t, u, "--", "codex", "mcp", "list"); !strings.Contains(r.Out, everything) {
		t.Errorf("the server is not known: printed\n%s\nsaid\n%s", r.Out, r.Err)
	}
}

// codexExec runs one task against a model, in one of Codex's own modes.
func codexExec(t *testing.T, u *runtest.User, m *model, mode string) runtest.Result {
	t.Helper()
	u.Env = append(u.Env, "OPENAI_API_KEY=none")
	at := "localhost:" + m.port
	return sealed(t, u, "--host", at, "--", "codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", mode,
		"-c", `model="stand-in"`, "-c", `model_provider="own"`,
		"-c", `model_providers.own={name="own",base_url="http://`+at+`/v1",wire_api="responses",env_key="OPENAI_API_KEY"}`,
		"read the file hello.txt")
}

func shell(command string) call { return call{tool: "exec_command", input: object{"cmd": command}} }

// codexWorks has the agent do what a model asks for, with Codex's own sandbox off.
func codexWorks(t *testing.T, u *runtest.User) {
	m := newModel(t, shell("cat hello.txt"), shell(steal),
		call{space: "mcp__everything", tool: "echo", input: object{"message": "by MCP"}},
		shell("echo made > made.txt"))
	r := codexExec(t, u, m, "danger-full-access")
	m.result(t, 3)
	if !strings.Contains(r.Out, farewell) || strings.Contains(r.Out, "Reconnecting") {
		t.Errorf("it prints\n%s\nsaid\n%s", r.Out, r.Err)
	}
	works(t, u, m, r, map[int]string{0: said, 2: "Echo: by MCP"}, ".codex/sessions/*/*/*/*.jsonl")
}

// codexOwnSandbox holds the preset's note to what is so: Codex's sandbox needs namespaces
// and mounts, which a seal refuses, and then it runs nothing.
func codexOwnSandbox(t *testing.T, u *runtest.User) {
	m := newModel(t, shell("cat hello.txt; "+steal))
	r := codexExec(t, u, m, "workspace-write")
	if got := m.result(t, 0); strings.Contains(got, said) {
		t.Errorf("Codex's own sandbox works inside the seal, and the preset's note says that it does not: %s", got)
	}
	if !strings.Contains(r.Err, "--sandbox danger-full-access") {
		t.Errorf("the note does not say what to do:\n%s", r.Err)
	}
	untouched(t, u, append(m.results, r.Out, r.Err)...)
}
