// Package table writes what SQL gave as text, in the aligned form that people know from psql.
//
// # What it upholds
//
// No text that came from the database reaches a terminal or a model as anything but printable
// text on lines of its own: what would move a cursor or begin a line is escaped.
//
// # What it does not
//
// The text cannot be read back: a value may look like an empty one, or like a border. JSON is
// for programs.
//
// # Needs
//
// Nothing.
package table

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"bourn"
	"bourn/api"
)

// widest is how many characters a column is padded to at most: one long value is not to make
// every line long.
const widest = 60

// Text writes a result: each statement's rows with their number, or its tag, and what is to be
// known of the whole. It ends with a newline unless it is empty.
func Text(r api.QueriedRecords) string {
	var b strings.Builder
	for i, s := range r.Statements {
		if i > 0 {
			b.WriteString("\n")
		}
		if s.Columns == nil {
			fmt.Fprintf(&b, "%s\n", bourn.Printable(s.Tag))
			continue
		}
		aligned(&b, s)
		shown := "row"
		if len(s.Rows) != 1 {
			shown = "rows"
		}
		fmt.Fprintf(&b, "(%d %s)\n", len(s.Rows), shown)
		if !strings.HasPrefix(s.Tag, "SELECT ") {
			fmt.Fprintf(&b, "%s\n", bourn.Printable(s.Tag))
		}
	}
	for _, n := range r.Notices {
		fmt.Fprintf(&b, "%s\n", bourn.Printable(n))
	}
	for _, n := range notes(r) {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func notes(r api.QueriedRecords) (all []string) {
	switch {
	case r.Cancelled:
		all = append(all, "there is much more: it was cancelled, and what was not committed is undone; narrow it down")
	case r.Truncated:
		all = append(all, "there is more than is shown: narrow it down, or page with LIMIT and a condition")
	}
	if r.RolledBack {
		all = append(all, "a transaction was open at the end, and is rolled back: end it with COMMIT in the same call")
	}
	return all
}

// aligned writes rows under the names of their columns. Numbers stand to the right.
func aligned(b *strings.Builder, s api.QueriedStatement) {
	lines := make([][]string, 0, len(s.Rows)+1)
	head := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		head[i] = bourn.Printable(c.Name)
	}
	lines = append(lines, head)
	for _, row := range s.Rows {
		line := make([]string, len(head))
		for i, v := range row[:min(len(row), len(head))] {
			if v != nil {
				line[i] = bourn.Printable(*v)
			}
		}
		lines = append(lines, line)
	}
	wide := make([]int, len(head))
	for _, line := range lines {
		for i, v := range line {
			wide[i] = max(wide[i], min(utf8.RuneCountInString(v), widest))
		}
	}
	for n, line := range lines {
		var cells []string
		for i, v := range line {
			pad := strings.Repeat(" ", max(0, wide[i]-utf8.RuneCountInString(v)))
			if n > 0 && numeric[s.Columns[i].Type] {
				cells = append(cells, " "+pad+v+" ")
			} else {
				cells = append(cells, " "+v+pad+" ")
			}
		}
		fmt.Fprintf(b, "%s\n", strings.TrimRight(strings.Join(cells, "|"), " "))
		if n == 0 {
			var rule []string
			for _, w := range wide {
				rule = append(rule, strings.Repeat("-", w+2))
			}
			fmt.Fprintf(b, "%s\n", strings.Join(rule, "+"))
		}
	}
}

var numeric = map[string]bool{"int2": true, "int4": true, "int8": true, "float4": true, "float8": true, "numeric": true, "oid": true}
