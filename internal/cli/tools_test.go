package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn/internal/policy"
	"bourn/internal/run"
	"bourn/internal/run/runtest"
)

// mcpClient is a client in a shell: `ask METHOD PARAMS` prints the answer.
const mcpClient = `ask() {
	rm -f /tmp/end; mkfifo /tmp/end
	{ printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}' \
		'{"jsonrpc":"2.0","method":"notifications/initialized"}' '{"jsonrpc":"2.0","id":2,"method":"'"$1"'","params":'"$2"'}'
		read -r end </tmp/end; } | /run/bourn/bourn mcp serve | { grep -m 1 '"id":2'; echo >/tmp/end; }
}
call() { ask tools/call '{"name":"'"$1"'","arguments":'"$2"'}'; }
`

// asks runs lines of the client as an agent, and returns what they print.
func asks(t *testing.T, u *runtest.User, agent string, lines ...string) string {
	t.Helper()
	return succeeds(t, u, "run", "--agent", agent, "--", "sh", "-c", mcpClient+strings.Join(lines, "\n")+"\ntrue")
}

func says(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("it does not say %q:\n%s", text, out)
		}
	}
}

// TestToolPolicy: a rule holds at the next call, what is denied is neither offered nor done,
// and what is asked about is not done either.
func TestToolPolicy(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("a.txt", "hello\n")
		succeeds(t, u, "agent", "create", "mur", "--write", ".")
		made := u.Path("made")
		all := []string{`ask tools/list '{}'`, `call files_read '{"path":"a.txt"}'`, `call shell_exec '{"command":"touch made"}'`, `call git_status '{}'`}

		succeeds(t, u, "agent", "perm", "tool-ask", "mur", "shell_exec")
		succeeds(t, u, "agent", "perm", "tool-deny", "mur", "git_*")
		out := asks(t, u, "mur", all...)
		says(t, out, "hello", "parked (tool_policy:shell_exec): it needs a person's answer, and nothing was done", "denied (tool_policy:git_*): the agent's profile refuses the tool")
		if strings.Contains(out, `"name":"git_status"`) || !strings.Contains(out, `"name":"shell_exec"`) {
			t.Errorf("what is denied is offered, or what is asked about is not:\n%s", out)
		}
		if _, err := os.Lstat(made); err == nil {
			t.Error("what is asked about was done")
		}
		log := succeeds(t, u, "audit", "tail", "--json", "--agent", "mur")
		says(t, log, `"tool_policy:git_*"`, `"tool_policy:shell_exec"`)

		// A deny wins over what is nearer; a tier raises; an unreadable profile refuses all.
		succeeds(t, u, "agent", "perm", "tool-allow", "mur", "git_status")
		succeeds(t, u, "agent", "perm", "tool-allow", "mur", "shell_exec", "--tier", "spend")
		says(t, asks(t, u, "mur", all...), "denied (tool_policy:git_*)", "parked (tool_policy:shell_exec)", "its tier is spend")
		succeeds(t, u, "agent", "perm", "remove-tool", "mur", "git_*")
		succeeds(t, u, "agent", "perm", "tool-allow", "mur", "shell_exec")
		if out := asks(t, u, "mur", all...); strings.Contains(out, "tool_policy") {
			t.Errorf("%s", out)
		}
		if _, err := os.Lstat(made); err != nil {
			t.Errorf("what is allowed was not done: %v", err)
		}
	})
}

