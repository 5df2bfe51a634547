package bourn_test

import (
	"fmt"
	"strings"
	"testing"

	"bourn/internal/store/rowsec"
)

// TestRowSecurityPage holds the page's table against the codes of findings.
func TestRowSecurityPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Code | Why it is a mistake |\n|---|---|\n")
	for _, c := range rowsec.Codes {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, c.Why)
	}
	generated(t, "docs/row-security.md", b.String())
}
