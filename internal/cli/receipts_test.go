package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/api"
	"bourn/internal/run/runtest"
)

const (
	commitNow = `{"command":"git add -A && git -c user.name=a -c user.email=a@example.com commit -qm x"}`
	verifyNow = `{"command":"sh check.sh"}`
	// The check waits for a file, says that it does, and ends as another file says.
	check = "#!/bin/sh\necho > started\nwhile ! [ -e go ]; do sleep 0.02; done\nexit $(cat status)\n"
)

// committing makes an agent whose commits need a verification, and starts a run of it whose
// program serves its tools, one control plane after the other.
func committing(t *testing.T, u *runtest.User, commit string) *toolClient {
	t.Helper()
	for name, text := range map[string]string{"a.txt": "one\n", "check.sh": check, "go": "", "status": "1", ".gitignore": "started\ngo\n"} {
		u.Write(name, text)
	}
	for _, line := range [][]string{{"init", "-q", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if r := u.Do("git", line...); r.Status != 0 {
			t.Fatal(r.Err)
		}
	}
	succeeds(t, u, "agent", "create", "mur", "--write", ".", "--", "sleep", "600")
	profile := filepath.Join(u.Home, ".bourn/agents/mur/profile.yaml")
	u.Write(profile, u.Read(profile)+"commit: "+commit+"\n")
	serve := "/run/bourn/bourn mcp serve"
	return toolServer(t, u, "run", "-q", "--agent", "mur", "--", "sh", "-c", serve+"; read -r x; "+serve+"; read -r x; exec "+serve)
}

// again starts the control plane again, and has the run's tools served by it.
func (c *toolClient) again(u *runtest.User) {
	c.t.Helper()
	if r := u.Bourn(append([]string{"serve", "-d", "--no-http"}, u.DatabaseUser()...)...); r.Status != 0 {
		c.t.Fatal(r.Err)
	}
	if _, err := fmt.Fprintln(c.in, "go on"); err != nil {
		c.t.Fatal(err)
	}
	c.send(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if got := c.next(); !strings.Contains(got, `"serverInfo"`) {
		c.t.Fatalf("it does not say hello: %s\n%s", got, c.said)
	}
}

func mayCommit(t *testing.T, u *runtest.User, want bool, says string) {
	t.Helper()
	var k api.Capabilities
	if err := json.Unmarshal([]byte(succeeds(t, u, "agent", "capabilities", "mur", "--action", "commit", "--json")), &k); err != nil {
		t.Fatal(err)
	}
	out := succeeds(t, u, "agent", "capabilities", "mur", "--action", "commit")
	line := map[bool]string{true: "\ncommit  yes\n", false: "\ncommit  no\n"}[want]
	if k.Commit != want || !k.Mutate || !strings.Contains(out, line) || !strings.Contains(out, says) || !strings.Contains(out, "\nmutate  yes\n") {
		t.Errorf("%+v\n%s", k, out)
	}
}

// TestCommitSafeguard has an agent work whose commits need a verification.
func TestCommitSafeguard(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		c := committing(t, u, "{requires: [verified], verify: sh check.sh}")
		refused := func(says string) {
			t.Helper()
			c.mustSay("denied (commit_not_verified): agent \"mur\" commits only what is verified", "shell_exec", commitNow)
			c.mustSay(says, "shell_exec", commitNow)
		}
		c.mustSay("made", "files_write", `{"path":"b.txt","content":"x"}`)
		refused("no verification has passed in this run (a workflow safeguard; the command has git commit)\nhint: run this with shell_exec")
		c.mustSay("(exit status 1)", "shell_exec", verifyNow)
		refused("no verification has passed")
		mayCommit(t, u, false, "hint: run this with shell_exec, as it stands and without env or another cwd, and commit right after it has passed: sh check.sh\n")
		c.mustSay("", "files_write", `{"path":"status","content":"0"}`)

		// It verifies as the profile says, or not at all.
		for _, other := range []string{`{"command":"sh check.sh ","verifies":true}`, `{"argv":["sh","check.sh"]}`, `{"command":"sh check.sh","env":{"A":"1"}}`,
			`{"command":"sh check.sh; true"}`, `{"command":"true","verifies":true}`, `{"command":"sh ./check.sh || sh check.sh","verifies":true}`} {
			c.mustSay("(exit status 0)", "shell_exec", other)
			refused("no verification has passed")
		}
		c.mustSay("(exit status 0)", "shell_exec", verifyNow)
		c.mustSay("hello", "shell_exec", `{"command":"echo hello"}`) // who knows what it did
		refused("after the last verification")
		c.mustSay("(exit status 0)", "shell_exec", fmt.Sprintf(`{"command":"sh check.sh","cwd":%q,"timeout":60}`, u.Work))
		c.mustSay("one", "files_read", `{"path":"a.txt"}`)
		mayCommit(t, u, true, "commit  yes")

		// Another control plane knows it from the log.
		succeeds(t, u, "serve", "--stop")
		c.again(u)
		mayCommit(t, u, true, "commit  yes")
		c.mustSay("(exit status 0)", "shell_exec", commitNow)
		refused("after the last verification") // it was a change itself
		c.mustSay("(exit status 0)", "shell_exec", verifyNow)
		c.mustSay("", "files_edit", `{"path":"a.txt","old":"one","new":"two"}`)
		refused("after the last verification")
		c.mustSay("(exit status", "shell_exec", `{"command":"git merge --abort"}`)
		for _, disguised := range []string{`{"argv":["git","-C",".","commit","-m","x"]}`, `{"command":"sh -c 'g\"\"it commit -m x'"}`, `{"command":"$(which git) commit -m x"}`} {
			c.mustSay("commit_not_verified", "shell_exec", disguised)
		}

		// What changes while it verifies is not verified.
		succeedsIn(t, u, "rm", "go", "started")
		c.send(5, "tools/call", `{"name":"shell_exec","arguments":`+verifyNow+`}`)
		within(t, "it verifies", func() bool { _, err := os.Lstat(u.Path("started")); return err == nil })
		mayCommit(t, u, false, "1 action without an outcome")
		c.send(6, "tools/call", `{"name":"files_write","arguments":{"path":"go","content":""}}`)
		for range 2 {
			if got := toolText(t, c.next()); strings.Contains(got, "denied") || strings.Contains(got, "exit status 1") {
				t.Errorf("%s", got)
			}
		}
		refused("after the last verification that passed, or while it ran")
		c.mustSay("(exit status 0)", "shell_exec", verifyNow)
		c.mustSay("(exit status 0)", "shell_exec", commitNow)
		if r := u.Do("git", "rev-list", "--count", "HEAD"); r.Out != "3\n" {
			t.Errorf("%s commits, %s", r.Out, r.Err)
		}
		receiptsOfRun(t, u)
		c.leaves()
		mayCommit(t, u, false, "after the last verification") // also of a run that has ended
	})
}