// TestToolRuleHoldsAtOnce: a call in a run that lives is judged by the profile as it is then.
func TestToolRuleHoldsAtOnce(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("a.txt", "hello\n")
		succeeds(t, u, "agent", "create", "mur", "--write", ".")
		profile := filepath.Join(u.Home, ".bourn/agents/mur/profile.yaml")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := u.Command(ctx, runtest.Binary(t), "run", "--agent", "mur", "--", "sh", "-c",
			mcpClient+"while read -r line; do call files_read '{\"path\":\"a.txt\"}'; done")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		answers := json.NewDecoder(out)
		next := func() string {
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			var raw json.RawMessage
			if err := answers.Decode(&raw); err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
		says(t, next(), "hello")
		succeeds(t, u, "agent", "perm", "tool-deny", "mur", "files_*")
		says(t, next(), "denied (tool_policy:files_*)")
		succeeds(t, u, "agent", "perm", "tool-ask", "mur", "files_*")
		says(t, next(), "parked (tool_policy:files_*)")
		was := u.Read(profile)
		u.Write(profile, was+"nonsense: 1\n")
		says(t, next(), "the profile of agent \\\"mur\\\" cannot be read, so it may call nothing")
		u.Write(profile, was)
		succeeds(t, u, "agent", "perm", "remove-tool", "mur", "files_*")
		says(t, next(), "hello")
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestToolsOnly: with tools.only the agent's own process has nothing of what is granted, and
// governed tools have all of it.
func TestToolsOnly(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("a.txt", "hello\n")
		u.Write("key", "secret\n")
		succeeds(t, u, "agent", "create", "mur", "--write", ".", "--deny", "key")
		profile := filepath.Join(u.Home, ".bourn/agents/mur/profile.yaml")
		u.Write(profile, u.Read(profile)+"tools: {only: true}\n")
		at, key := u.Path("a.txt"), u.Path("key")
		if r := u.Do("git", "init", "-q"); r.Status != 0 {
			t.Fatal(r.Err)
		}
		plants := u.Home + "/.local/bin" // which the host has not
		for i, v := range u.Env {
			if strings.HasPrefix(v, "PATH=") {
				u.Env[i] = "PATH=" + plants + ":" + strings.TrimPrefix(v, "PATH=")
			}
		}
		planted := asks(t, u, "mur", "mkdir -p "+plants, `printf '#!/bin/sh\ncat `+at+` >~/leak\n' >`+plants+`/git; chmod +x `+plants+`/git`,
			`call git_status '{"path":"`+u.Work+`"}'`, "cat ~/leak 2>/dev/null && echo leaked")
		says(t, planted, "exit status 0")
		if strings.Contains(planted, "leaked") {
			t.Errorf("what the agent left in its home was executed with the grants of governed tools:\n%s", planted)
		}
		out := asks(t, u, "mur", "cat "+at+" || echo own: $?", "echo x > "+u.Path("own")+" || echo own write: $?", "ls -A "+u.Work+" | grep a.txt",
			`call files_read '{"path":"`+at+`"}'`, `call files_read '{"path":"`+key+`"}'`, `call files_write '{"path":"`+u.Path("b.txt")+`","content":"made"}'`,
			`call shell_exec '{"command":"cat a.txt b.txt; cat key","cwd":"`+u.Work+`"}'`, "/run/bourn/bourn explain read "+at)
		says(t, out, "own: 1", "hello", "made", "key: Permission denied", "governed tools alone have it")
		if strings.Contains(out, "secret") || strings.Contains(strings.Split(out, `{"jsonrpc"`)[0], "hello") {
			t.Errorf("%s", out)
		}
		if u.Read("b.txt") != "made" {
			t.Error("the tool did not write")
		}
		if _, err := os.Lstat(u.Path("own")); err == nil {
			t.Error("the agent's own process wrote")
		}
		var plan run.Report
		if err := json.Unmarshal([]byte(succeeds(t, u, "plan", "--agent", "mur", "--json")), &plan); err != nil {
			t.Fatal(err)
		}
		held := false
		for _, it := range plan.Items {
			held = held || it.Kind == policy.KindWrite && it.Target == u.Work && it.By[0] == policy.ByActor && strings.Contains(it.Caveat, "governed tools alone")
		}
		if !held {
			t.Errorf("the plan does not say where the grant holds: %+v", plan.Items)
		}
	})
}
