package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/tool"
)

func TestTools(t *testing.T) {
	seen := map[string]bool{}
	for _, tl := range tool.All() {
		if seen[tl.Name] || tl.Title == "" || tl.Description == "" || tl.Input == nil || tl.Input.Type != "object" {
			t.Errorf("%s is not whole, or there twice", tl.Name)
		}
		seen[tl.Name] = true
		if tl.Input.AdditionalProperties == nil {
			t.Errorf("%s takes keys that it does not know", tl.Name)
		}
		for name, p := range tl.Input.Properties {
			if p.Description == "" {
				t.Errorf("%s says nothing of %s", tl.Name, name)
			}
		}
	}
}

func find(t *testing.T, name string) *tool.Tool {
	for _, tl := range tool.All() {
		if tl.Name == name {
			return tl
		}
	}
	t.Fatal(name)
	return nil
}

func TestInputs(t *testing.T) {
	for _, c := range []struct{ tool, input, says string }{
		{"files_read", `{"path":"a"}`, ""},
		{"files_read", `{"path":"a","path":"b"}`, "twice"},
		{"files_read", `{"Path":"a"}`, "not known"},
		{"files_read", `{"path":"a","more":1}`, "not known"},
		{"files_read", `{"path":1}`, "another type"},
		{"files_read", `{`, "not valid JSON"},
		{"files_read", `{"path":"a"} {}`, "not valid JSON"},
		{"files_read", ``, "missing"},
		{"files_read", `{"path":"a","offset":-1}`, "negative"},
		{"files_list", ``, ""},
		{"shell_exec", `{}`, "one of"},
		{"shell_exec", `{"command":"a","argv":["b"]}`, "one of"},
		{"shell_exec", `{"command":"a","env":{"A=B":"c"}}`, "none of a variable"},
		{"shell_exec", `{"command":"a","timeout":-1}`, "seconds"},
		{"records_query", `{}`, "sql is missing"},
		{"records_query", `{"sql":"select 1","parameters":{}}`, "another type"},
		{"records_query", `{"sql":"select $1","parameters":["a",1,true,null,{"a":[1]}]}`, ""},
		{"records_list", `{}`, ""},
		{"records_list", `{"q":"a b","limit":200,"visibility":"circle"}`, ""},
		{"records_list", `{"limit":201}`, "1 to 200"},
		{"records_list", `{"visibility":"all"}`, "private, circle, company"},
		{"records_get", `{}`, "id is missing"},
		{"records_create", `{"collection":"notes","body":{"a":12345678901234567890}}`, ""},
		{"records_create", `{"collection":"notes","body":{"a":1,"a":2}}`, "twice"},
		{"records_create", `{"collection":"notes","body":[]}`, "body is an object"},
		{"records_create", `{"collection":"notes","body":null}`, "body is an object"},
		{"records_create", `{"collection":"notes"}`, "body is missing"},
		{"records_create", `{"body":{}}`, "collection is missing"},
		{"records_create", `{"collection":"notes","body":{},"owner":"x"}`, "not known"},
		{"records_update", `{"id":"x"}`, "nothing to change"},
		{"records_update", `{"id":"x","body":1}`, "body is an object"},
		{"records_update", `{"body":{}}`, "id is missing"},
		{"records_delete", `{"id":1}`, "another type"},
		{"tasks_list", `{"status":"later"}`, "open, doing, done, dropped"},
		{"tasks_create", `{}`, "title is missing"},
		{"tasks_create", `{"title":"` + strings.Repeat("é", 500) + `"}`, ""},
		{"tasks_create", `{"title":"` + strings.Repeat("é", 501) + `"}`, "500 characters"},
		{"tasks_update", `{"id":"x","assignee":""}`, ""},
		{"tasks_update", `{"id":"x"}`, "nothing to change"},
		{"tasks_update", `{"id":"x","record":"y"}`, "not known"},
		{"git_status", `{"path":"--output=/tmp/x"}`, "begins with -"},
		{"git_diff", `{"path":"-x"}`, "begins with -"},
		{"files_edit", `{"path":"a","old":"","new":"b"}`, "old is missing"},
		{"spawn_subagent", `{"task":"a","root":"b","agent":"mur","read":[],"write":["b/c"],"deny":["*.pem"],"hosts":[],"tools":["files_*"],"env":[],"timeout":1.5}`, ""},
		{"spawn_subagent", `{}`, "task is missing"},
		{"spawn_subagent", `{"task":"a\u0000b"}`, "NUL"},
		{"spawn_subagent", `{"task":"` + strings.Repeat("x", 120<<10) + `"}`, ""},
		{"spawn_subagent", `{"task":"` + strings.Repeat("x", 120<<10+1) + `"}`, "122880 fit"},
		{"spawn_subagent", `{"task":"a","timeout":-1}`, "seconds"},
		{"spawn_subagent", `{"task":"a","agent":"../x"}`, "agent name"},
		{"spawn_subagent", `{"task":"a","grants":["/"]}`, "not known"},
		{"spawn_subagent", `{"task":"a","read":"/"}`, "another type"},
		{"parallel_jobs", `{"tasks":[]}`, "1 to 16"},
		{"parallel_jobs", `{"tasks":[{"task":"a"}],"parallel":9}`, "1 to 8"},
		{"parallel_jobs", `{"tasks":[{"task":"a"}],"parallel":-1}`, "1 to 8"},
		{"parallel_jobs", `{"tasks":[{"task":"a"},{"task":""}]}`, "task 2: "},
		{"parallel_jobs", `{"tasks":[{"task":"a","Root":"b"}]}`, "not known"},
		{"parallel_jobs", `{"tasks":[` + strings.Repeat(`{"task":"a"},`, 16) + `{"task":"a"}]}`, "1 to 16"},
	} {
		_, err := find(t, c.tool).Request([]byte(c.input))
		if c.says == "" {
			if err != nil {
				t.Errorf("%s %s: %v", c.tool, c.input, err)
			}
			continue
		}
		if bourn.CodeOf(orInternal(err)) != bourn.CodeInvalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: got %v, want %q", c.tool, c.input, err, c.says)
		}
	}
}

