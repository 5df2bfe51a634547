package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn/internal/man"
	"bourn/internal/run/runtest"
)

func pages(t *testing.T) map[string][]byte {
	t.Helper()
	return man.Pages((&app{}).root(), man.Edition{Version: "1.2.3-4-gabc", Date: time.Unix(1767225600, 0), Notes: notes})
}

// TestManPages sees that every command has a page, and every page what a reader looks for.
func TestManPages(t *testing.T) {
	all := pages(t)
	want := []string{"man5/bourn-profile.5"}
	for _, cmd := range Commands() {
		want = append(want, "man1/"+strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
	}
	for _, name := range want {
		page := string(all[name])
		sections := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"}
		if strings.HasSuffix(name, ".5") {
			sections = []string{"NAME", "DESCRIPTION", "KEYS", "ERRORS", "SEE ALSO"}
		}
		at := 0
		for _, s := range sections {
			i := strings.Index(page[at:], ".SH \""+s+"\"\n")
			if i < 0 {
				t.Errorf("%s has no section %s, or not in its place", name, s)
				break
			}
			at += i
		}
		for i, line := range strings.Split(page, "\n") {
			if !isASCII(line) {
				t.Errorf("%s:%d is not ASCII: %s", name, i+1, line)
			}
		}
	}
	for name := range all {
		if !slices.Contains(want, name) {
			t.Errorf("%s is of no command", name)
		}
	}
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c > 0x7e })
}

// TestManPagesHaveEveryFlag sees that what --help lists is in the page, with its text.
func TestManPagesHaveEveryFlag(t *testing.T) {
	page := string(pages(t)["man1/bourn-run.1"])
	for _, want := range []string{"\\fB\\-\\-deny\\fR \\fIPATH\\fR\n", "\\fB\\-q\\fR, \\fB\\-\\-quiet\\fR\n", "bourn run \\-\\- make test\n", "\n\\fB127\\fR\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of run lacks %q", want)
		}
	}
	if restart := string(pages(t)["man1/bourn-agent-restart.1"]); !strings.Contains(restart, "without it, 10s.\n") {
		t.Error("the page of restart lacks the default of --grace")
	}
}

// TestManPagesAreClean has the pages read by those who print them: neither may warn.
func TestManPagesAreClean(t *testing.T) {
	for _, reader := range [][]string{
		{"mandoc", "-T", "lint", "-W", "warning"},
		{"groff", "-man", "-ww", "-Tutf8", "-z"},
	} {
		t.Run(reader[0], func(t *testing.T) {
			_, err := exec.LookPath(reader[0])
			runtest.Need(t, reader[0], err == nil)
			dir := t.TempDir()
			if err := writePages(dir, pages(t)); err != nil {
				t.Fatal(err)
			}
			names, err := filepath.Glob(filepath.Join(dir, "man?", "*"))
			if err != nil || len(names) < 2 {
				t.Fatalf("no pages: %v", err)
			}
			for _, name := range names {
				if out, err := exec.Command(reader[0], append(reader[1:], name)...).CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("%s: %v\n%s", filepath.Base(name), err, out)
				}
			}
			broken := filepath.Join(dir, "broken.1")
			if err := os.WriteFile(broken, []byte(".TH A 1\n.SH NAME\na \\- \\[nothing]\n.nosuch\n.fi\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, _ := exec.Command(reader[0], append(reader[1:], broken)...).CombinedOutput(); len(bytes.TrimSpace(out)) == 0 {
				t.Error("a page with mistakes is taken")
			}
		})
	}
}
