package review

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"bourn"

	"github.com/bmatcuk/doublestar/v4"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

// The oracle holds every rule against everything that is found, one after the other and
// without any index.

// oraclePath returns the ids of the rules that match a path.
func oraclePath(rules []HardBlock, base Base, o bourn.Operation, target, resolved string) []string {
	seen := []string{absolute(target, base.Root)}
	if resolved != "" {
		seen = append(seen, path.Clean(resolved))
	}
	var ids []string
	for _, h := range rules {
		if !h.Enabled || h.Type != PathRule || !slices.Contains(h.Operations, o) {
			continue
		}
		if slices.ContainsFunc(seen, func(p string) bool { return oracleMatches(h, base, o, p) }) {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

func oracleMatches(h HardBlock, base Base, o bourn.Operation, p string) bool {
	literal := absolute(h.Pattern, base.Root)
	below := func(p, dir string) bool {
		return p == dir || strings.HasPrefix(p, strings.TrimRight(dir, "/")+"/")
	}
	taken := o == bourn.Delete && below(literal, p)
	switch h.Match {
	case Exact:
		return p == literal || taken
	case Prefix:
		return below(p, literal) || taken
	case Glob:
		glob := h.Pattern
		if !strings.HasPrefix(glob, "/") {
			glob = base.Root + "/" + glob
		}
		matches, err := doublestar.Match(glob, p)
		return matches && err == nil
	case Regex:
		r, problem := newRule(h, base, syntax.NewParser())
		return problem == nil && r.re.MatchString(p)
	case Contains:
		return strings.Contains(p, h.Pattern)
	}
	panic("unknown match")
}

// oracleCommand returns the ids of the rules that surely match what is found in a command.
func oracleCommand(rules []HardBlock, base Base, r *reading) []string {
	p := syntax.NewParser()
	var ids []string
	for _, h := range rules {
		rule, problem := newRule(h, base, p)
		if problem != nil {
			panic(problem)
		}
		if h.Enabled && h.Type == CommandRule && oracleHolds(&rule, r) {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

func oracleHolds(rule *rule, r *reading) bool {
	searched := slices.Concat(r.texts, r.pipes)
	for _, f := range r.forms {
		searched = append(searched, f.text)
		ws := texts(f.words)
		ops, opts := operands(f.words)
		var want []word
		if rule.Match == Prefix {
			want, _ = operands(rule.words)
		}
		switch {
		case rule.Match == Exact && slices.Equal(ws, texts(rule.words)):
			return true
		case rule.Match == Prefix && len(ops) >= len(want) && slices.Equal(texts(ops)[:len(want)], texts(want)) && opts.holds(&rule.needs):
			return true
		}
	}
	for _, text := range r.texts {
		fields := strings.Fields(text)
		switch {
		case rule.Match == Exact && strings.TrimSpace(text) == strings.TrimSpace(rule.Pattern):
			return true
		case rule.Match == Prefix && len(fields) >= len(rule.fields) && slices.Equal(fields[:len(rule.fields)], rule.fields):
			return true
		}
	}
	return slices.ContainsFunc(searched, func(text string) bool {
		return rule.re != nil && rule.re.MatchString(text) || rule.Match == Contains && strings.Contains(text, rule.Pattern)
	})
}

var drawOperation = rapid.SampledFrom(bourn.Operations())

// drawRules draws rules whose patterns are made of few pieces, so that many match.
func drawRules(t *rapid.T, kind RuleType, patterns map[Match]*rapid.Generator[string]) []HardBlock {
	var rules []HardBlock
	kinds := rapid.SampledFrom([][]Match{{Exact, Prefix, Glob, Regex, Contains}, {Glob}, {Regex}}).Draw(t, "kinds")
	for i := range rapid.IntRange(1, 40).Draw(t, "rules") {
		m := rapid.SampledFrom(kinds).Draw(t, "match")
		ops := rapid.SliceOfNDistinct(drawOperation, 1, 3, rapid.ID[bourn.Operation]).Draw(t, "operations")
		if kind == CommandRule {
			ops = []bourn.Operation{bourn.Execute}
		}
		rules = append(rules, HardBlock{
			ID: fmt.Sprintf("r%d", i), Enabled: rapid.IntRange(0, 9).Draw(t, "enabled") > 0, Type: kind, Match: m,
			Pattern: patterns[m].Draw(t, "pattern"), Operations: ops,
		})
	}
	return rules
}

// ruleIDs returns the ids of the rules that a verdict denies by, each once, in order.
func ruleIDs(v bourn.Verdict, rules []HardBlock) []string {
	var ids []string
	for _, h := range rules {
		if slices.ContainsFunc(v.Reasons, func(r bourn.Reason) bool {
			return r.Rule == h.ID && r.Outcome == bourn.Deny
		}) {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

func compileRules(t *rapid.T, rules []HardBlock, base Base) *Compiled {
	c, err := Compile(Boundaries{Version: version, HardBlocks: rules}, base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPathOracle(t *testing.T) {
	component := rapid.SampledFrom([]string{"a", "b", "ab", "secrets", "SECRETS", "x.pem", ".env", "..", ".", "long-name"})
	joined := func(lead string) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(component, 1, 4), func(s []string) string { return lead + strings.Join(s, "/") })
	}
	literal := rapid.OneOf(joined(""), joined("/"), joined("/w/app/"))
	globPiece := rapid.SampledFrom([]string{"a", "*", "**", "**", "*.pem", "a*", "{a,b}", "{a,secrets/b}", "[ab]", "?", ".env", "secrets", "long-n*", `\a`})
	glob := rapid.Map(rapid.SliceOfN(globPiece, 1, 4), func(s []string) string { return strings.Join(s, "/") })
	patterns := map[Match]*rapid.Generator[string]{
		Exact: literal, Prefix: literal,
		Glob:     rapid.OneOf(glob, rapid.Map(glob, func(s string) string { return "/" + s })),
		Regex:    rapid.SampledFrom([]string{"a", `\.pem$`, "(?i)secrets", "(?i)kiss", "^/w/app/(a|b)/", "(secrets|long)-?", "a+b?", "x{0}", ".", "(ab)+/", "[a-c]/a", "^$", "long-name|.env", `secrets(/.*)?$`}),
		Contains: rapid.SampledFrom([]string{"a", "ab", "/a/", "secrets", "/SECRETS", "long-name", "x.pem", "/w/app/a/b"}),
	}
	base := Base{Root: "/w/app"}
	rapid.Check(t, func(t *rapid.T) {
		rules := drawRules(t, PathRule, patterns)
		c := compileRules(t, rules, base)
		for range 8 {
			o, target := drawOperation.Draw(t, "operation"), literal.Draw(t, "target")
			resolved := rapid.OneOf(rapid.Just(""), joined("/")).Draw(t, "resolved")
			want := oraclePath(rules, base, o, target, resolved)
			if got := ruleIDs(Judge(on(o, target, resolved), c), rules); !slices.Equal(got, want) {
				t.Fatalf("%s %q (%q): %v, the oracle says %v", o, target, resolved, got, want)
			}
		}
	})
}

// drawCommand draws a command of few words, some of them quoted, dynamic, wrapped or piped.
func drawCommand(t *rapid.T) string {
	piece := rapid.SampledFrom([]string{"git", "push", "--force", "-f", "rm", "-rf", "-r", "x", "/", "'rm'", `"push"`, "$x", "*", "sudo",
		"sh", "-c", "'rm -rf x'", "|", "&&", ";", "env", "A=1", "xargs", "-C", "{rm,-rf}", "$(rm -rf)", "<(git push)", "--", "echo", "curl", "eval"})
	return strings.Join(rapid.SliceOfN(piece, 1, 12).Draw(t, "command"), " ")
}

var commandPatterns = func() map[Match]*rapid.Generator[string] {
	plain := rapid.SampledFrom([]string{"git", "git push", "git push --force", "git push -f", "rm", "rm -rf", "rm -r", "rm x", "rm -rf /", "sudo", "echo x", "sh -c", "echo rm"})
	return map[Match]*rapid.Generator[string]{
		Exact: plain, Prefix: plain,
		Glob:     rapid.SampledFrom([]string{"rm*", "* | sh", "git *--force*", "?m *", "[rg]*", "*"}),
		Regex:    rapid.SampledFrom([]string{`^rm\b`, `push.*(--force|-f)\b`, `(?i)RM`, `\| sh`, `(curl|echo)\b.*\|`, `^git( -C \S+)? push$`, `x{0}`, `^$`, `(?i)sk`}),
		Contains: rapid.SampledFrom([]string{"rm", "rm -rf", "push", "|", "x", "--force", "&&"}),
	}
}()

func TestCommandOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := drawRules(t, CommandRule, commandPatterns)
		c := compileRules(t, rules, testBase)
		text := drawCommand(t)
		v := Judge(executing(text), c)
		want := oracleCommand(rules, testBase, readCommand(syntax.NewParser(), text, false))
		if got := ruleIDs(v, rules); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, the oracle says %v\n%v", text, got, want, v.Reasons)
		}
	})
}

// wraps are ways to write a command that leave it the same command.
var wraps = []func(string) string{
	func(s string) string { return "env " + s },
	func(s string) string { return "command " + s },
	func(s string) string { return "nohup " + s },
	func(s string) string { return "timeout -k 1 5 " + s },
	func(s string) string { return "sudo -u root -- " + s },
	func(s string) string { return "A=1 B='2 3' " + s },
	func(s string) string { return "nice -n 5 env -u X " + s },
	func(s string) string { return "true && " + s },
	func(s string) string { return "( " + s + " )" },
	func(s string) string { return "{ " + s + "; }" },
	func(s string) string { return "if true; then " + s + "; fi" },
	func(s string) string { return "f() { " + s + "; }; f" },
	func(s string) string { return "echo \"$(" + s + ")\"" },
	func(s string) string { return "cat <(" + s + ")" },
	func(s string) string { return "sh -c " + quoted(s) },
	func(s string) string { return "bash -ec " + quoted(s) },
	func(s string) string { return "eval " + quoted(s) },
	func(s string) string { return "trap " + quoted(s) + " EXIT" },
	func(s string) string { return "ssh host " + quoted(s) },
	func(s string) string { return fmt.Sprintf("bash <<'E%d'\n%s\nE%[1]d\n", len(s), s) },
	func(s string) string { return "bash <<< " + quoted(s) },
	func(s string) string { return "echo " + quoted(s) + " | sh" },
	func(s string) string { return "find . -exec sh -c " + quoted(s) + " \\;" },
	func(s string) string { return "ls | xargs -n 1 " + s },
	func(s string) string { return "docker exec -it c " + s },
	func(s string) string { return s + " 2>&1 | tee log" },
	func(s string) string { return "\n\n  " + s + " # done\n" },
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// spell writes one word in a way that the shell reads as the same word.
func spell(t *rapid.T, w string) string {
	at := rapid.IntRange(0, len(w)).Draw(t, "at")
	switch rapid.IntRange(0, 7).Draw(t, "spelling") {
	case 0:
		return `"` + w + `"`
	case 1:
		return "'" + w + "'"
	case 2:
		return w[:at] + "''" + w[at:]
	case 3:
		return w[:at] + `""` + w[at:]
	case 4:
		return w[:at] + "\\\n" + w[at:]
	case 5:
		return w[:at] + "'" + w[at:] + "'"
	case 6:
		hex := ""
		for i := range len(w) {
			hex += fmt.Sprintf(`\x%02x`, w[i])
		}
		return "$'" + hex + "'"
	}
	return w
}

// TestDisguiseNeverUnblocks shows that no spelling and no wrapper around a command that a
// rule refuses makes it pass.
func TestDisguiseNeverUnblocks(t *testing.T) {
	c := corpusRules(t)
	commands := [][]string{
		{"git", "push", "--force"}, {"git", "push", "-fu", "origin"}, {"rm", "-rf", "build"}, {"rm", "build", "-r", "-f"},
		{"npm", "publish"}, {"terraform", "-chdir=x", "destroy"}, {"kubectl", "-n", "prod", "delete", "pod"}, {"sudo", "ls"},
		{"chmod", "777", "x"}, {"dd", "if=x", "of=/dev/sda"}, {"mkfs.ext4", "/dev/sda"}, {"git", "-C", "x", "reset", "--hard"},
	}
	rapid.Check(t, func(t *rapid.T) {
		words := slices.Clone(rapid.SampledFrom(commands).Draw(t, "command"))
		for i, w := range words {
			words[i] = spell(t, w)
		}
		text := strings.Join(words, rapid.SampledFrom([]string{" ", "  ", "\t", " \\\n "}).Draw(t, "blank"))
		for range rapid.IntRange(0, 4).Draw(t, "wrappers") {
			wrap := rapid.SampledFrom(wraps).Draw(t, "wrapper")
			wrapped := wrap(text)
			// A wrapper of words only holds for a simple command, not for if or a function.
			if _, err := syntax.NewParser().Parse(strings.NewReader(wrapped), ""); err == nil && simple(text, wrapped) {
				text = wrapped
			}
		}
		if v := Judge(executing(text), c); v.Outcome != bourn.Deny {
			t.Fatalf("%s: %q\n%v", v.Outcome, text, v.Reasons)
		}
	})
}

// simple reports whether wrapping a text keeps it the command that is wrapped: a wrapper
// of words takes the first simple command only, and that must be a program.
func simple(text, wrapped string) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return false
	}
	words := !strings.Contains(wrapped, quoted(text)) && !strings.Contains(wrapped, "\n"+text+"\n")
	if !words {
		return true
	}
	for _, s := range []string{"( ", "{ ", "then ", "$(", "<(", "&& "} {
		if strings.Contains(wrapped, s+text) {
			return len(file.Stmts) == 1
		}
	}
	if len(file.Stmts) != 1 || len(file.Stmts[0].Redirs) > 0 && (strings.HasSuffix(wrapped, "log") || strings.HasPrefix(wrapped, "ls | xargs")) {
		return false
	}
	call := callOf(file.Stmts[0])
	return call != nil && len(call.Args) > 0 && len(call.Assigns) == 0 && call.Args[0].Lit() != "eval" && call.Args[0].Lit() != "trap"
}

// FuzzCommand shows that no text makes Judge panic or hang, that it judges the same text
// twice alike, and agrees with the oracle.
func FuzzCommand(f *testing.F) {
	for _, name := range []string{"disguises.txt", "ordinary.txt"} {
		for _, line := range corpus(f, name) {
			f.Add(decoded(line))
		}
	}
	f.Add("()00") // a function without a name
	c := corpusRules(f)
	var rules []HardBlock
	for _, r := range c.rules {
		rules = append(rules, r.HardBlock)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || strings.ContainsRune(text, 0) {
			return
		}
		v := Judge(executing(text), c)
		r := readCommand(syntax.NewParser(), text, false)
		if got, want := ruleIDs(v, rules), oracleCommand(rules, testBase, r); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, the oracle says %v", text, got, want)
		}
		if (v.Outcome == bourn.Allow) != (len(v.Reasons) == 0) {
			t.Fatalf("%s with %v", v.Outcome, v.Reasons)
		}
	})
}