func orInternal(err error) error {
	if err == nil {
		return bourn.ErrInternal
	}
	return err
}

// What reads says so by its tier, and its request's action has that tier.
func TestTiers(t *testing.T) {
	inputs := map[string]string{"files_patch": `{"patch":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}`, "shell_exec": `{"command":"true"}`,
		"files_search": `{"query":"x"}`, "files_find": `{"glob":"*"}`, "files_move": `{"from":"a","to":"b"}`, "files_edit": `{"path":"a","old":"b","new":"c"}`,
		"files_write": `{"path":"a","content":"b"}`, "files_list": `{}`, "git_status": `{}`, "git_diff": `{}`, "whoami": `{}`, "records_query": `{"sql":"select 1"}`,
		"spawn_subagent": `{"task":"a"}`, "parallel_jobs": `{"tasks":[{"task":"a"}]}`,
		"records_list": `{}`, "records_get": `{"id":"a"}`, "records_create": `{"collection":"a","body":{}}`, "records_update": `{"id":"a","body":{}}`, "records_delete": `{"id":"a"}`,
		"tasks_list": `{}`, "tasks_create": `{"title":"a"}`, "tasks_update": `{"id":"a","status":"done"}`}
	for _, tl := range tool.All() {
		in := inputs[tl.Name]
		if in == "" {
			in = `{"path":"a"}`
		}
		r, err := tl.Request([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", tl.Name, err)
			continue
		}
		a, err := r.Action()
		if err != nil {
			t.Errorf("%s: %v", tl.Name, err)
			continue
		}
		if a.Tool != tl.Name || a.Tier != tl.Tier || a.Mutates() == tl.ReadOnly() {
			text, _ := json.Marshal(a)
			t.Errorf("%s: %s", tl.Name, text)
		}
	}
}

// What was mistaken for the name of a variable may be its value: no error repeats it.
func TestEnvIsNotQuoted(t *testing.T) {
	for _, name := range []string{"hunter2 = x", "TOKEN=hunter2", "hunter2\n", "2hunter2"} {
		input, err := json.Marshal(map[string]any{"command": "true", "env": map[string]string{name: "v"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := find(t, "shell_exec").Request(input); !errors.Is(err, bourn.ErrInvalid) || strings.Contains(fmt.Sprint(err, bourn.HintOf(err)), "hunter2") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestOneType: no value of an input may be of several types, at any depth.
func TestOneType(t *testing.T) {
	for _, tl := range tool.All() {
		text, err := json.Marshal(tl.Input)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"null"`) || strings.Contains(string(text), `"type":[`) {
			t.Errorf("%s: %s", tl.Name, text)
		}
	}
}
