package cli_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/cli"
	"bourn/internal/run/runtest"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"
)

// A success is one way for each command to succeed, after those before it; AGENT is the
// agent that the first makes. Where a run is needed the command is executed in one.
var successes = []struct {
	command string
	line    []string
}{
	{"bourn agent create", []string{"agent", "create", "--json", "AGENT", "--write", ".", "--", "true"}},
	{"bourn agent list", []string{"agent", "list", "--json"}},
	{"bourn agent show", []string{"agent", "show", "AGENT", "--json"}},
	{"bourn agent perm allow-read", []string{"agent", "perm", "allow-read", "AGENT", "/etc/hostname", "--json"}},
	{"bourn agent perm allow-write", []string{"agent", "perm", "allow-write", "AGENT", "../home/w", "--json"}},
	{"bourn agent perm allow-spawn-dir", []string{"agent", "perm", "allow-spawn-dir", "AGENT", "../home/w", "--json"}},
	{"bourn agent perm deny-spawn-dir", []string{"agent", "perm", "deny-spawn-dir", "AGENT", "../home/w", "--json"}},
	{"bourn agent perm deny-path", []string{"agent", "perm", "deny-path", "AGENT", ".env", "--json"}},
	{"bourn agent perm remove-path", []string{"agent", "perm", "remove-path", "AGENT", ".env", "--json"}},
	{"bourn agent perm allow-host", []string{"agent", "perm", "allow-host", "AGENT", "api.example.com", "--json"}},
	{"bourn agent perm deny-host", []string{"agent", "perm", "deny-host", "AGENT", "internal.example.org", "--json"}},
	{"bourn agent perm remove-host", []string{"agent", "perm", "remove-host", "AGENT", "api.example.com", "--json"}},
	{"bourn agent perm tool-allow", []string{"agent", "perm", "tool-allow", "AGENT", "files_*", "--json"}},
	{"bourn agent perm tool-ask", []string{"agent", "perm", "tool-ask", "AGENT", "shell_exec", "--json"}},
	{"bourn agent perm tool-deny", []string{"agent", "perm", "tool-deny", "AGENT", "shell_exec", "--tier", "write", "--json"}},
	{"bourn agent perm remove-tool", []string{"agent", "perm", "remove-tool", "AGENT", "shell_exec", "--json"}},
	{"bourn agent perm list-tools", []string{"agent", "perm", "list-tools", "AGENT", "--json"}},
	{"bourn agent perm list-paths", []string{"agent", "perm", "list-paths", "AGENT", "--json"}},
	{"bourn agent perm list-hosts", []string{"agent", "perm", "list-hosts", "AGENT", "--json"}},
	{"bourn agent perm show", []string{"agent", "perm", "show", "AGENT", "--json"}},
	{"bourn plan", []string{"plan", "--json"}},
	{"bourn explain", []string{"explain", "--json", "read", "."}},
	{"bourn import claude-code", []string{"import", "claude-code", ".claude/settings.json", "--dry-run", "--json"}},
	{"bourn people init", []string{"people", "init", "--root", "host", "--dry-run", "--json"}},
	{"bourn people add", []string{"people", "add", "bob", "--root", "host", "--dry-run", "--json"}},
	{"bourn people list", []string{"people", "list", "--root", "host", "--json"}},
	{"bourn people show", []string{"people", "show", "ann", "--root", "host", "--json"}},
	{"bourn people circle add", []string{"people", "circle", "add", "board", "--root", "host", "--dry-run", "--json"}},
	{"bourn people circle join", []string{"people", "circle", "join", "sales", "ann", "--root", "host", "--dry-run", "--json"}},
	{"bourn people circle leave", []string{"people", "circle", "leave", "sales", "ann", "--root", "host", "--dry-run", "--json"}},
	{"bourn people circle remove", []string{"people", "circle", "remove", "sales", "--root", "host", "--dry-run", "--json"}},
	{"bourn people sync", []string{"people", "sync", "--root", "host", "--dry-run", "--json"}},
	{"bourn people remove", []string{"people", "remove", "ann", "--root", "host", "--dry-run", "--json"}},
	{"bourn doctor", []string{"doctor", "--json"}},
	{"bourn whoami", []string{"run", "-q", "--", "bourn", "whoami", "--json"}},
	{"bourn accept", []string{"accept", "--json", "--digest", "DIGEST"}},
	{"bourn agent start", []string{"agent", "start", "AGENT", "--json", "--", "sleep", "60"}},
	{"bourn agent logs", []string{"agent", "logs", "AGENT", "--json"}},
	{"bourn agent restart", []string{"agent", "restart", "AGENT", "--json", "--grace", "0s"}},
	{"bourn agent stop", []string{"agent", "stop", "AGENT", "--json", "--grace", "0s"}},
	{"bourn agent delete", []string{"agent", "delete", "AGENT", "--yes", "--json"}},
	{"bourn serve", append([]string{"serve", "-d", "--json", "--no-http"}, (&runtest.User{UID: os.Getuid()}).DatabaseUser()...)},
	{"bourn db status", []string{"db", "status", "--json"}},
	{"bourn db backup", []string{"db", "backup", "b.tar", "--json"}},
	{"bourn db migrate", []string{"db", "migrate", "--json", "--admin-url", "postgres://postgres@/?host=SOCKET"}},
	{"bourn serve", []string{"serve", "--status", "--json"}},
	{"bourn boundaries set", []string{"boundaries", "set", "blocks.json", "--after", "0", "--json"}},
	{"bourn boundaries show", []string{"boundaries", "show", "--json"}},
	{"bourn boundaries history", []string{"boundaries", "history", "--json"}},
	{"bourn boundaries test", []string{"boundaries", "test", "--json", "ls"}},
	{"bourn audit tail", []string{"audit", "tail", "--json"}},
	{"bourn audit verify", []string{"audit", "verify", "--json"}},
	{"bourn agent receipts", []string{"agent", "receipts", "AGENT", "--json"}},
	{"bourn agent capabilities", []string{"agent", "capabilities", "AGENT", "--json"}},
	{"bourn key show", []string{"key", "show", "--json"}},
	{"bourn key diagnostics new", []string{"key", "diagnostics", "new", "monitoring", "--json"}},
	{"bourn key diagnostics list", []string{"key", "diagnostics", "list", "--json"}},
	{"bourn key diagnostics revoke", []string{"key", "diagnostics", "revoke", "TOKEN", "--json"}},
	{"bourn agent create", []string{"agent", "create", "--json", "AGENT2", "--write", ".", "--", "true"}},
	{"bourn key mcp new", []string{"key", "mcp", "new", "editor", "--agent", "AGENT2", "--json"}},
	{"bourn key mcp list", []string{"key", "mcp", "list", "--json"}},
	{"bourn key mcp revoke", []string{"key", "mcp", "revoke", "TOKEN", "--json"}},
	{"bourn records query", []string{"records", "query", "select 1 as one, null as no", "--json"}},
	{"bourn records lint", []string{"records", "lint", "--json"}},
	{"bourn serve", []string{"serve", "--stop", "--json"}},
	{"bourn db restore", []string{"db", "restore", "b.tar", "--replace", "--json"}},
}

