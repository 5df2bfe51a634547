package review

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

var testBase = Base{Root: "/home/dev/app", Home: "/home/dev"}

// compiled compiles rules that are given as a document.
func compiled(t testing.TB, base Base, rules string) *Compiled {
	t.Helper()
	b, problems := Parse([]byte(`{"version":1,"hardBlocks":[`+rules+`]}`), base)
	for _, p := range problems {
		t.Fatal(p)
	}
	c, err := Compile(b, base)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func on(o bourn.Operation, path, resolved string) bourn.Action {
	return bourn.Action{Targets: []bourn.Target{{Operation: o, Path: path, Resolved: resolved}}}
}

func executing(text string) bourn.Action {
	return bourn.Action{Command: &bourn.Command{Text: text}}
}

func TestPaths(t *testing.T) {
	folding := Base{Root: "/Users/dev/App", Home: "/Users/dev", FoldCase: true}
	rule := func(match, pattern string) string {
		return `{"id":"r","type":"path","match":"` + match + `","pattern":"` + pattern + `","operations":["write"]}`
	}
	tests := []struct {
		name           string
		base           Base
		rule           string
		path, resolved string
		blocked        bool
	}{
		{"exact", testBase, rule("exact", "go.mod"), "go.mod", "", true},
		{"exact, absolute", testBase, rule("exact", "go.mod"), "/home/dev/app/go.mod", "", true},
		{"exact, roundabout", testBase, rule("exact", "go.mod"), "x/..//./go.mod", "", true},
		{"exact, pattern roundabout", testBase, rule("exact", "./x/../go.mod/"), "go.mod", "", true},
		{"exact, another", testBase, rule("exact", "go.mod"), "go.mod2", "", false},
		{"exact, below", testBase, rule("exact", "go.mod"), "go.mod/x", "", false},
		{"exact, elsewhere", testBase, rule("exact", "go.mod"), "sub/go.mod", "", false},
		{"exact, resolved", testBase, rule("exact", "/etc/passwd"), "link", "/etc/passwd", true},
		{"exact, given though resolved elsewhere", testBase, rule("exact", "link"), "link", "/etc/passwd", true},
		{"exact, root", testBase, rule("exact", "/"), "/", "", true},
		{"home", testBase, rule("exact", "~/.netrc"), "/home/dev/.netrc", "", true},
		{"home is no name of a target", testBase, rule("exact", "~/.netrc"), "~/.netrc", "", false},
		{"prefix, itself", testBase, rule("prefix", "secrets"), "secrets", "", true},
		{"prefix, below", testBase, rule("prefix", "secrets"), "secrets/a/b", "", true},
		{"prefix, by component", testBase, rule("prefix", "secrets"), "secrets2/a", "", false},
		{"prefix, above", testBase, rule("prefix", "secrets/a"), "secrets", "", false},
		{"prefix, out and in", testBase, rule("prefix", "secrets"), "../app/secrets/x", "", true},
		{"prefix, root", testBase, rule("prefix", "/"), "anything", "", true},
		{"prefix, resolved", testBase, rule("prefix", "/srv"), "out/x", "/srv/x", true},
		{"prefix, resolved roundabout", testBase, rule("prefix", "/srv"), "out/x", "/srv2/../srv/x", true},
		{"glob", testBase, rule("glob", "*.pem"), "a.pem", "", true},
		{"glob, one component", testBase, rule("glob", "*.pem"), "sub/a.pem", "", false},
		{"glob, any depth", testBase, rule("glob", "**/*.pem"), "sub/deep/a.pem", "", true},
		{"glob, any depth, none", testBase, rule("glob", "**/.env"), ".env", "", true},
		{"glob, tree and itself", testBase, rule("glob", "dist/**"), "dist", "", true},
		{"glob, tree", testBase, rule("glob", "dist/**"), "dist/a/b", "", true},
		{"glob matches exactly", testBase, rule("glob", "dist"), "dist/a", "", false},
		{"glob, braces", testBase, rule("glob", "{a,b/c}/*.go"), "b/c/x.go", "", true},
		{"glob, class", testBase, rule("glob", "v[0-9]/x"), "v1/x", "", true},
		{"glob, elsewhere", testBase, rule("glob", "**/.env"), "/home/dev/other/.env", "", false},
		{"glob, absolute", testBase, rule("glob", "/**/.env"), "/home/dev/other/.env", "", true},
		{"glob, home", testBase, rule("glob", "~/.ssh/**"), "/home/dev/.ssh/id", "", true},
		{"glob, root with meta characters", Base{Root: "/w/[x]*"}, rule("glob", "*.go"), "/w/[x]*/a.go", "", true},
		{"glob, root with meta characters, another", Base{Root: "/w/[x]*"}, rule("glob", "*.go"), "/w/xyz/a.go", "", false},
		{"regex, on the absolute path", testBase, rule("regex", "^/home/[^/]+/app/"), "x", "", true},
		{"regex, anywhere", testBase, rule("regex", `\\.key$`), "a.key", "", true},
		{"regex, alternatives", testBase, rule("regex", `\\.(key|p12)$`), "a.p12", "", true},
		{"regex, any case", testBase, rule("regex", `(?i)SECRET`), "my-sEcReT.txt", "", true},
		{"regex, any case, k and s", testBase, rule("regex", `(?i)kiss`), "\u212ai\u017fs", "", true},
		{"regex, none", testBase, rule("regex", `\\.key$`), "a.keys", "", false},
		{"contains", testBase, rule("contains", "secret"), "x/top-secret/y", "", true},
		{"contains, case", testBase, rule("contains", "Secret"), "x/top-secret/y", "", false},
		{"contains, short", testBase, rule("contains", "/x"), "a/x", "", true},
		{"fold, exact", folding, rule("exact", "Go.mod"), "GO.MOD", "", true},
		{"fold, root", folding, rule("exact", "go.mod"), "/users/DEV/app/go.mod", "", true},
		{"fold, prefix", folding, rule("prefix", "SECRETS"), "secrets/x", "", true},
		{"fold, glob", folding, rule("glob", "**/*.PEM"), "x/a.pem", "", true},
		{"fold, regex", folding, rule("regex", "/secret/"), "SECRET/x", "", true},
		{"fold, regex with k and s", folding, rule("regex", "/kiss/"), "\u212aI\u017fs/x", "", true},
		{"fold, contains", folding, rule("contains", "straße"), "STRASSE/STRAßE", "", true},
		{"no fold", testBase, rule("exact", "go.mod"), "Go.mod", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(on(bourn.Write, tt.path, tt.resolved), compiled(t, tt.base, tt.rule))
			if got := v.Outcome == bourn.Deny; got != tt.blocked {
				t.Errorf("%s, not blocked: %t", v.Outcome, tt.blocked)
			}
			if tt.blocked && !cmp.Equal(v.Blockers(), []string{"hard_policy_block:user_configured_hard_block:r"}) {
				t.Errorf("blockers %q", v.Blockers())
			}
		})
	}
}

