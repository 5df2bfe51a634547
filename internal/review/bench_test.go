package review

import (
	"fmt"
	"testing"

	"bourn"
)

// benchRules returns n rules of one kind, none of which the benchmarked actions match.
func benchRules(n int, kind RuleType, match Match, pattern string) *Compiled {
	b := NoRules()
	for i := range n {
		b.HardBlocks = append(b.HardBlocks, HardBlock{
			ID: fmt.Sprintf("rule-%d", i), Enabled: true, Type: kind, Match: match,
			Pattern: fmt.Sprintf(pattern, i), Operations: bourn.Operations(),
		})
	}
	c, err := Compile(b, Base{Root: "/home/dev/app", Home: "/home/dev"})
	if err != nil {
		panic(err)
	}
	return c
}

// BenchmarkPath judges writing one file under 1,000 rules of a kind.
func BenchmarkPath(b *testing.B) {
	kinds := []struct {
		name    string
		match   Match
		pattern string
	}{
		{"exact", Exact, "internal/part%d/secret.go"},
		{"prefix", Prefix, "internal/part%d"},
		{"glob", Glob, "internal/part%d/**"},
		{"globSuffix", Glob, "**/secret%d.key"},
		{"regex", Regex, `/part%d/.*\.(key|pem)$`},
		{"contains", Contains, "/part%d/"},
	}
	a := bourn.Action{Tool: "files_write", Targets: []bourn.Target{{
		Operation: bourn.Write, Path: "internal/review/judge.go", Resolved: "/home/dev/app/internal/review/judge.go",
	}}}
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			c := benchRules(1000, PathRule, k.match, k.pattern)
			b.ReportAllocs()
			for b.Loop() {
				if Judge(a, c).Outcome != bourn.Allow {
					b.Fatal("it is not allowed")
				}
			}
		})
	}
}

// BenchmarkCommand judges commands under 1,000 rules of a kind, and under one rule, which
// is what reading the shell costs.
func BenchmarkCommand(b *testing.B) {
	commands := []struct{ name, text string }{
		{"short", "git status --short"},
		{"usual", `cd internal/review && go test -run 'TestJudge|TestParse' -count=1 . 2>&1 | tail -n 20`},
		{"wrapped", `timeout 60 env -i PATH="$PATH" sh -c 'for f in *.go; do gofmt -l "$f"; done'`},
	}
	kinds := []struct {
		name    string
		rules   int
		match   Match
		pattern string
	}{
		{"oneRule", 1, Prefix, "tool%d push --force"},
		{"exact", 1000, Exact, "tool%d push --force"},
		{"prefix", 1000, Prefix, "tool%d push --force"},
		{"glob", 1000, Glob, "tool%d push *--force*"},
		{"regex", 1000, Regex, `\btool%d\s+push\b.*(--force|-f)\b`},
		{"sameStart", 1000, Regex, `^(git|go)\s.*branch-%d\b`},
		{"contains", 1000, Contains, "tool%d push"},
	}
	for _, k := range kinds {
		c := benchRules(k.rules, CommandRule, k.match, k.pattern)
		for _, command := range commands {
			a := bourn.Action{Tool: "shell_exec", Command: &bourn.Command{Text: command.text}}
			b.Run(k.name+"/"+command.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if Judge(a, c).Outcome != bourn.Allow {
						b.Fatal("it is not allowed")
					}
				}
			})
		}
	}
}

// BenchmarkCompile makes 1,000 mixed rules ready.
func BenchmarkCompile(b *testing.B) {
	doc := benchRules(1000, CommandRule, Regex, `\btool%d\s+push\b`)
	rules := NoRules()
	for _, r := range doc.rules {
		rules.HardBlocks = append(rules.HardBlocks, r.HardBlock)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(rules, Base{Root: "/w"}); err != nil {
			b.Fatal(err)
		}
	}
}