// elsewhere are the commands whose JSON another test tries, and where.
var elsewhere = map[string]string{
	"bourn records guard": "TestRecords of cmd/bournd, which makes a table to guard",
	"bourn people share":  "TestPeopleShare of internal/daemon, which makes a shared host",
}

// sharedHost are the files of a host with a person and a circle, of which nothing is made yet.
var sharedHost = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
	"etc/group":  "root:x:0:\n",
	"etc/bourn/identities.json": `{"version":1,"range":{"first":66000,"last":99999},
 "people":[{"id":"ann","member":"","name":"jgiv4dl5jn","uid":66016,"emails":[],"accounts":[],"removed":false}],
 "circles":[{"id":"sales","name":"4bhlfeba5k","gid":66017,"members":[],"removed":false}],"tombstones":[]}`,
}

// needsDatabase reports whether a command needs the control plane's database.
func needsDatabase(command string) bool {
	for _, of := range []string{"serve", "db ", "boundaries", "audit", "records", "key", "agent receipts", "agent capabilities"} {
		if strings.HasPrefix(command, "bourn "+of) {
			return true
		}
	}
	return false
}

// withDatabase reports whether this host can have a control plane.
func withDatabase(t *testing.T, u *runtest.User) bool {
	t.Helper()
	has := t.Run("postgres", func(t *testing.T) { storetest.Need(t) }) // a skip is no failure
	if _, err := cluster.Find(t.Context(), nil, 0); err != nil || !has {
		return false
	}
	u.Serves()
	return true
}

