package review

import (
	"strings"
	"testing"

	"bourn"
)

func pushRules(t testing.TB, more ...HardBlock) *Compiled {
	t.Helper()
	b := NoRules()
	b.HardBlocks = append(more, HardBlock{ID: "push", Enabled: true, Type: CommandRule, Match: Prefix, Pattern: "git push", Operations: []bourn.Operation{bourn.Execute}})
	c, err := Compile(b, Base{Root: "/w", Home: "/home/dev"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A call's own variables are asked about by their names, and the reason has the name.
func TestEnvironment(t *testing.T) {
	c := pushRules(t)
	for name, want := range map[string]bourn.Outcome{
		"GIT_CONFIG_COUNT": bourn.Ask, "GIT_CONFIG_KEY_0": bourn.Ask, "GIT_CONFIG_VALUE_12": bourn.Ask, "GIT_CONFIG_PARAMETERS": bourn.Ask, "GIT_CONFIG_GLOBAL": bourn.Ask,
		"GIT_EXEC_PATH": bourn.Ask, "GIT_SSH_COMMAND": bourn.Ask, "GIT_EXTERNAL_DIFF": bourn.Ask, "GIT_PAGER": bourn.Ask, "PAGER": bourn.Ask, "EDITOR": bourn.Ask, "GIT_EDITOR": bourn.Ask,
		"BASH_ENV": bourn.Ask, "ENV": bourn.Ask, "LD_PRELOAD": bourn.Ask, "LD_LIBRARY_PATH": bourn.Ask, "PERL5OPT": bourn.Ask, "PYTHONSTARTUP": bourn.Ask, "NODE_OPTIONS": bourn.Ask,
		"PATH": bourn.Allow, "CI": bourn.Allow, "GIT_CONFIG_NOSYSTEM": bourn.Allow, "GIT_TRACE": bourn.Allow, "PYTHONPATH": bourn.Allow, "LANG": bourn.Allow, "": bourn.Allow,
	} {
		for _, command := range []bourn.Command{{Text: "git p"}, {Argv: []string{"git", "p"}}} {
			command.Env = []string{"A", name}
			v := Judge(bourn.Action{Command: &command}, c)
			if v.Outcome != want || want == bourn.Ask && !strings.Contains(v.Reasons[0].Text, " "+name+" ") {
				t.Errorf("%s: %+v", name, v)
			}
			if v := Judge(bourn.Action{Command: &command}, mustCompile(t)); v.Outcome != bourn.Allow {
				t.Errorf("%s, without rules: %+v", name, v)
			}
		}
	}
	command := &bourn.Command{Text: "true", Env: []string{"A\x00"}}
	if v := Judge(bourn.Action{Command: command}, c); v.Outcome != bourn.Deny {
		t.Errorf("%+v", v)
	}
}

// mustCompile returns no rules, made ready.
func mustCompile(t testing.TB) *Compiled {
	t.Helper()
	c, err := Compile(NoRules(), Base{Root: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Variables that a text sets are told by what it says of them.
func TestTextVariables(t *testing.T) {
	c := pushRules(t)
	for text, want := range map[string]bourn.Outcome{
		"GIT_PAGER=cat git log":                                      bourn.Allow,
		"GIT_PAGER= git log":                                         bourn.Allow,
		"EDITOR=vim; export EDITOR; git commit":                      bourn.Allow,
		"export PAGER=less EDITOR='code --wait'":                     bourn.Allow,
		"P=less; PAGER=$P git log":                                   bourn.Allow,
		"ENV=production npm start":                                   bourn.Allow,
		"NODE_OPTIONS='--max-old-space-size=4096 --no-warnings' npx": bourn.Allow,
		"echo GIT_CONFIG_COUNT=1":                                    bourn.Allow,
		"make GIT_CONFIG_COUNT=1":                                    bourn.Allow,
		"GIT_CONFIG_COUNT=1 git p":                                   bourn.Ask,
		"GIT_CONFIG_COUNT=1; git p":                                  bourn.Ask,
		"env -u X GIT_CONFIG_COUNT=1 git p":                          bourn.Ask,
		"env -S 'GIT_CONFIG_COUNT=1 git p'":                          bourn.Ask,
		"sudo GIT_CONFIG_COUNT=1 git p":                              bourn.Ask,
		"declare -x GIT_CONFIG_COUNT=1; git p":                       bourn.Ask,
		"command export GIT_CONFIG_COUNT=1; git p":                   bourn.Ask,
		"sh -c 'GIT_CONFIG_COUNT=1 git p'":                           bourn.Ask,
		"PAGER=$X git log":                                           bourn.Ask,
		"read EDITOR; export EDITOR; git commit":                     bourn.Ask,
		"ENV=$HOME/.x sh -i":                                         bourn.Ask,
		"NODE_OPTIONS=--import=./x.js node y":                        bourn.Ask,
		"git --exec-path=/tmp/x p":                                   bourn.Ask,
		"EDITOR='git push' git commit":                               bourn.Deny,
		"export EDITOR='git push'; git commit":                       bourn.Deny,
		"env EDITOR='git push' git commit":                           bourn.Deny,
		"E='git push'; EDITOR=\"$E\" git commit":                     bourn.Deny,
	} {
		if v := Judge(bourn.Action{Command: &bourn.Command{Text: text}}, c); v.Outcome != want {
			t.Errorf("%s: %+v, want %s", text, v, want)
		}
	}
}

func TestPrograms(t *testing.T) {
	path := HardBlock{ID: "x", Enabled: true, Type: PathRule, Match: Exact, Pattern: "/x", Operations: []bourn.Operation{bourn.Execute}}
	c := pushRules(t, path)
	for text, want := range map[string]string{
		"a b; c | /bin/d e && ./f":       "a c /bin/d ./f",
		"env X=1 a; sudo -u b c":         "env a sudo c",
		"'a'\"b\"\\c d":                  "abc",
		"$X a; \"$(b)\" c; /bin/r?; ~/s": "a b ~/s",
		"sh -c 'a; b'; eval c":           "sh a b eval c",
		"a; a; a":                        "a",
		"a (":                            "",
		"A=b":                            "",
	} {
		if got := c.Programs(bourn.Command{Text: text}); strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := c.Programs(bourn.Command{Argv: []string{"nice", "-n", "5", "./a", "b"}}); strings.Join(got, " ") != "nice ./a" {
		t.Errorf("%q", got)
	}
	for _, none := range []*Compiled{pushRules(t), mustCompile(t), Invalid(bourn.ErrInvalid), nil} {
		if got := none.Programs(bourn.Command{Text: "a"}); got != nil {
			t.Errorf("%q", got)
		}
	}
}

func BenchmarkPrograms(b *testing.B) {
	c := benchRules(1000, PathRule, Exact, "/x%d")
	command := bourn.Command{Text: `cd internal/review && go test -run 'TestJudge|TestParse' -count=1 . 2>&1 | tail -n 20`}
	for b.Loop() {
		c.Programs(command)
	}
}
