package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
	"bourn/internal/tool/tier"
	"bourn/internal/workspace"
)

// profileOf writes the profile of an agent of the office's.
func (o *office) profileOf(name, rest string) {
	o.t.Helper()
	at := filepath.Join(o.config.Home, "agents", name, "profile.yaml")
	must(o.t, os.MkdirAll(filepath.Dir(at), 0o700))
	must(o.t, os.WriteFile(at, []byte("version: 1\nagent: "+name+"\n"+rest), 0o600))
}

// runOf is a run of an agent for a member, with the rules that its actor would have been told.
func (o *office) runOf(name, member, id string) *gatedRun {
	o.t.Helper()
	of, err := store.ParseID(o.ids[member])
	must(o.t, err)
	now := o.boundaries.now.Load()
	return &gatedRun{run: id, agent: bourn.AgentName(name), member: store.MemberID(of), actor: new(workspace.Client), from: now, rules: now.compiled}
}

// calls calls a tool and reads what comes of it, or returns what the model is told.
func (o *office) calls(run *gatedRun, tool string, input any, into any) (said string, ok bool) {
	o.t.Helper()
	text, err := json.Marshal(input)
	must(o.t, err)
	a := o.server.tools.call(o.t.Context(), run, o.server.tools.known[tool], text, nil)
	if !a.Failed && into != nil {
		must(o.t, json.Unmarshal([]byte(a.Text), into))
	}
	return a.Text, !a.Failed
}

type fields map[string]any

func TestRecordsTools(t *testing.T) {
	o := newOffice(t)
	o.profileOf("mur", "records: write\n")
	ann, bob := o.runOf("mur", "ann", "r-ann"), o.runOf("mur", "bob", "r-bob")
	var made, got api.Record
	does := func(run *gatedRun, tool string, input, into any) {
		t.Helper()
		if said, ok := o.calls(run, tool, input, into); !ok {
			t.Fatalf("%s %v: %s", tool, input, said)
		}
	}
	refused := func(run *gatedRun, tool string, input any, code string) string {
		t.Helper()
		said, ok := o.calls(run, tool, input, nil)
		if ok || !strings.HasPrefix(said, code) || !strings.Contains(said, "\nhint: ") {
			t.Errorf("%s %v: %t %s; want %s with a hint", tool, input, ok, said, code)
		}
		return said
	}
	does(ann, "records_create", fields{"collection": "notes", "body": fields{"text": "a secret teapot"}}, &made)
	if made.Owner != o.ids["ann"] || made.Visibility != "private" {
		t.Errorf("%+v", made)
	}
	does(ann, "records_get", fields{"id": made.ID}, &got)
	does(ann, "records_update", fields{"id": made.ID, "body": fields{"text": "a green teapot"}}, &got)
	if !strings.Contains(string(got.Body), "green") || got.Collection != "notes" {
		t.Errorf("%+v", got)
	}
	count := func(run *gatedRun, tool string, input any, want int) {
		t.Helper()
		var list struct{ Records, Tasks []struct{ ID string } }
		does(run, tool, input, &list)
		if n := len(list.Records) + len(list.Tasks); n != want {
			t.Errorf("%s %v: %d, want %d", tool, input, n, want)
		}
	}
	count(ann, "records_list", fields{"q": "teapot"}, 1)
	count(ann, "records_list", fields{"collection": "others"}, 0)
	count(bob, "records_list", fields{}, 0)
	hidden, missing := refused(bob, "records_get", fields{"id": made.ID}, "not_found"), refused(bob, "records_get", fields{"id": o.ids["ann"]}, "not_found")
	if strings.ReplaceAll(hidden, made.ID, o.ids["ann"]) != missing {
		t.Errorf("hidden: %s; missing: %s", hidden, missing)
	}
	refused(bob, "records_update", fields{"id": made.ID, "visibility": "company"}, "not_found")
	refused(bob, "tasks_create", fields{"title": "spy", "record": made.ID}, "denied")
	var task api.Task
	does(ann, "tasks_create", fields{"title": "fill it", "assignee": o.ids["bob"], "record": made.ID, "due": "2026-12-31"}, &task)
	count(bob, "tasks_list", fields{"status": "open"}, 1)
	does(bob, "tasks_update", fields{"id": task.ID, "status": "done"}, &task)
	refused(bob, "tasks_update", fields{"id": task.ID, "title": "mine"}, "denied")
	id := task.ID
	task = api.Task{}
	does(ann, "tasks_update", fields{"id": id, "assignee": "", "due": ""}, &task)
	if task.Status != "done" || task.Assignee != "" || task.Due != "" {
		t.Errorf("%+v", task)
	}
	count(bob, "tasks_list", fields{}, 0)
	does(ann, "records_delete", fields{"id": made.ID}, nil)
	refused(ann, "records_delete", fields{"id": made.ID}, "not_found")

	// For an administrator an agent has what they see, and no more.
	admin := o.runOf("mur", "admin", "r-admin")
	does(ann, "records_create", fields{"collection": "notes", "body": fields{}}, &made)
	count(admin, "records_list", fields{}, 0)
	refused(admin, "records_get", fields{"id": made.ID}, "not_found")

	if n := o.sessions("kind = 'agent' and revoked_at is null"); n != 3 {
		t.Errorf("%d sessions of agents for three runs", n)
	}
	o.server.tools.endSession(ann)
	if n := o.sessions("kind = 'agent' and revoked_at is null"); n != 2 {
		t.Errorf("%d sessions of agents for two runs", n)
	}
	refused(ann, "records_list", fields{}, "denied")
	o.checkToolLog(t, ann.run)
}

