package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"bourn/internal/run/runtest"
)

// holding is a task that holds a command of its own, one of its actor's and one of a child of
// its own, each a sleep by a number of its own.
func holding(word string) string {
	return `hold() { { printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}' \
	'{"jsonrpc":"2.0","method":"notifications/initialized"}' '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'"$1"'","arguments":{"'"$2"'":"'"$3"'"}}}'; sleep ` + word + `9; } | /run/bourn/bourn mcp serve; }
hold shell_exec command 'sleep ` + word + `1' & hold spawn_subagent task 'sleep ` + word + `2' & sleep ` + word + `0; wait`
}

// held reports how many of the commands of such a task run.
func held(t *testing.T, word string) (n int) {
	t.Helper()
	for i := range 10 {
		if runs(t, fmt.Sprintf("%s%d", word, i)) {
			n++
		}
	}
	return n
}

func allHeld(t *testing.T, word string) {
	t.Helper()
	within(t, "all of it runs", func() bool { return held(t, word) == 4 })
}

// noneHeld waits until nothing of it runs, and no run of the agent's.
func noneHeld(t *testing.T, u *runtest.User, word string) {
	t.Helper()
	within(t, "nothing of it runs", func() bool { return held(t, word) == 0 && liveRuns(t, u, "mur") == "" })
}

// TestSubagentEnds: whatever ends, or is killed, no process of a child is left, of its actor,
// or of its own child.
func TestSubagentEnds(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		create(t, u, "mur", "--write", ".")
		asks := func(c *toolClient, word string) {
			t.Helper()
			c.send(9, "tools/call", fields{"name": "spawn_subagent", "arguments": oneJob(holding(word))}.String())
			allHeld(t, word)
		}
		serves := func() *toolClient { return toolServer(t, u, "mcp", "serve", "--agent", "mur") }

		c := serves()
		asks(c, "9875501")
		list := succeeds(t, u, "agent", "perm", "list-paths", "mur")
		says(t, list, "3 runs of this agent live")
		lacks(t, list, "subagent")
		if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`+"\n"); err != nil {
			t.Fatal(err)
		}
		noneHeld(t, u, "9875501")
		c.mustSay("exit status 0", "spawn_subagent", oneJob("true").String())

		asks(c, "9875502")
		c.leaves()
		noneHeld(t, u, "9875502")

		c = serves()
		asks(c, "9875503")
		_ = c.cmd.Process.Kill()
		noneHeld(t, u, "9875503")
		c.leaves()

		c = serves()
		out := c.job(holding("9875504"), fields{"timeout": 2})
		says(t, out, "it took too long")
		noneHeld(t, u, "9875504")
		began := time.Now()
		out = c.job("trap '' TERM; sleep 98755059; sleep 98755058", fields{"timeout": 0.5})
		if took := time.Since(began); !strings.Contains(out, "it took too long") || took < 5*time.Second {
			t.Errorf("it has no time to end, or none to be ended: %s, %s", took, out)
		}
		noneHeld(t, u, "9875505")
		c.leaves()

		// In a run: its command ends; its launcher is killed.
		u.Write("stays", "")
		c = toolServer(t, u, "run", "-q", "--agent", "mur", "--", "sh", "-c",
			`exec 3<&0; /run/bourn/bourn mcp serve <&3 & while [ -e stays ]; do sleep 0.05; done; kill -9 $$`)
		asks(c, "9875506")
		if err := os.Remove(u.Path("stays")); err != nil {
			t.Fatal(err)
		}
		noneHeld(t, u, "9875506")
		c.leaves()
		c = toolServer(t, u, "run", "-q", "--agent", "mur", "--", "/run/bourn/bourn", "mcp", "serve")
		asks(c, "9875507")
		_ = c.cmd.Process.Kill()
		noneHeld(t, u, "9875507")
		c.leaves()

		// The control plane is killed.
		c = serves()
		asks(c, "9875508")
		killControl(t, u)
		noneHeld(t, u, "9875508")
		c.leaves()
		succeeds(t, u, append([]string{"serve", "-d", "--no-http"}, u.DatabaseUser()...)...)
	})
}

// killControl kills the user's control plane.
func killControl(t *testing.T, u *runtest.User) {
	t.Helper()
	var s struct {
		Pid int `json:"pid"`
	}
	text := succeeds(t, u, "serve", "--status", "--json")
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Pid < 2 {
		t.Fatalf("%v: %s", err, text)
	}
	p, err := os.FindProcess(s.Pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}
