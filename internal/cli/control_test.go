package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/run"
	"bourn/internal/run/runtest"
)

// controlled calls f as root and as an ordinary user with a control plane of their own.
func controlled(t *testing.T, f func(t *testing.T, u *runtest.User)) {
	t.Helper()
	t.Parallel() // each has a home and a control plane of its own, and they wait for much
	seals := canSeal(t)
	t.Run("seals", func(t *testing.T) { runtest.Need(t, "userns", seals) })
	uids := []int{os.Getuid()}
	if os.Getuid() == 0 && !runtest.OwnOnly() {
		uids = append(uids, runtest.Nobody)
	}
	for _, uid := range uids {
		t.Run(fmt.Sprint(uid), func(t *testing.T) {
			u := runtest.NewUser(t, uid)
			if !seals || !withDatabase(t, u) {
				return
			}
			u.Env = append(u.Env, "PATH="+filepath.Dir(runtest.Binary(t))+":"+os.Getenv("PATH"))
			succeeds(t, u, append([]string{"serve", "-d", "--no-http"}, u.DatabaseUser()...)...)
			f(t, u)
		})
	}
}

func succeeds(t *testing.T, u *runtest.User, line ...string) string {
	t.Helper()
	r := u.Bourn(line...)
	if r.Status != 0 {
		t.Fatalf("bourn %s: status %d\n%s%s", strings.Join(line, " "), r.Status, r.Out, r.Err)
	}
	return r.Out
}

func fails(t *testing.T, u *runtest.User, status int, says string, line ...string) string {
	t.Helper()
	r := u.Bourn(line...)
	if r.Status != status || !strings.Contains(r.Err, says) || !strings.Contains(r.Err, "\nhint: ") {
		t.Errorf("bourn %s: status %d, not %d with %q\n%s%s", strings.Join(line, " "), r.Status, status, says, r.Out, r.Err)
	}
	return r.Out + r.Err
}

// rules writes a document of hard blocks, with PROJECT for the work directory.
func rules(u *runtest.User, name, list string) {
	u.Write(name, `{"version": 1, "hardBlocks": [`+strings.ReplaceAll(list, "PROJECT", u.Work)+"\n]}\n")
}

// within waits for what happens in the control plane a moment later.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never comes to this: %s", what)
		}
	}
}

const (
	keyRule  = `{"id": "key", "type": "path", "match": "exact", "pattern": "PROJECT/key", "operations": ["read", "write"], "reason": "the key of production"}`
	pushRule = `{"id": "push", "type": "command", "match": "prefix", "pattern": "git push --force", "operations": ["execute"]}`
)

