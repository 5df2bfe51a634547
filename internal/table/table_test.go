package table

import (
	"strings"
	"testing"

	"bourn/api"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	text := func(s string) *string { return &s }
	got := Text(api.QueriedRecords{
		Statements: []api.QueriedStatement{
			{Columns: []api.QueriedColumn{{Name: "id", Type: "int4"}, {Name: "na\nme", Type: "text"}, {Name: "no", Type: "text"}},
				Rows: [][]*string{{text("1"), text("Ann\x1b[2J\nx"), nil}, {text("100"), text("ü"), text("y")}}, Tag: "SELECT 2"},
			{Tag: "BEGIN"},
			{Columns: []api.QueriedColumn{{Name: "id", Type: "int4"}}, Rows: [][]*string{{text("7")}}, Tag: "INSERT 0 1"},
			{Columns: []api.QueriedColumn{}, Rows: [][]*string{}, Tag: "SELECT 0"},
		},
		Notices: []string{"NOTICE: a\nb"}, Truncated: true, RolledBack: true,
	})
	want := strings.Join([]string{
		` id  | na\x0ame        | no`,
		`-----+-----------------+----`,
		`   1 | Ann\x1b[2J\x0ax |`,
		` 100 | ü               | y`,
		`(2 rows)`, ``, `BEGIN`, ``,
		` id`, `----`, `  7`, `(1 row)`, `INSERT 0 1`, ``,
		``, ``, `(0 rows)`,
		`NOTICE: a\x0ab`,
		`note: there is more than is shown: narrow it down, or page with LIMIT and a condition`,
		`note: a transaction was open at the end, and is rolled back: end it with COMMIT in the same call`, ``}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := Text(api.QueriedRecords{Statements: []api.QueriedStatement{{Columns: []api.QueriedColumn{{Name: "a"}, {Name: "b"}},
		Rows: [][]*string{{text(strings.Repeat("x", 500)), text("1")}, {text("y"), text("2"), text("too many")}}}}})
	if line := strings.Split(long, "\n")[3]; line != " y"+strings.Repeat(" ", 59)+" | 2" {
		t.Errorf("a short value beside a long one: %q", line)
	}
	if got := Text(api.QueriedRecords{Cancelled: true, Truncated: true}); strings.Count(got, "note:") != 1 || !strings.Contains(got, "cancelled, and what was not committed is undone") {
		t.Errorf("cancelled: %q", got)
	}
	if got := Text(api.QueriedRecords{}); got != "" {
		t.Errorf("nothing is %q", got)
	}
}
