package bourn_test

import (
	"go/ast"
	"strconv"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

// TestCodesPage holds the page's table of codes against the closed list.
func TestCodesPage(t *testing.T) {
	var want, got [][2]string
	ast.Inspect(parse(t, "code.go"), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Code") && len(v.Values) == 1 {
			code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, [2]string{code, strconv.Itoa(bourn.Code(code).ExitStatus())})
		}
		return true
	})
	for _, r := range tables(t, "docs/getting-started.md", "`code`", "Exit status") {
		got = append(got, [2]string{codes(r["`code`"])[0], r["Exit status"]})
	}
	byName := func(all [][2]string) map[string]string {
		m := map[string]string{}
		for _, row := range all {
			m[row[0]] = row[1]
		}
		return m
	}
	if diff := cmp.Diff(byName(want), byName(got)); diff != "" || len(want) != len(got) || len(want) == 0 {
		t.Errorf("the codes of the page are not those of the program (-program +page):\n%s", diff)
	}
}
