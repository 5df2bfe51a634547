package man

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"--deny ~/a": `\-\-deny \(ti/a`, `a\b`: `a\eb`, "it's `x`": `it\(aqs \(gax\(ga`, "✓ é": `\[u2713] \[u00E9]`, "": "",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %s, not %s", in, got, want)
		}
	}
}

func TestInline(t *testing.T) {
	for in, want := range map[string]string{
		"say `a-b`, **now**":       `say \fBa\-b\fR, \fBnow\fR`,
		"see [a](b.md#c) and more": "see a and more",
		"see [b.md](b.md)":         "see docs/b.md",
		"a [b] * c `d":             `a [b] * c \(gad`,
	} {
		if got := inline(in); got != want {
			t.Errorf("inline(%q) = %s, not %s", in, got, want)
		}
	}
}

// What begins a line with a point or a quote is text and no request.
func TestLinesAreText(t *testing.T) {
	var r roff
	r.text(".env is closed\n\n  .hidden\n  'quoted'\n\n" + strings.Repeat("word .dot ", 40))
	r.markdown("# title\n\n.start\n\n```console\n.code\n```\n\n| A | B |\n|---|---|\n| `.x` | .y |\n")
	for line := range strings.Lines(r.String()) {
		if line[0] == '.' && !strings.Contains(".PP .RS .RE .nf .fi .sp .TP .br .SH", line[:3]) {
			t.Errorf("a request that nobody made: %s", line)
		}
		if len(line) > width+1 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	for _, want := range []string{`\&.env is closed`, `\&.hidden`, `\(aqquoted\(aq`, `\&.start`, `\&.code`, `\fB.x\fR`, `\&.y`} {
		if !strings.Contains(r.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, r.String())
		}
	}
}

func TestHiddenCommandsHaveNoPage(t *testing.T) {
	root := &cobra.Command{Use: "a", Short: "B"}
	root.AddCommand(&cobra.Command{Use: "c", Short: "D", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "e", Short: "F", Hidden: true, Run: func(*cobra.Command, []string) {}})
	pages := Pages(root, Edition{Version: "1", Date: time.Unix(0, 0), Notes: func(*cobra.Command) Notes { return Notes{} }})
	if len(pages) != 3 || pages["man1/a-c.1"] == nil || pages["man1/a.1"] == nil || pages["man5/bourn-profile.5"] == nil {
		t.Errorf("%d pages", len(pages))
	}
}