func succeedsIn(t *testing.T, u *runtest.User, name string, args ...string) {
	t.Helper()
	if r := u.Do(name, args...); r.Status != 0 {
		t.Fatal(r.Err)
	}
}

// receiptsOfRun reads what the run above left.
func receiptsOfRun(t *testing.T, u *runtest.User) {
	var got api.Receipts
	within(t, "the last commit has an outcome", func() bool {
		if err := json.Unmarshal([]byte(succeeds(t, u, "agent", "receipts", "mur", "--json")), &got); err != nil {
			t.Fatal(err)
		}
		return got.Receipts[0].State == "done"
	})
	var edit, wrote api.Receipt
	verified, failed := 0, 0
	for i, r := range got.Receipts {
		if r.Verdict != "allowed" || r.State != "done" || len(r.Digest) != 64 || r.Agent != "mur" || r.Run != got.Run || r.Outcome == "" || r.Duration == 0 || i > 0 && r.Seq >= got.Receipts[i-1].Seq {
			t.Errorf("%d: %+v", i, r)
		}
		switch {
		case r.Tool == "files_edit":
			edit = r
		case r.Tool == "files_write":
			wrote = r
		case r.Verification:
			verified++
		case r.Tool == "shell_exec" && *r.Status != 0:
			failed++
		case r.Tool == "files_read" && len(r.Files) != 0:
			t.Errorf("reading changes: %+v", r)
		}
	}
	if verified != 5 || failed != 2 {
		t.Errorf("%d verifications passed, %d commands failed", verified, failed)
	}
	const one, two = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806", "27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a"
	if len(edit.Files) != 1 || edit.Files[0] != (api.ChangedFile{Path: u.Path("a.txt"), Before: one, After: two}) {
		t.Errorf("%+v", edit)
	}
	if len(wrote.Files) != 1 || wrote.Files[0].Before != "" || wrote.Files[0].After == "" {
		t.Errorf("%+v", wrote)
	}
	text := succeeds(t, u, "agent", "receipts", "mur", "--run", got.Run)
	for _, want := range []string{"the newest first\n", "  done  files_edit  read a.txt, write a.txt\n", u.Path("a.txt") + "  2c8b08da5ce6 → 27dd8ed44a83\n", "exit status 0, a verification that passed, in "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := succeeds(t, u, "agent", "receipts", "mur", "-n", "1"); strings.Count(text, "done") != 1 || !strings.Contains(text, ": 1 receipt (--limit has more") {
		t.Errorf("%s", text)
	}
	fails(t, u, 2, "--limit is 0", "agent", "receipts", "mur", "-n", "0")
	fails(t, u, 2, "that is no run's id", "agent", "capabilities", "mur", "--run", "x y")
	fails(t, u, 1, "the log has no run x", "agent", "capabilities", "mur", "--run", "x")
	fails(t, u, 1, "no run of agent", "agent", "receipts", "other")
	fails(t, u, 2, "can be commit", "agent", "capabilities", "mur", "--action", "push")
}

// TestCommitUnknown kills a control plane while something is done: what became of it nobody
// knows, and nothing is committed on top of that.
func TestCommitUnknown(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		c := committing(t, u, "{requires: [verified]}")
		c.mustSay("(exit status 0)", "shell_exec", `{"command":"true","verifies":true}`)
		mayCommit(t, u, true, "commit  yes")
		c.send(5, "tools/call", `{"name":"shell_exec","arguments":{"command":"sleep 9876544"}}`)
		within(t, "the command runs", func() bool { return runs(t, "9876544") })
		var status api.Status
		if err := json.Unmarshal([]byte(succeeds(t, u, "serve", "--status", "--json")), &status); err != nil || status.Pid < 2 {
			t.Fatalf("%v: %+v", err, status)
		}
		if control, err := os.FindProcess(status.Pid); err != nil || control.Kill() != nil {
			t.Fatalf("cannot kill %d: %v", status.Pid, err)
		}
		within(t, "the command ends with its control plane", func() bool { return !runs(t, "9876544") })
		c.again(u)
		c.mustSay("(exit status 0)", "shell_exec", `{"command":"true","verifies":true}`)
		c.mustSay("commit_not_verified", "shell_exec", commitNow)
		mayCommit(t, u, false, "there is 1 action without an outcome (commit_not_verified)\n        hint: ")
		text := succeeds(t, u, "agent", "receipts", "mur")
		if strings.Count(text, "  unknown  shell_exec  a command\n  no outcome: ") != 1 {
			t.Errorf("%s", text)
		}
		c.leaves()

		// Another run has nothing that is not known.
		c = toolServer(t, u, "mcp", "serve", "--agent", "mur")
		c.mustSay("no verification has passed", "shell_exec", commitNow)
		c.mustSay("(exit status 0)", "shell_exec", `{"command":"true","verifies":true}`)
		c.mustSay("(exit status 0)", "shell_exec", commitNow)
		c.leaves()
	})
}