// TestBoundariesByCommand saves, shows, tries and takes back hard blocks, beside an agent
// that runs.
func TestBoundariesByCommand(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write("key", "secret")
		succeeds(t, u, "agent", "create", "mur", "--write", ".", "--", "sleep", "600")
		succeeds(t, u, "agent", "start", "mur")
		defer u.Bourn("agent", "stop", "mur", "--grace", "0s")

		rules(u, "one.json", keyRule+",\n"+pushRule)
		rules(u, "two.json", strings.Replace(keyRule, "exact", "prefix", 1))
		rules(u, "wrong.json", "\n"+keyRule+",\n"+strings.Replace(pushRule, "prefix", "regex", 1)+",\n"+strings.Replace(keyRule, "exact", "regexp", 1))
		fails(t, u, 2, "the hard blocks have 2 mistakes", "boundaries", "set", "wrong.json", "--after", "0")
		fails(t, u, 2, "wrong.json:4: hardBlocks.2.match_invalid", "boundaries", "set", "wrong.json", "--after", "0")
		fails(t, u, 3, "without a person's yes", "boundaries", "set", "one.json")
		fails(t, u, 1, "version 0 is in force, and not 7", "boundaries", "set", "one.json", "--after", "7")
		out := succeeds(t, u, "boundaries", "set", "one.json", "--after", "0")
		if !strings.Contains(out, "+ key  path exact "+u.Work+"/key: read, write\n+ push  command prefix") || !strings.Contains(out, "saved as version 1: 2 rules") {
			t.Errorf("%s", out)
		}
		if out := succeeds(t, u, "boundaries", "set", "one.json", "--after", "1"); !strings.Contains(out, "nothing changes") {
			t.Errorf("%s", out)
		}

		// What was started before does not keep it; what starts now does.
		shown := func() run.AgentBlocks {
			var s struct {
				api.Boundaries
				Source string
				Agents []run.AgentBlocks
			}
			if err := json.Unmarshal([]byte(succeeds(t, u, "boundaries", "show", "--json")), &s); err != nil || s.State != "ok" || s.Source != "control_plane" || len(s.Agents) != 1 {
				t.Fatalf("%v: %+v", err, s)
			}
			return s.Agents[0]
		}
		fates := func() (out []string) {
			for _, b := range shown().Blocks {
				out = append(out, b.Rule+" "+string(b.Operation)+" "+string(b.Fate))
			}
			return out
		}
		is := func(want ...string) {
			t.Helper()
			if got := fates(); !slices.Equal(got, want) {
				t.Errorf("%v, not %v", got, want)
			}
		}
		is("key read from_next_start", "key write from_next_start", "push execute gate_only")
		succeeds(t, u, "agent", "restart", "mur", "--grace", "0s")
		is("key read enforced", "key write enforced", "push execute gate_only")
		text := succeeds(t, u, "boundaries", "show", "--agent", "mur")
		for _, want := range []string{"hard blocks, version 1, saved ", "  the key of production\n", "    read      ✓ enforced\n", "    execute   ✗ gate only: a command is text\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if text := succeeds(t, u, "agent", "perm", "list-paths", "mur"); !strings.Contains(text, "✓ "+u.Work+"/key\n      closed by a rule of this host's administrator: the key of production") ||
			!strings.Contains(text, "✗ 1 part of this host's hard blocks\n") {
			t.Errorf("%s", text)
		}

		// A rule of the same id that says something else is another one. A rule that goes stays in
		// force where it was sealed.
		rules(u, "other.json", strings.Replace(keyRule, "/key\"", "/other\"", 1))
		succeeds(t, u, "boundaries", "set", "other.json", "--after", "1")
		is("key read gate_only", "key write gate_only")
		u.Write("other", "x")
		is("key read from_next_start", "key write from_next_start")
		succeeds(t, u, "boundaries", "set", "two.json", "--after", "2")

		text = succeeds(t, u, "boundaries", "history", "-n", "2")
		if !strings.Contains(text, "version 3 ") || !strings.Contains(text, "- key  path exact") || !strings.Contains(text, "+ key  path prefix") || strings.Contains(text, "version 1 ") {
			t.Errorf("%s", text)
		}
		if r := u.Bourn("boundaries", "test", "--path", "key"); r.Status != 3 || !strings.Contains(r.Out, "the key of production") {
			t.Errorf("%+v", r)
		}

		// The control plane puts back what it published, and without it nothing starts.
		at := filepath.Join(u.Home, ".bourn/boundaries.json")
		if err := os.WriteFile(at, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		within(t, "it is published anew", func() bool { return u.Bourn("run", "-q", "--", "true").Status == 0 })
		succeeds(t, u, "serve", "--stop")
		if text := succeeds(t, u, "boundaries", "show"); !strings.Contains(text, "hard blocks, version 3\n") {
			t.Errorf("%s", text)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		fails(t, u, 125, "this host has hard blocks, and they are missing", "run", "-q", "--", "true")
		fails(t, u, 3, "they are missing", "agent", "restart", "mur", "--grace", "0s") // and it goes on
		if text := succeeds(t, u, "agent", "list"); !strings.Contains(text, "running") {
			t.Errorf("%s", text)
		}
		succeeds(t, u, append([]string{"serve", "-d", "--no-http"}, u.DatabaseUser()...)...)
		succeeds(t, u, "run", "-q", "--", "true")
	})
}

// TestLogByCommand reads, verifies and exports the log, with what runs noted in it.
func TestLogByCommand(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		u.Write(".env", "secret")
		succeeds(t, u, "agent", "create", "mur", "--write", ".", "--deny", ".env")
		u.Bourn("run", "-q", "--agent", "mur", "--watch", "--", "cat", ".env")
		within(t, "the run is in the log", func() bool { return strings.Contains(succeeds(t, u, "audit", "tail", "--agent", "mur"), "run ended") })
		text := succeeds(t, u, "audit", "tail", "--agent", "mur")
		for _, want := range []string{"agent created", "run started  cat\n", "denied  agent:mur  read  " + u.Path(".env") + ": denied\n", "failed  uid:"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if text := succeeds(t, u, "audit", "tail", "--outcome", "denied", "-n", "1"); strings.Count(text, "\n") != 1 {
			t.Errorf("%s", text)
		}
		var lines api.LogLines
		if err := json.Unmarshal([]byte(succeeds(t, u, "audit", "tail", "--json")), &lines); err != nil || len(lines.Lines) < 4 {
			t.Errorf("%v, %d lines", err, len(lines.Lines))
		}

		within(t, "all of it is signed", func() bool { return !strings.Contains(succeeds(t, u, "audit", "verify"), "not yet") })
		text = succeeds(t, u, "audit", "verify", "--save-checkpoint", "kept.json")
		if !strings.Contains(text, "the log fits: ") || !strings.Contains(text, "against who holds the key and the database this proves nothing") {
			t.Errorf("%s", text)
		}
		if text := succeeds(t, u, "audit", "verify", "--checkpoint", "kept.json"); !strings.Contains(text, "1 checkpoint given") {
			t.Errorf("%s", text)
		}
		var v api.VerifiedLog
		if err := json.Unmarshal([]byte(succeeds(t, u, "audit", "verify", "--json")), &v); err != nil || v.Problems == nil || v.Key == "" {
			t.Errorf("%v: %+v", err, v)
		}
		// A checkpoint that another log is the subject of, or that nobody signed.
		var s api.SignedStatement
		if err := json.Unmarshal([]byte(u.Read("kept.json")), &s); err != nil {
			t.Fatal(err)
		}
		s.Statement = bytes.Replace(s.Statement, []byte(`"position":`), []byte(`"position":9`), 1)
		forged, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		u.Write("forged.json", string(forged))
		if r := u.Bourn("audit", "verify", "--checkpoint", "forged.json"); r.Status != 1 || !strings.Contains(r.Out, "the log DOES NOT FIT: 1 problem") {
			t.Errorf("%+v", r)
		}
		u.Write("none.json", "{}")
		fails(t, u, 2, "cannot read the checkpoint none.json", "audit", "verify", "--checkpoint", "none.json")

		succeeds(t, u, "audit", "export", "log.jsonl")
		whole := u.Read("log.jsonl")
		if out := succeeds(t, u, "audit", "export"); !strings.HasPrefix(out, whole) {
			t.Errorf("two exports differ:\n%s\n%s", whole, out)
		}
		for line := range strings.Lines(whole) {
			var l api.LogLine
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &l); err != nil || json.Unmarshal(l.Entry, &e) != nil || e.What == "" {
				t.Errorf("%v: %s", err, line)
			}
		}
		if info, err := os.Stat(u.Path("log.jsonl")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		fails(t, u, 2, "cannot write", "audit", "export", "nowhere/log.jsonl")
	})
}

