package bourn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/tool"
)

const gatePage = "docs/gate.md"

// inputs are one for each governed tool that does everything the tool can do.
var inputs = map[string]string{
	"files_read": `{"path":"PATH"}`, "files_list": `{"path":"PATH"}`, "files_find": `{"path":"PATH","glob":"*"}`,
	"files_inspect": `{"path":"PATH"}`, "files_search": `{"path":"PATH","query":"x"}`,
	"files_write": `{"path":"PATH","content":"x"}`, "files_edit": `{"path":"PATH","old":"x","new":"y"}`,
	"files_delete": `{"path":"PATH"}`, "files_move": `{"from":"FROM","to":"TO"}`,
	"shell_exec": `{"command":"true","cwd":"CWD"}`, "git_status": `{"path":"PATH"}`, "git_diff": `{"path":"PATH"}`, "whoami": `{}`, "records_query": `{"sql":"select 1"}`,
	"records_list": `{}`, "records_get": `{"id":"x"}`, "records_create": `{"collection":"x","body":{}}`, "records_update": `{"id":"x","body":{}}`, "records_delete": `{"id":"x"}`,
	"tasks_list": `{}`, "tasks_create": `{"title":"x"}`, "tasks_update": `{"id":"x","status":"done"}`,
	"spawn_subagent": `{"task":"x","root":"ROOT"}`, "parallel_jobs": `{"tasks":[{"task":"x","root":"ROOT"}]}`,
	"files_patch": `{"patch":"diff --git a/CHANGED b/CHANGED\n--- a/CHANGED\n+++ b/CHANGED\n@@ -1 +1 @@\n-x\n+y\n` +
		`diff --git a/GONE b/GONE\ndeleted file mode 100644\n--- a/GONE\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n` +
		`diff --git a/OLD b/NEW\nsimilarity index 100%\nrename from OLD\nrename to NEW\n` +
		`diff --git a/COPIED b/COPY\nsimilarity index 100%\ncopy from COPIED\ncopy to COPY\n"}`,
}

// named says what the names of those inputs stand for.
var named = []struct{ name, is string }{
	{"PATH", ""}, {"ROOT", "of `root`"}, {"FROM", "of `from`"}, {"TO", "of `to`"}, {"CHANGED", "of what is changed"}, {"GONE", "of what is deleted"},
	{"OLD", "of what is renamed"}, {"NEW", "of its new name"}, {"COPIED", "of what is copied"}, {"COPY", "of the copy"}, {"/run/bourn/report.json", "of the run's report"},
}

// judged lists what is judged of an action.
func judged(t *testing.T, a bourn.Action) string {
	var out []string
	for _, n := range named {
		var ops []string
		for _, o := range bourn.Operations() {
			if slices.ContainsFunc(a.Targets, func(target bourn.Target) bool { return target.Operation == o && target.Path == n.name }) {
				ops = append(ops, string(o))
			}
		}
		if len(ops) > 0 {
			out = append(out, strings.TrimSpace(strings.Join(ops, ", ")+" "+n.is))
		}
	}
	for _, target := range a.Targets {
		if !slices.ContainsFunc(named, func(n struct{ name, is string }) bool { return n.name == target.Path }) {
			t.Errorf("%s is judged for %q, which the page has no words for", a.Tool, target.Path)
		}
	}
	if a.Command != nil {
		out = append(out, "execute: the command, each simple command in it, and where it runs")
	}
	return strings.Join(out, "; ")
}

// TestGatePage writes the table of tools from what they are and do.
func TestGatePage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Tool | Takes | Tier | Judged |\n|---|---|---|---|\n")
	seen := map[bourn.Operation]bool{}
	for _, one := range tool.All() {
		input, known := inputs[one.Name]
		if !known {
			t.Errorf("%s has no input here", one.Name)
			continue
		}
		request, err := one.Request([]byte(input))
		if err != nil {
			t.Errorf("%s: %v", one.Name, err)
			continue
		}
		action, err := request.Action()
		if err != nil {
			t.Errorf("%s: %v", one.Name, err)
			continue
		}
		for _, target := range action.Targets {
			seen[target.Operation] = true
		}
		seen[bourn.Execute] = seen[bourn.Execute] || action.Command != nil
		by := judged(t, action)
		if request.Verb.OfRecords() {
			by = "by the database, as the member"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", one.Name, list(one.Input.PropertyOrder), one.Tier, by)
	}
	for _, o := range bourn.Operations() {
		if !seen[o] {
			t.Errorf("%s is judged nowhere", o)
		}
	}
	generated(t, gatePage, b.String())
}