func TestOperations(t *testing.T) {
	for _, ruled := range bourn.Operations() {
		c := compiled(t, testBase, `{"id":"r","type":"path","pattern":"a","operations":["`+string(ruled)+`"]}`)
		for _, o := range bourn.Operations() {
			want := bourn.Allow
			if o == ruled {
				want = bourn.Deny
			}
			if got := Judge(on(o, "a", ""), c).Outcome; got != want {
				t.Errorf("%s under a rule about %s: %s", o, ruled, got)
			}
		}
	}
}

// TestAllTargets shows that every target counts, and every rule is a reason.
func TestAllTargets(t *testing.T) {
	c := compiled(t, testBase, `
		{"id":"one","type":"path","pattern":"a","operations":["write","delete"],"reason":"kept by hand"},
		{"id":"two","type":"path","match":"contains","pattern":"app/b","operations":["delete"]},
		{"id":"off","enabled":false,"type":"path","pattern":"**","operations":["read","write","delete"]},
		{"id":"three","type":"path","match":"prefix","pattern":"/","operations":["delete"]}`)
	a := bourn.Action{Targets: []bourn.Target{
		{Operation: bourn.Read, Path: "a"}, {Operation: bourn.Write, Path: "a"}, {Operation: bourn.Delete, Path: "b"},
	}}
	want := bourn.Verdict{Reasons: []bourn.Reason{
		{Code: bourn.ReasonHardBlock, Rule: "one", Operation: bourn.Write, Target: "a", Text: "kept by hand"},
		{Code: bourn.ReasonHardBlock, Rule: "two", Operation: bourn.Delete, Target: "b"},
		{Code: bourn.ReasonHardBlock, Rule: "three", Operation: bourn.Delete, Target: "b"},
	}}
	if diff := cmp.Diff(want, Judge(a, c)); diff != "" {
		t.Error(diff)
	}
}