// TestKeysByCommand makes, lists and revokes diagnostics tokens.
func TestKeysByCommand(t *testing.T) {
	controlled(t, func(t *testing.T, u *runtest.User) {
		r := u.Bourn("key", "diagnostics", "new", "monitoring", "--expires", "1h")
		if r.Status != 0 || !strings.HasPrefix(r.Out, "bourn_diag_") || strings.Count(r.Out, "\n") != 1 || strings.Contains(r.Err, strings.TrimSpace(r.Out)) {
			t.Fatalf("%+v", r)
		}
		var all api.DiagnosticsTokens
		if err := json.Unmarshal([]byte(succeeds(t, u, "key", "diagnostics", "list", "--json")), &all); err != nil || len(all.Tokens) != 1 || all.Tokens[0].Token != "" || all.Tokens[0].Expires == nil {
			t.Fatalf("%v: %+v", err, all)
		}
		succeeds(t, u, "key", "diagnostics", "revoke", all.Tokens[0].ID)
		if out := succeeds(t, u, "key", "diagnostics", "list"); !strings.Contains(out, "revoked ") {
			t.Errorf("%s", out)
		}
		fails(t, u, 1, "", "key", "diagnostics", "revoke", "b7e3c1de-0000-4000-8000-000000000000")
		var k struct {
			Name      string `json:"name"`
			PublicKey []byte `json:"public_key"`
		}
		if err := json.Unmarshal([]byte(succeeds(t, u, "key", "show", "--json")), &k); err != nil || audit.KeyName(k.PublicKey) != k.Name {
			t.Errorf("%v: %+v", err, k)
		}
	})
}
