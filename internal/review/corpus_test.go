package review

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bourn"
)

func testdata(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// corpusRules compiles the rules that both corpora are held against.
func corpusRules(t testing.TB) *Compiled {
	t.Helper()
	base := Base{Root: "/home/dev/app", Home: "/home/dev"}
	b, problems := Parse([]byte(testdata(t, "corpus.json")), base)
	for _, p := range problems {
		t.Error(p)
	}
	c, err := Compile(b, base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// corpus returns the lines of a corpus without its comments.
func corpus(t testing.TB, name string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(testdata(t, name)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// decoded returns a command of a corpus as it is executed.
func decoded(line string) string { return strings.ReplaceAll(line, "⏎", "\n") }

// TestDisguises holds every way of writing a refused command against the rules, and
// prints how many are seen.
func TestDisguises(t *testing.T) {
	c := corpusRules(t)
	count := map[bourn.Outcome]int{}
	lines := corpus(t, "disguises.txt")
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		rule, want, command := f[0], f[1], decoded(f[2])
		v := Judge(bourn.Action{Command: &bourn.Command{Text: command}}, c)
		count[v.Outcome]++
		got := v.Outcome.String()
		if v.Outcome == bourn.Allow {
			got = "pass"
		}
		if got != want {
			t.Errorf("%s, not %s: %s\n%v", got, want, command, v.Reasons)
		}
		blocker := "hard_policy_block:user_configured_hard_block:" + rule
		if want == "deny" && !strings.Contains(strings.Join(v.Blockers(), " "), blocker) {
			t.Errorf("refused by %v, not by %s: %s", v.Blockers(), rule, command)
		}
	}
	seen := count[bourn.Deny] + count[bourn.Ask]
	t.Logf("%d disguises: %d refused, %d asked about, %d not seen; %.1f %% seen",
		len(lines), count[bourn.Deny], count[bourn.Ask], count[bourn.Allow], 100*float64(seen)/float64(len(lines)))
	if len(lines) < 150 || seen*100 < len(lines)*90 {
		t.Errorf("%d of %d are seen; it was more than 90 %% of at least 150", seen, len(lines))
	}
}

// TestOrdinary holds what agents execute all day against the same rules: it passes.
func TestOrdinary(t *testing.T) {
	c := corpusRules(t)
	lines := corpus(t, "ordinary.txt")
	passed := 0
	for _, line := range lines {
		v := Judge(bourn.Action{Command: &bourn.Command{Text: decoded(line)}}, c)
		want := bourn.Allow
		if command, asks := strings.CutPrefix(line, "ask: "); asks {
			want = bourn.Ask
			v = Judge(bourn.Action{Command: &bourn.Command{Text: decoded(command)}}, c)
		}
		if v.Outcome == bourn.Allow {
			passed++
		}
		if v.Outcome != want {
			t.Errorf("%s, not %s: %s\n%v", v.Outcome, want, line, v.Reasons)
		}
	}
	t.Logf("%d ordinary commands: %d pass, %d are asked about; %.1f %% pass",
		len(lines), passed, len(lines)-passed, 100*float64(passed)/float64(len(lines)))
	if len(lines) < 400 || passed*100 < len(lines)*97 {
		t.Errorf("%d of %d pass; it was more than 97 %% of at least 400", passed, len(lines))
	}
}

// TestPage holds the page to the code: its document parses, and its rates are measured.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../../docs/boundaries.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	_, doc, _ := strings.Cut(page, "```json\n")
	doc, _, _ = strings.Cut(doc, "```")
	if _, problems := Parse([]byte(doc), Base{Root: "/home/dev/app", Home: "/home/dev"}); problems != nil || doc == "" {
		t.Errorf("%q: %v", doc, problems)
	}
	c := corpusRules(t)
	for name, title := range map[string]string{"disguises.txt": "disguises of what 14 rules refuse", "ordinary.txt": "what coding agents execute all day"} {
		count := map[bourn.Outcome]int{}
		lines := corpus(t, name)
		for _, line := range lines {
			command := strings.TrimPrefix(line, "ask: ")
			if name == "disguises.txt" {
				command = strings.SplitN(line, " ", 3)[2]
			}
			count[Judge(bourn.Action{Command: &bourn.Command{Text: decoded(command)}}, c).Outcome]++
		}
		row := fmt.Sprintf("| %s | %d | %d | %d | %d |\n", title, len(lines), count[bourn.Deny], count[bourn.Ask], count[bourn.Allow])
		if !strings.Contains(page, row) {
			t.Errorf("the page has another row than\n%s", row)
		}
	}
}