// TestDeletedWith shows that a directory does not go while a rule keeps what is in it.
func TestDeletedWith(t *testing.T) {
	c := compiled(t, testBase, `{"id":"r","type":"path","match":"exact","pattern":"a/b/c","operations":["delete"]}`)
	for path, blocked := range map[string]bool{"a": true, "a/b": true, "a/b/c": true, "/": true, "a/bc": false, "a/b/c/d": false, "b": false} {
		if got := Judge(on(bourn.Delete, path, ""), c).Outcome == bourn.Deny; got != blocked {
			t.Errorf("deleting %s is blocked: %t", path, got)
		}
		if path != "a/b/c" && Judge(on(bourn.Write, path, ""), c).Outcome != bourn.Allow {
			t.Errorf("writing %s is not allowed", path)
		}
	}
}

func TestCommandPlaces(t *testing.T) {
	c := compiled(t, testBase, `
		{"id":"cwd","type":"path","match":"prefix","pattern":"/srv","operations":["execute"]},
		{"id":"tool","type":"path","match":"exact","pattern":"bin/deploy","operations":["execute"]}`)
	run := func(cmd bourn.Command) []string { return Judge(bourn.Action{Command: &cmd}, c).Blockers() }
	const block = "hard_policy_block:user_configured_hard_block:"
	tests := []struct {
		name string
		cmd  bourn.Command
		want []string
	}{
		{"cwd", bourn.Command{Text: "ls", Cwd: "/srv/x"}, []string{block + "cwd"}},
		{"cwd resolved", bourn.Command{Text: "ls", Cwd: "link", CwdResolved: "/srv"}, []string{block + "cwd"}},
		{"program", bourn.Command{Text: "true && sudo ./bin/deploy now"}, []string{block + "tool"}},
		{"program from cwd", bourn.Command{Text: "./deploy", Cwd: "bin"}, []string{block + "tool"}},
		{"program in argv", bourn.Command{Argv: []string{"/home/dev/app/bin/deploy"}}, []string{block + "tool"}},
		{"program by name", bourn.Command{Text: "deploy"}, nil},
		{"elsewhere", bourn.Command{Text: "./bin/deploy", Cwd: "/tmp"}, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, run(tt.cmd)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestCommandMatches(t *testing.T) {
	rule := func(match, pattern string) string {
		return `{"id":"r","type":"command","match":"` + match + `","pattern":"` + pattern + `","operations":["execute"]}`
	}
	tests := []struct {
		rule, command string
		want          bourn.Outcome
	}{
		{rule("exact", "make deploy"), "make deploy", bourn.Deny},
		{rule("exact", "make deploy"), "cd x && 'make'  deploy", bourn.Deny},
		{rule("exact", "make deploy"), "make deploy now", bourn.Allow},
		{rule("exact", "make deploy"), "make $x", bourn.Ask},
		{rule("exact", "make deploy"), `make "$x"`, bourn.Ask},
		{rule("exact", "make deploy"), `make "re$x"`, bourn.Allow},
		{rule("exact", "make deploy"), `echo deploy | xargs make`, bourn.Deny},
		{rule("exact", "a; b"), " a; b ", bourn.Deny},
		{rule("exact", "a; b"), "sh -c 'a; b'", bourn.Deny},
		{rule("prefix", "make deploy"), "make deploy now", bourn.Deny},
		{rule("prefix", "make deploy"), "make deployment", bourn.Allow},
		{rule("prefix", "make deploy"), "make -s deploy", bourn.Deny},
		{rule("prefix", "make deploy"), "make test deploy", bourn.Allow},
		{rule("prefix", "make -s"), "make", bourn.Allow},
		{rule("prefix", "tool --region=eu"), "tool --region=eu x", bourn.Deny},
		{rule("prefix", "tool --region=eu"), "tool --region=us x", bourn.Allow},
		{rule("prefix", "tool --region"), "tool --region=us x", bourn.Deny},
		{rule("prefix", "tool -x"), "tool -- -x", bourn.Allow},
		{rule("prefix", "tool -x"), "tool -$o a", bourn.Ask},
		{rule("prefix", "tool -x"), "tool -o$o --p=$p a", bourn.Allow},
		{rule("prefix", "sudo apt"), "sudo -u root A=1 apt update", bourn.Deny},
		{rule("prefix", "/usr/bin/tool x"), "./tool x", bourn.Deny},
		{rule("prefix", "tool -xy"), "tool -y a -x", bourn.Deny},
		{rule("prefix", "find . -delete"), "find . -type f -delete", bourn.Deny},
		{rule("prefix", "find . -delete"), "find . -name x", bourn.Allow},
		{rule("prefix", "find . -delete"), "find . -delete", bourn.Deny},
		{rule("prefix", "terraform destroy -auto-approve"), "terraform destroy --auto-approve", bourn.Deny},
		{rule("prefix", "curl -k"), "curl -i x", bourn.Allow},
		{rule("prefix", "curl -k"), "curl --insecure x", bourn.Deny},
		{rule("prefix", "if true"), "if true; then x; fi", bourn.Allow},
		{rule("prefix", "echo $HOME"), `echo "${HOME}" x`, bourn.Deny},
		{rule("prefix", "git push"), "git $x", bourn.Ask},
		{rule("prefix", "git push origin"), "git $x", bourn.Ask},
		{rule("prefix", "git push --force"), "git $x", bourn.Ask},
		{rule("prefix", "git push --force"), "git push $x", bourn.Allow},
		{rule("prefix", "git push"), "bundle exec git $x", bourn.Allow},
		{rule("prefix", "git push"), "bundle exec git push", bourn.Deny},
		{rule("prefix", "git push"), "git -C $x status", bourn.Allow},
		{rule("prefix", "git push"), "git pu*", bourn.Ask},
		{rule("prefix", "git push"), "git st*", bourn.Allow},
		{rule("glob", "make *deploy*"), "make -C a/b deploy-all", bourn.Deny},
		{rule("glob", "make *deploy*"), "cmake deploy", bourn.Allow},
		{rule("glob", "a[!b]?"), "axy", bourn.Deny},
		{rule("glob", "a[!b]?"), "aby", bourn.Allow},
		{rule("glob", `a\\*`), "a'*'", bourn.Deny},
		{rule("regex", `^drop\\b`), "psql; 'dr'op x", bourn.Deny},
		{rule("regex", `drop table`), "psql -c 'drop table x'", bourn.Deny},
		{rule("regex", `(?i)drop table`), "psql -c 'DROP TABLE x'", bourn.Deny},
		{rule("contains", "drop table"), "psql <<E\ndrop table x\nE", bourn.Deny},
		{rule("contains", "drop table"), "psql -c 'DROP TABLE x'", bourn.Allow},
		{rule("contains", "a"), "bab", bourn.Deny},
		{rule("prefix", "x"), "$(", bourn.Ask},
		{rule("prefix", "x"), strings.Repeat("(", 500), bourn.Ask},
		{rule("prefix", "x"), "echo " + strings.Repeat("{a,b}", 20), bourn.Ask},
		{rule("prefix", "x"), strings.Repeat("sudo ", 200) + "x", bourn.Ask},
		{rule("prefix", "x"), strings.Repeat("y ", maxText), bourn.Ask},
		{rule("prefix", "x"), strings.Repeat("sh <(", 30) + "y" + strings.Repeat(")", 30), bourn.Ask},
	}
	for _, tt := range tests {
		if v := Judge(executing(tt.command), compiled(t, testBase, tt.rule)); v.Outcome != tt.want {
			t.Errorf("%s, not %s: %.80q under %s\n%v", v.Outcome, tt.want, tt.command, tt.rule, v.Reasons)
		}
	}
}

func TestArgv(t *testing.T) {
	c := corpusRules(t)
	tests := []struct {
		argv []string
		want bourn.Outcome
	}{
		{[]string{"rm", "-rf", "build"}, bourn.Deny},
		{[]string{"/bin/rm", "-fr", "build"}, bourn.Deny},
		{[]string{"sh", "-c", "rm -rf build"}, bourn.Deny},
		{[]string{"sh", "-c", "$x"}, bourn.Ask},
		{[]string{"echo", "rm -rf build"}, bourn.Allow},
		{[]string{"echo", "$(rm -rf build)"}, bourn.Allow},
		{[]string{"$x", "-rf"}, bourn.Allow},
		{[]string{"git", "push", ";", "--force"}, bourn.Deny},
	}
	for _, tt := range tests {
		if got := Judge(bourn.Action{Command: &bourn.Command{Argv: tt.argv}}, c).Outcome; got != tt.want {
			t.Errorf("%s, not %s: %q", got, tt.want, tt.argv)
		}
	}
}

// TestFailsClosed shows what becomes of actions when there are no rules to read.
func TestFailsClosed(t *testing.T) {
	zero, err := Compile(Boundaries{}, testBase)
	if !errors.Is(err, bourn.ErrInvalid) {
		t.Errorf("the zero value compiles: %v", err)
	}
	none, err := Compile(NoRules(), testBase)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compile(NoRules(), Base{})
	if err == nil {
		t.Error("it compiles without a base root")
	}
	states := map[string]*Compiled{"nil": nil, "zero": {}, "zero boundaries": zero, "invalid": Invalid(errors.New("line 3"))}
	actions := map[string]bourn.Action{
		"write": on(bourn.Write, "a", ""), "delete": on(bourn.Delete, "a", ""), "execute": on(bourn.Execute, "a", ""),
		"delegate": on(bourn.Delegate, "a", ""), "command": executing("ls"), "a call": {Tool: "mcp_call"},
		"read and write": {Targets: []bourn.Target{{Operation: bourn.Read}, {Operation: bourn.Write}}},
	}
	for state, c := range states {
		for name, a := range actions {
			if diff := cmp.Diff([]string{"boundaries_invalid"}, Judge(a, c).Blockers()); diff != "" {
				t.Errorf("%s under %s: %s", name, state, diff)
			}
			if Judge(a, none).Outcome != bourn.Allow {
				t.Errorf("%s without rules is not allowed", name)
			}
		}
		for _, a := range []bourn.Action{on(bourn.Read, "a", ""), {Tool: "whoami", Tier: bourn.TierRead}} {
			if Judge(a, c).Outcome != bourn.Allow {
				t.Errorf("reading under %s is not allowed", state)
			}
		}
		if c.Valid() || c.Digest() != "" || KernelItems(c) != nil {
			t.Errorf("%s seems to be valid", state)
		}
	}
	if v := (bourn.Verdict{}); v.Outcome != bourn.Deny {
		t.Error("the zero verdict does not deny")
	}
}

// TestMalformed shows that what is no action is denied, whatever the rules.
func TestMalformed(t *testing.T) {
	none, err := Compile(NoRules(), testBase)
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]bourn.Action{
		"operation":         on("wirte", "a", ""),
		"no operation":      on("", "a", ""),
		"NUL":               on(bourn.Read, "a\x00b", ""),
		"relative resolved": on(bourn.Read, "a", "b"),
		"long":              on(bourn.Read, strings.Repeat("a", maxPath+1), ""),
		"no command":        {Command: &bourn.Command{}},
		"two commands":      {Command: &bourn.Command{Text: "a", Argv: []string{"a"}}},
		"NUL in command":    executing("a\x00b"),
	} {
		if diff := cmp.Diff([]string{"action_invalid"}, Judge(a, none).Blockers()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestManyHits shows that a great many reasons are neither all kept nor let through.
func TestManyHits(t *testing.T) {
	b := NoRules()
	for i := range 2000 {
		b.HardBlocks = append(b.HardBlocks, HardBlock{ID: "r", Enabled: true, Type: CommandRule, Match: Prefix,
			Pattern: "git x" + strings.Repeat("x", i%1000), Operations: []bourn.Operation{bourn.Execute}})
	}
	b.HardBlocks = append(b.HardBlocks, HardBlock{ID: "last", Enabled: true, Type: CommandRule, Match: Contains,
		Pattern: "echo", Operations: []bourn.Operation{bourn.Execute}})
	c, err := Compile(b, testBase)
	if err != nil {
		t.Fatal(err)
	}
	v := Judge(executing("git $x; echo"), c)
	if v.Outcome != bourn.Deny || len(v.Reasons) > 2*maxHits {
		t.Errorf("%s with %d reasons", v.Outcome, len(v.Reasons))
	}
}

// TestWorkIsBounded shows that slow expressions on long texts end in a question.
func TestWorkIsBounded(t *testing.T) {
	b := NoRules()
	for range 1000 {
		b.HardBlocks = append(b.HardBlocks, HardBlock{ID: "r", Enabled: true, Type: CommandRule, Match: Regex,
			Pattern: "(.*.*.*=[0-9]{1,50}){1,10}$", Operations: []bourn.Operation{bourn.Execute}})
	}
	c, err := Compile(b, testBase)
	if err != nil {
		t.Fatal(err)
	}
	if v := Judge(executing("echo "+strings.Repeat("a=b ", 20_000)), c); v.Outcome != bourn.Ask {
		t.Errorf("%s", v.Outcome)
	}
}

// TestNoTextIsSlow holds texts that are made to cost much: none takes more than moments.
func TestNoTextIsSlow(t *testing.T) {
	const most = 10 * time.Second // a quarter of one is usual; without bounds it is minutes
	filled := func(s string) string { return strings.Repeat(s, (maxText-64)/len(s)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < maxText-64; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	c := corpusRules(t)
	for name, text := range map[string]string{
		"brackets": filled("("), "if": filled("if "), "eval": filled("eval "), "ssh": filled("ssh a "), "sudo": filled("sudo "),
		"exec": filled("docker exec "), "pipes": filled("a b c|"), "braces": filled("{a,b} "), "words of parts": filled(`a"b"`),
		"fed by fed": strings.Repeat("sh <(", 150) + "y" + strings.Repeat(")", 150), "loops": filled("for a in b c;do $a;done;"),
		"many variables": numbered("a%d=b;x $y;"), "many programs": numbered("$p%d a;"), "one option": "rm " + filled("-a "),
		"here-documents": filled("sh <<E\na b\nE\n"), "aliases": filled("alias a=b;a;"), "printf": "printf %s " + filled("a ") + "|sh",
	} {
		start := time.Now()
		v := Judge(executing(text), c)
		if took := time.Since(start); took > most {
			t.Errorf("%s: %s after %s", name, v.Outcome, took)
		}
	}
}

// TestConcurrent shows that one set of rules may be used by several at once.
func TestConcurrent(t *testing.T) {
	c := corpusRules(t)
	lines := corpus(t, "disguises.txt")
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for _, line := range lines {
				f := strings.SplitN(line, " ", 3)
				if got := Judge(executing(decoded(f[2])), c).Outcome; (got == bourn.Deny) != (f[1] == "deny") {
					t.Errorf("%s, not %s: %s", got, f[1], f[2])
				}
			}
		})
	}
	done.Wait()
}

func TestExplain(t *testing.T) {
	c := compiled(t, testBase, `
		{"id":"push","type":"command","match":"prefix","pattern":"git push --force","operations":["execute"]},
		{"id":"srv","type":"path","match":"prefix","pattern":"/srv","operations":["write"]}`)
	e := TestCommand("timeout 5 git -C x push -f", c)
	if len(e.Findings) != 1 || e.Findings[0].Rule.ID != "push" || e.Findings[0].Compared != "git push -f" || e.Findings[0].Where != "without the options of git" {
		t.Errorf("%+v", e.Findings)
	}
	want := []Found{
		{"timeout 5 git -C x push -f", "in the text", false},
		{"git -C x push -f", "inside timeout", false},
		{"git push -f", "without the options of git", false},
	}
	if diff := cmp.Diff(want, e.Commands); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Judge(executing("timeout 5 git -C x push -f"), c), e.Verdict); diff != "" {
		t.Error(diff)
	}
	e = TestPath("link/x", "/srv/x", bourn.Write, c)
	if len(e.Findings) != 1 || e.Findings[0].Where != "the resolved path" || e.Findings[0].Compared != "/srv/x" {
		t.Errorf("%+v", e.Findings)
	}
	if e = TestCommand("$x", c); e.Verdict.Outcome != bourn.Ask || len(e.Unclear) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestKernelItems(t *testing.T) {
	c := compiled(t, testBase, `
		{"id":"ro","type":"path","match":"prefix","pattern":"docs","operations":["write","delete"]},
		{"id":"mask","type":"path","match":"exact","pattern":"~/.netrc","operations":["read","write","execute"]},
		{"id":"tree","type":"path","pattern":"dist/**","operations":["write"]},
		{"id":"literal","type":"path","pattern":"a/b","operations":["delegate"]},
		{"id":"glob","type":"path","pattern":"**/.env","operations":["read"]},
		{"id":"all","type":"path","match":"prefix","pattern":".","operations":["write"]},
		{"id":"off","enabled":false,"type":"path","pattern":"x","operations":["read"]},
		{"id":"command","type":"command","pattern":"x","operations":["execute"]}`)
	type item struct {
		Rule string
		Op   bourn.Operation
		Path string
		Tree bool
		How  KernelKind
	}
	var got []item
	for _, i := range KernelItems(c) {
		if (i.How == GateOnly) != (i.Why != "") {
			t.Errorf("%+v says why: %q", i, i.Why)
		}
		got = append(got, item{i.Rule, i.Operation, i.Path, i.Tree, i.How})
	}
	want := []item{
		{"ro", bourn.Write, "/home/dev/app/docs", true, ReadOnly},
		{"ro", bourn.Delete, "/home/dev/app/docs", true, ReadOnly},
		{"mask", bourn.Read, "/home/dev/.netrc", false, Mask},
		{"mask", bourn.Write, "/home/dev/.netrc", false, Mask},
		{"mask", bourn.Execute, "", false, GateOnly},
		{"tree", bourn.Write, "/home/dev/app/dist", true, ReadOnly},
		{"literal", bourn.Delegate, "", false, GateOnly},
		{"glob", bourn.Read, "", false, GateOnly},
		{"all", bourn.Write, "", false, GateOnly},
		{"command", bourn.Execute, "", false, GateOnly},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
