package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/run/runtest"
)

// TestSubagentDeniedObjects: what is denied to the caller is denied as the object that it is.
// The caller cannot open it to a member, nor to its own kind, by renaming a directory on the
// way to it, and no hard link does.
func TestSubagentDeniedObjects(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("a/in/.env", "secret\n")
		u.Write("a/in/pub", "public\n")
		u.Write("shown/key", "secret\n")
		create(t, u, "rev", "--write", ".")
		create(t, u, "third", "--write", ".")
		profileOf(t, u, "rev", "delegate: [third]\n")
		create(t, u, "mur", "--read", ".", "--write", "a", "--deny", "a/*/.env", "--deny", "shown/key")
		profileOf(t, u, "mur", "delegate: [rev]\n")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		c.mustSay("exit status 0", "shell_exec", `{"command":"mkdir a/x; mv a/in a/x/out"}`)
		if r := u.Do("sh", "-c", "ln a/x/out/.env link; mv shown moved"); r.Status != 0 {
			t.Fatal(r.Err)
		}
		const read = "cat a/x/out/pub a/x/out/.env link moved/key"
		for _, who := range []fields{{"agent": "rev", "root": u.Work}, {}} {
			out := c.job(read, who)
			says(t, out, "public\n", "out/.env: Permission denied", "link: Permission denied", "moved/key: Permission denied")
			lacks(t, out, "secret")
		}
		// And whoever the member hands it on to.
		u.Write("on", oneJob(read, fields{"agent": "third", "root": u.Work}).String())
		out := c.job(mcpClient+`call spawn_subagent "$(cat on)"`, fields{"agent": "rev", "root": u.Work})
		says(t, out, `public\n`, "out/.env: Permission denied", "link: Permission denied", "moved/key: Permission denied")
		lacks(t, out, "secret")
		c.leaves()
	})
}

// TestSubagentGivenUp: a child that nobody waits for any more, and that does not end when it
// is asked to, has no tools until it is killed: else it would be a run that nobody limits.
func TestSubagentGivenUp(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		create(t, u, "mur", "--write", ".")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		u.Write("inner", mcpClient+`trap '' TERM HUP; : >ready; while [ ! -e go ]; do sleep 0.05; done
call shell_exec '{"command":": >escaped; echo out"}' >tools 2>&1; call spawn_subagent '{"task":": >escaped"}' >>tools 2>&1; : >over; sleep 60`)
		c.send(9, "tools/call", fields{"name": "spawn_subagent", "arguments": oneJob(". ./inner", fields{"tools": []string{"files_*"}})}.String())
		exists := func(name string) func() bool {
			return func() bool { _, err := os.Lstat(filepath.Join(u.Work, name)); return err == nil }
		}
		within(t, "it runs", exists("ready"))
		// The caller kills its actor, with which the connection goes by which children are started.
		c.send(10, "tools/call", `{"name":"shell_exec","arguments":{"command":"kill -9 $PPID; sleep 60"}}`)
		_, _ = c.out.ReadString('\n') // that it has gone
		u.Write("go", "")
		within(t, "it has tried", func() bool { return exists("over")() || liveRuns(t, u, "mur") == "" })
		if exists("escaped")() {
			t.Errorf("it did what it was not left:\n%s", u.Read("tools"))
		}
		c.leaves()
	})
}

// TestSubagentMoved: what is denied to the caller is not moved into what a subagent sees.
func TestSubagentMoved(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir(u.Path("a"))
		u.Mkdir(u.Path("sub"))
		u.Write("a/.env", "TOKEN=1\n")
		create(t, u, "mur", "--write", ".", "--deny", "a/.env")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		const task = "touch waits; until [ -e a ]; do sleep 0.01; done; cat a/.env"
		for _, lists := range []fields{
			{"root": "sub", "read": []string{u.Path("sub")}}, {"root": "sub", "write": []string{u.Path("sub")}},
			{"root": "sub", "read": []string{u.Path("sub")}, "write": []string{}},
		} {
			says(t, c.job(task, lists), "denied", "could be moved there")
		}
		if _, err := os.Lstat(u.Path("sub/waits")); err == nil {
			t.Fatal("one was started")
		}
		movedMeanwhile(t, c, task, fields{"root": "sub"}, u.Path("sub/waits"), u.Path("a"), u.Path("sub/a"))
		c.leaves()
	})
}

// movedMeanwhile has a subagent that waits for what is moved, once it says so by making a file,
// read what is denied: it is not shown.
func movedMeanwhile(t *testing.T, c *toolClient, task string, lists fields, waits, from, to string) {
	t.Helper()
	c.send(9, "tools/call", fields{"name": "spawn_subagent", "arguments": oneJob(task, lists)}.String())
	within(t, "it waits", func() bool { _, err := os.Lstat(waits); return err == nil })
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	out, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	says(t, out, "Permission denied")
	lacks(t, out, "TOKEN")
}

// TestSubagentMovedOut: what is denied to the caller is not seen by a subagent where it is moved
// out of something that is closed to the subagent alone, nor from above what the subagent sees.
func TestSubagentMovedOut(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir(u.Path("a/b/sub"))
		u.Write("a/b/.env", "TOKEN=1\n")
		create(t, u, "mur", "--write", ".", "--deny", "a/b/.env")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		says(t, c.job("true", fields{"root": "a/b/sub", "write": []string{u.Path("a/b/sub")}}), "denied", "a/b could be moved there")
		const task = "touch waits; until [ -e b ]; do sleep 0.01; done; cat b/.env"
		movedMeanwhile(t, c, task, fields{"deny": []string{u.Path("a")}}, u.Path("waits"), u.Path("a/b"), u.Path("b"))
		c.leaves()
	})
}