// TestJSON runs every command with --json, so that it succeeds and so that it fails, and
// reads what stands on standard output.
func TestJSON(t *testing.T) {
	seals := canSeal(t)
	t.Run("seals", func(t *testing.T) { runtest.Need(t, "userns", seals) })
	if !seals {
		return
	}
	var done []string
	u := runtest.NewUser(t, os.Getuid())
	u.Mkdir(u.Home + "/w")
	u.Write(".claude/settings.json", "{}")
	for at, text := range sharedHost {
		u.Write("host/"+at, text)
	}
	const proposal = "version: 1\nfilesystem: {deny: [.env]}\n"
	u.Write(".bourn/profile.yaml", proposal)
	// What is shown and not accepted is one value, and its error is in words alone.
	if r := u.Bourn("accept", "--json"); r.Status != bourn.CodeDenied.ExitStatus() || !json.Valid([]byte(r.Out)) || !strings.Contains(r.Out, `"accepted": false`) {
		t.Errorf("accept without a yes: status %d\n%s%s", r.Status, r.Out, r.Err)
	}
	postgres := withDatabase(t, u)
	u.Write("blocks.json", `{"version":1,"hardBlocks":[]}`)
	token := "" // the id of the one that was made
	for _, s := range successes {
		done = append(done, s.command)
		if needsDatabase(s.command) && !postgres {
			continue
		}
		line := slices.Clone(s.line)
		for i := range line {
			line[i] = strings.NewReplacer("AGENT", "mur", "DIGEST", fmt.Sprintf("%x", sha256.Sum256([]byte(proposal)))).Replace(line[i])
			line[i] = strings.Replace(line[i], "TOKEN", token, 1)
			if before, after, ok := strings.Cut(line[i], "SOCKET"); ok {
				line[i] = before + u.DatabaseDirectory() + "/socket" + after
			}
		}
		r := u.Bourn(line...)
		if r.Status != 0 || !json.Valid([]byte(r.Out)) || strings.HasPrefix(strings.TrimSpace(r.Out), "{\n  \"error\":") {
			t.Errorf("%s: status %d, and this is no success in JSON:\n%s%s", s.command, r.Status, r.Out, r.Err)
		}
		if strings.HasPrefix(s.command, "bourn key ") && strings.HasSuffix(s.command, " new") {
			var made struct{ ID string }
			_ = json.Unmarshal([]byte(r.Out), &made)
			token = made.ID
		}
	}
	for _, command := range cli.Leaves() {
		if !slices.Contains(done, command) && elsewhere[command] == "" {
			t.Errorf("%s is not tried", command)
		}
		line := append(strings.Fields(command)[1:], "--json", "--no-such-flag")
		checkFailure(t, bourn.CodeInvalid, u.Bourn(line...))
	}
	checkFailure(t, bourn.CodeNotFound, u.Bourn("agent", "show", "nobody", "--json"))
	checkFailure(t, bourn.CodeInvalid, u.Bourn("agent", "show", "No Name", "--json"))
	checkFailure(t, bourn.CodeDenied, u.Bourn("run", "-q", "--", "bourn", "doctor", "--json"))
	checkFailure(t, bourn.CodeInvalid, u.Bourn("explain", "--json", "eat", "."))
	if r := u.Bourn("agent", "show", "nobody"); r.Out != "" {
		t.Errorf("without --json it prints %q", r.Out)
	}
}

// checkFailure sees that a command failed with a code, and said so in JSON and in words.
func checkFailure(t *testing.T, code bourn.Code, r runtest.Result) {
	t.Helper()
	var f cli.Failure
	dec := json.NewDecoder(strings.NewReader(r.Out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil || dec.More() {
		t.Errorf("no failure in JSON: %v\n%s%s", err, r.Out, r.Err)
		return
	}
	said := strings.Contains(r.Err, strings.Split(f.Error.Message, "\n")[0]) && strings.Contains(r.Err, "hint: "+f.Error.Hint)
	if f.Error.Code != code || f.Error.Message == "" || f.Error.Hint == "" || !said || r.Status != code.ExitStatus() {
		t.Errorf("status %d, %+v, and on standard error\n%s", r.Status, f, r.Err)
	}
}
