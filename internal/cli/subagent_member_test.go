package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"bourn/internal/run/runtest"
)

// TestSubagentMember: work for an agent with a profile of its own needs a line in the
// caller's, and a directory that the member may write; what is closed to the caller stays
// closed.
func TestSubagentMember(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		for _, name := range []string{"top/a.txt", "top/.env", "top/own.txt", "top/deep/b.txt", "other/c.txt", "shut/d.txt"} {
			u.Mkdir(filepath.Dir(u.Path(name)))
			u.Write(name, "holds "+name+"\n")
		}
		u.Mkdir(u.Path("top/.git"))
		create(t, u, "mur", "--write", ".", "--deny", "top/.env")
		create(t, u, "rev98744", "--read", "top", "--write", "top/deep", "--write", "shut", "--deny", "top/own.txt", "--deny", "shut/d.txt")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		rev := func(root string, more ...fields) fields {
			f := fields{"agent": "rev98744", "root": root}
			for _, m := range more {
				for k, v := range m {
					f[k] = v
				}
			}
			return f
		}
		says(t, c.job("touch started", rev("top")), "denied (not_delegated)", "delegate: [rev98744]")
		profileOf(t, u, "mur", "delegate: [rev98744]\n")

		// The directory is the checkout's, and that is a person's to grant.
		out := c.job("touch started", rev("top/deep"))
		says(t, out, "parked (not_granted)", "agent rev98744 may work in "+u.Path("top")+" is for a person to say, and nothing was done", "bourn agent perm allow-write rev98744 "+u.Path("top"))
		says(t, c.job("touch started", rev("other")), "parked (not_granted)", "allow-write rev98744 "+u.Path("other"))
		says(t, c.call("parallel_jobs", fields{"tasks": []fields{oneJob("touch started"), oneJob("touch started", rev("other"))}}.String()), "parked (not_granted)", "task 2", "none of the 2 was started")
		for _, at := range []string{"started", "top/started", "top/deep/started", "other/started"} {
			if _, err := os.Lstat(u.Path(at)); err == nil {
				t.Errorf("%s: what was parked was done", at)
			}
		}
		succeeds(t, u, "agent", "perm", "allow-write", "rev98744", u.Path("top"))
		out = c.job("bourn whoami | head -2; pwd; cat a.txt .env own.txt ../other/c.txt; echo x >made", rev("top"))
		says(t, out, "agent 'rev98744'", "works for run", u.Path("top")+"\n", "holds top/a.txt", ".env: Permission denied", "own.txt: Permission denied", "c.txt: No such file")
		lacks(t, out, "holds top/.env", "holds top/own.txt", "holds other/c.txt")
		if u.Read("top/made") != "x\n" {
			t.Error("it did not write")
		}

		// Lists narrow what the member has, and its own deny is final.
		out = c.job("cat a.txt; echo x >more", rev("top", fields{"write": []string{}, "deny": []string{"a.txt"}}))
		says(t, out, "a.txt: Permission denied", "more: Read-only file system")
		says(t, c.job("true", rev("top", fields{"write": []string{"../other"}})), "a subagent has no more than its parent")

		// What denies a host to the caller denies it to the member, which has to be able to.
		memberIs := filepath.Join(u.Home, ".bourn/agents/rev98744/profile.yaml")
		before := u.Read(memberIs)
		c.leaves()
		profileOf(t, u, "mur", "network: {mode: restricted, hosts: [a.example.com], deny: [b.example.com]}\n")
		c = toolServer(t, u, "mcp", "serve", "--agent", "mur")
		u.Write(memberIs, before+"network: {mode: open}\n")
		says(t, c.job("true", rev("top")), "the caller is denied hosts")
		u.Write(memberIs, before+"network: {mode: restricted, hosts: [\"*.example.com\"]}\n")
		out = c.job("bourn explain connect b.example.com:443; bourn explain connect c.example.com:443", rev("top"))
		says(t, out, "denied by", "connect b.example.com")
		u.Write(memberIs, before)
		succeeds(t, u, "agent", "perm", "remove-path", "rev98744", u.Path("top/deep"))
		succeeds(t, u, "agent", "perm", "deny-path", "rev98744", u.Path("top/deep"))
		says(t, c.job("touch started", rev("top/deep")), "denied", "its profile denies")

		// A tool that is denied to the caller is denied to who works for it.
		succeeds(t, u, "agent", "perm", "tool-deny", "mur", "files_list")
		out = c.job(mcpClient+`call files_list '{}'; call files_read '{"path":"a.txt"}'`, rev("top"))
		says(t, out, "denied (tool_policy:files_list)", "holds top/a.txt")

		// What cannot be is said so.
		says(t, c.job("true", fields{"agent": "none", "root": "top"}), "not_delegated", "delegate: [rev98744, none]")
		at := filepath.Join(u.Home, ".bourn/agents/rev98744/profile.yaml")
		was := u.Read(at)
		u.Write(at, was+"nonsense: 1\n")
		says(t, c.job("true", rev("top")), "denied", "nonsense")
		u.Write(at, was)

		// Its process ends with the call, and with the control plane.
		c.send(9, "tools/call", fields{"name": "spawn_subagent", "arguments": oneJob("sleep 98744011; wait", rev("top"))}.String())
		within(t, "it runs", func() bool { return runs(t, "98744011") && runs(t, "rev98744") })
		c.leaves()
		within(t, "nothing of it runs", func() bool { return !runs(t, "98744011") && !runs(t, "rev98744") })
		for word, end := range map[string]func(c *toolClient){
			"98744012": func(c *toolClient) { _ = c.cmd.Process.Kill() },
			"98744013": func(*toolClient) { killControl(t, u) },
		} {
			c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
			c.send(9, "tools/call", fields{"name": "spawn_subagent", "arguments": oneJob("trap : HUP; sleep "+word+"; wait", rev("top"))}.String())
			within(t, "it runs", func() bool { return runs(t, word) && runs(t, "rev98744") })
			end(c)
			within(t, "nothing of it runs", func() bool { return !runs(t, word) && !runs(t, "rev98744") })
			c.leaves()
			u.Bourn(append([]string{"serve", "-d", "--no-http"}, u.DatabaseUser()...)...)
		}
	})
}

