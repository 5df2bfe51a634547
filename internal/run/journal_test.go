package run_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn/internal/audit"
	"bourn/internal/run/runtest"

	"github.com/google/go-cmp/cmp"
)

// noted reads the journal of a user.
func noted(t testing.TB, u *runtest.User) []audit.Entry {
	t.Helper()
	f, err := os.Open(filepath.Join(u.Home, ".bourn/journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []audit.Entry
	for s := bufio.NewScanner(f); s.Scan(); {
		var e audit.Entry
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%v in %s", err, s.Text())
		}
		all = append(all, e)
	}
	return all
}

// said is an entry without what differs from time to time.
func said(all []audit.Entry) []string {
	var out []string
	for _, e := range all {
		out = append(out, strings.Join([]string{string(e.Kind), e.Agent, e.What, e.Target, string(e.Outcome), e.Reason}, "|"))
	}
	return out
}

// A run is noted when it starts, with what it was refused and with its end; its arguments
// are nobody's to read.
func TestRunsAreNoted(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		agent(t, u, filepath.Join(u.Home, ".bourn"), "mur", "{write: ["+u.Work+"]}")
		h := newHost(t, u)
		h.publish(t, oneRule)
		u.Write(".env", secret)
		u.Bourn("run", "-q", "--agent", "mur", "--", "sh", "-c", "exit 7", secret)
		u.Bourn("run", "-q", "--watch", "--", "cat", ".env")
		u.Bourn("run", "-q", "--", "sh", "-c", "kill -9 $$")
		all := noted(t, u)
		want := []string{
			"run|mur|run started|sh|allowed|", "outcome|mur|run ended||failed|",
			"run||run started|cat|allowed|", "action||read|" + u.Path(".env") + "|denied|a hard block of this host's administrator (boundary:env)",
			"outcome||run ended||failed|",
			"run||run started|sh|allowed|", "outcome||run ended||failed|",
		}
		if diff := cmp.Diff(want, said(all)); diff != "" {
			t.Fatal(diff)
		}
		var d struct {
			State, Generation string
			Boundaries        int64
			Enforced, Dropped int
		}
		if err := json.Unmarshal(all[0].Detail, &d); err != nil || d.State != "enforcing" || len(d.Generation) != 64 || d.Boundaries != 3 || d.Enforced == 0 {
			t.Errorf("%s", all[0].Detail)
		}
		if all[1].Of != all[0].ID || all[1].Run != all[0].Run || all[1].Duration <= 0 || string(all[1].Detail) != `{"status":7}` || len(all[0].Digest) != 64 {
			t.Errorf("%+v", all[:2])
		}
		if text, err := os.ReadFile(filepath.Join(u.Home, ".bourn/journal.jsonl")); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%v: an argument stands in the log", err)
		}
	})
}

// What starts no command is noted by nobody, but for what failed after it was noted.
func TestWhatDoesNotRunIsNotNoted(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	u.Bourn("plan")
	u.Bourn("explain", "read", ".")
	u.Bourn("doctor")
	u.Bourn("run", "-q", "--write", "/nowhere/at/all", "--no-such-flag", "--", "true")
	if _, err := os.Lstat(filepath.Join(u.Home, ".bourn/journal.jsonl")); err == nil {
		t.Errorf("noted: %v", said(noted(t, u)))
	}
	u.Bourn("run", "-q", "--", "no-such-program-anywhere")
	for _, e := range noted(t, u) {
		if e.Kind == audit.KindOutcome && e.Outcome != audit.Failed {
			t.Errorf("%+v", e)
		}
	}
}