func (o *office) sessions(where string) (n int) {
	o.t.Helper()
	must(o.t, o.db.Connect(o.t, "postgres", "records").QueryRow(o.t.Context(), "select count(*) from auth.sessions where "+where).Scan(&n))
	return n
}

// checkToolLog: each effect has an entry before it and an outcome, and none has what was in it.
func (o *office) checkToolLog(t *testing.T, run string) {
	t.Helper()
	a := o.ask("GET", "/v1/log?run="+run, "")
	var lines struct {
		Lines []struct {
			Seq   int64
			Entry struct {
				ID, Of, What, Outcome, Kind string
				Detail                      struct{ ID string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(a.body), &lines))
	began := map[string]string{}
	ended := map[string]int{}
	for _, l := range lines.Lines {
		if l.Entry.Kind == "action" && l.Entry.Outcome == "allowed" {
			began[l.Entry.ID] = l.Entry.What
		}
		if l.Entry.Kind == "outcome" {
			if began[l.Entry.Of] == "" {
				t.Errorf("%s ended before it began", l.Entry.What)
			}
			ended[l.Entry.What+" "+l.Entry.Outcome]++
			if l.Entry.Outcome == "done" && !strings.HasSuffix(l.Entry.What, "_list") && l.Entry.Detail.ID == "" {
				t.Errorf("the log does not have what %s was about", l.Entry.What)
			}
		}
	}
	for _, want := range []string{"records_create done", "records_update done", "records_delete done", "records_delete failed", "records_list done", "tasks_create done", "tasks_update done"} {
		if ended[want] == 0 {
			t.Errorf("the log has no %q: %v", want, ended)
		}
	}
	for _, secret := range []string{"teapot", "fill it"} {
		if strings.Contains(a.body, secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// The door and the tool's own policy hold, both for what is listed and for what is called.
func TestRecordsToolsAreGoverned(t *testing.T) {
	o := newOffice(t)
	var of []string
	for _, known := range tier.Tools() {
		if recordsTools[known.Name] != nil {
			of = append(of, known.Name)
		}
	}
	if len(of) != len(recordsTools) || len(of) != 8 {
		t.Errorf("the tools are %v, and %d are performed", of, len(recordsTools))
	}
	for i, test := range []struct{ profile, shown, list, create string }{
		{"", "", "denied (records_not_granted)", "denied (records_not_granted)"},
		{"records: read\n", "records_list records_get tasks_list", "", "denied (records_read_only)"},
		{"records: write\n", strings.Join(of, " "), "", ""},
		{"records: write\ntools: {rules: [{tool: records_create, policy: ask}]}\n", strings.Join(of, " "), "", "parked"},
		{"records: write\ntools: {rules: [{tool: records_create, policy: deny}]}\n", strings.Join(slices.DeleteFunc(slices.Clone(of), func(s string) bool { return s == "records_create" }), " "), "", "denied"},
	} {
		name := fmt.Sprintf("mur%d", i)
		o.profileOf(name, test.profile)
		run := o.runOf(name, "ann", "r-"+name)
		var shown []string
		for _, tool := range of {
			if o.server.tools.client(run).Shown(tool) {
				shown = append(shown, tool)
			}
		}
		if strings.Join(shown, " ") != test.shown {
			t.Errorf("%q shows %v, want %s", test.profile, shown, test.shown)
		}
		for tool, want := range map[string]string{"records_list": test.list, "records_create": test.create} {
			said, ok := o.calls(run, tool, map[string]fields{"records_list": {}, "records_create": {"collection": "x", "body": fields{}}}[tool], nil)
			if ok != (want == "") || !strings.HasPrefix(said, want) {
				t.Errorf("%q, %s: %t %s, want %q", test.profile, tool, ok, said, want)
			}
		}
	}
	// What only reads has a session that only reads: the database keeps it.
	if n := o.sessions("kind = 'agent' and read_only"); n != 1 {
		t.Errorf("%d sessions that only read", n)
	}
	// Taken back: the next call has it no more.
	run := o.runOf("mur2", "ann", "r-back")
	if said, ok := o.calls(run, "records_create", fields{"collection": "x", "body": fields{}}, nil); !ok {
		t.Fatal(said)
	}
	o.profileOf("mur2", "records: read\n# another size\n")
	if said, ok := o.calls(run, "records_create", fields{"collection": "x", "body": fields{}}, nil); ok || !strings.Contains(said, "records_read_only") {
		t.Errorf("what was taken back is done: %s", said)
	}
}