// TestSubagentBlocked: a hard block on delegating refuses where work is handed over to a
// directory, by its name and by what it leads to.
func TestSubagentBlocked(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Mkdir(u.Path("shut/in"))
		u.Mkdir(u.Path("open"))
		if r := u.Do("ln", "-s", "../shut/in", "open/link"); r.Status != 0 {
			t.Fatal(r.Err)
		}
		create(t, u, "mur", "--write", ".")
		rules(u, "rules.json", `{"id": "shut", "type": "path", "match": "prefix", "pattern": "PROJECT/shut", "operations": ["delegate"], "reason": "work is not handed over here"}`)
		succeeds(t, u, "boundaries", "set", "rules.json", "--after", "0")
		c := toolServer(t, u, "mcp", "serve", "--agent", "mur")
		const blocked = "hard_policy_block:user_configured_hard_block:shut"
		says(t, c.job("touch started", fields{"root": "shut"}), "denied ("+blocked+")", "work is not handed over here")
		says(t, c.job("touch started", fields{"root": "shut/in"}), blocked)
		says(t, c.job("touch started", fields{"root": "open/link"}), blocked)
		says(t, c.call("parallel_jobs", fields{"tasks": []fields{oneJob("touch started"), oneJob("touch started", fields{"root": "open/link"})}}.String()), blocked)
		if _, err := os.Lstat(u.Path("started")); err == nil {
			t.Error("one was started")
		}
		says(t, c.job("pwd", fields{"root": "open"}), u.Path("open")+"\n", "exit status 0")
		// A child is under the same rules.
		says(t, c.job(mcpClient+`call spawn_subagent '{"task":"true","root":"shut"}'`), blocked)
		c.mustSay("", "files_list", `{"path":"shut"}`)
		c.leaves()

		// And so is a tool that the profile denies, or asks about.
		succeeds(t, u, "agent", "perm", "tool-ask", "mur", "parallel_jobs")
		succeeds(t, u, "agent", "perm", "tool-deny", "mur", "spawn_*")
		c = toolServer(t, u, "mcp", "serve", "--agent", "mur")
		says(t, c.job("true"), "denied (tool_policy:spawn_*)")
		says(t, c.call("parallel_jobs", `{"tasks":[{"task":"true"}]}`), "parked (tool_policy:parallel_jobs)")
		c.leaves()
	})
}