// What cannot be noted is not done: no first instruction, no change of a profile.
func TestWhatCannotBeNotedIsNotDone(t *testing.T) {
	runtest.Users(t, func(t *testing.T, u *runtest.User) {
		home := filepath.Join(u.Home, ".bourn")
		if r := u.Bourn("agent", "create", "mur"); r.Status != 0 {
			t.Fatalf("%+v", r)
		}
		if err := os.Remove(filepath.Join(home, "journal.jsonl")); err != nil {
			t.Fatal(err)
		}
		u.Mkdir(filepath.Join(home, "journal.jsonl"))
		before := tree(t, filepath.Join(home, "agents"))
		for _, line := range [][]string{{"run", "--", "touch", "ran"}, {"run", "--agent", "mur", "--write", ".", "--", "touch", "ran"},
			{"agent", "create", "other"}, {"agent", "perm", "deny-path", "mur", ".env"}, {"agent", "perm", "allow-host", "mur", "api.example.com"}, {"agent", "delete", "mur", "--yes"}} {
			r := u.Bourn(line...)
			if r.Status == 0 || !strings.Contains(r.Err, "cannot note what was done") || !strings.Contains(r.Err, "hint: nothing is done that is not noted") {
				t.Errorf("%v: status %d\n%s", line, r.Status, r.Err)
			}
		}
		if _, err := os.Lstat(u.Path("ran")); err == nil {
			t.Error("it ran")
		}
		after := tree(t, filepath.Join(home, "agents"))
		for at := range after {
			if strings.HasSuffix(at, "/.lock") {
				delete(after, at)
				delete(before, at)
			}
		}
		unchanged(t, "the agents", before, after)
	})
}

// Changes of what agents may do are noted with what changed, before they hold.
func TestChangesAreNoted(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	for _, line := range [][]string{
		{"agent", "create", "mur", "--write", ".", "--", "make", secret}, {"agent", "perm", "deny-path", "mur", ".env"},
		{"agent", "perm", "deny-path", "mur", ".env"}, {"agent", "perm", "allow-host", "mur", "api.example.com"},
		{"agent", "perm", "remove-path", "mur", ".env"}, {"agent", "delete", "mur", "--yes"}} {
		if r := u.Bourn(line...); r.Status != 0 {
			t.Fatalf("%v: %+v", line, r)
		}
	}
	all := noted(t, u)
	want := []string{
		"change|mur|agent created|make|allowed|", "change|mur|profile changed|+filesystem.deny " + u.Path(".env") + "|allowed|",
		"change|mur|profile changed|+network.hosts api.example.com|allowed|", "change|mur|profile changed|-filesystem.deny " + u.Path(".env") + "|allowed|",
		"change|mur|agent deleted||allowed|",
	}
	if diff := cmp.Diff(want, said(all)); diff != "" {
		t.Error(diff)
	}
	for _, e := range all {
		if e.Who != "uid:"+itoa(os.Getuid()) || len(e.Digest) != 64 && e.What != "agent deleted" {
			t.Errorf("%+v", e)
		}
	}
}

// A run that is refused without end leaves a bounded number of lines.
func TestNotedRefusalsAreBounded(t *testing.T) {
	u := runtest.NewUser(t, os.Getuid())
	r := u.Sh(`at=${https_proxy#*://}; bash -c 'for i in $(seq 1500); do
		exec 3<>/dev/tcp/$0/$1 && printf "CONNECT h$i.example.com:443 HTTP/1.1\r\n\r\n" >&3 && read -r x <&3; exec 3>&-; done' ${at%:*} ${at##*:}; echo done`,
		"--host", "api.example.com")
	if !strings.Contains(r.Out, "done") {
		t.Fatalf("%+v", r)
	}
	all := noted(t, u)
	if len(all) < 100 || len(all) > 250 {
		t.Errorf("%d entries", len(all))
	}
	further := all[len(all)-2]
	if further.What != "further refusals" || further.Repeated < 1000 {
		t.Errorf("%+v", further)
	}
}

func BenchmarkNote(b *testing.B) {
	at := filepath.Join(b.TempDir(), "journal.jsonl")
	for b.Loop() {
		if err := audit.Note(at, audit.Entry{Kind: audit.KindRun, Who: "uid:0", What: "run started"}); err != nil {
			b.Fatal(err)
		}
		if fi, err := os.Stat(at); err == nil && fi.Size() > 4<<20 {
			_ = os.Remove(at)
		}
	}
}
