package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// withoutJSON are the commands whose output is not bourn's to shape, each with the reason.
var withoutJSON = map[string]string{
	"bourn mcp serve":       "standard output is the client's",
	"bourn people exec":     "its output is the command's",
	"bourn run":             "its output is the command's; --report writes JSON",
	"bourn audit export":    "it prints JSON lines",
	"bourn db psql":         "its output is psql's",
	"bourn db serve":        "it is a service: it runs until it is ended",
	"bourn completion bash": "it prints a script",
	"bourn completion zsh":  "it prints a script",
	"bourn completion fish": "it prints a script",
}

// Commands returns every command of the tree that is shown, from a tree of its own.
func Commands() []*cobra.Command {
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		all = append(all, cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
	return all
}

// Leaves returns the paths of the commands that do something themselves, of those alone
// that have --json.
func Leaves() []string {
	var all []string
	for _, cmd := range Commands() {
		if !cmd.HasSubCommands() && withoutJSON[cmd.CommandPath()] == "" {
			all = append(all, cmd.CommandPath())
		}
	}
	return all
}

// TestCommandsAreDescribed holds every command to the same form.
func TestCommandsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, cmd := range Commands() {
		at, leaf := cmd.CommandPath(), !cmd.HasSubCommands()
		switch first := []rune(cmd.Short); {
		case len(first) == 0:
			t.Errorf("%s has no short text", at)
		case strings.HasSuffix(cmd.Short, "."):
			t.Errorf("%s: the short text ends in a full stop", at)
		case !unicode.IsUpper(first[0]) || len(first) > 90 || strings.Contains(cmd.Short, "\n"):
			t.Errorf("%s: the short text must be one line of at most 90 characters that begins with a capital", at)
		}
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("%s: a line of the help is longer than 100 characters: %s", at, line)
			}
		}
		if !slices.ContainsFunc(strings.Split(cmd.Example, "\n"), func(s string) bool { return strings.HasPrefix(s, "  bourn ") }) {
			t.Errorf("%s has no example that begins with bourn", at)
		}
		reason := withoutJSON[at]
		if has := cmd.Flags().Lookup("json") != nil; leaf && has == (reason != "") {
			t.Errorf("%s: it has --json: %t; a reason for not having it: %q", at, has, reason)
		}
		seen[at] = true
	}
	for at := range withoutJSON {
		if !seen[at] {
			t.Errorf("%s is excepted from --json and does not exist", at)
		}
	}
}

// TestExamplesParse resolves every example: what it gives of flags and arguments is taken,
// and it is of the command that shows it, but for a command that holds others.
func TestExamplesParse(t *testing.T) {
	for _, cmd := range Commands() {
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			line, own := strings.CutPrefix(line, "  ")
			if !own && line != "" {
				t.Errorf("%s: an example is indented by two blanks: %s", cmd.CommandPath(), line)
			}
			if !strings.HasPrefix(line, "bourn ") {
				continue
			}
			at, problem := resolve(words(line))
			if problem != "" {
				t.Errorf("%s: %s: %s", cmd.CommandPath(), line, problem)
			} else if at != cmd.CommandPath() && !cmd.HasSubCommands() {
				t.Errorf("%s shows an example of %s: %s", cmd.CommandPath(), at, line)
			}
		}
	}
}

// TestExamplesThatDoNotParse shows that the check above refuses what is wrong.
func TestExamplesThatDoNotParse(t *testing.T) {
	for _, line := range []string{"bourn agnet list", "bourn run --no-such -- true", "bourn agent show", "bourn agent show a b",
		"bourn explain read", "bourn run -- bourn whoami --no-such", "bourn agent perm allow-read builder"} {
		if _, problem := resolve(words(line)); problem == "" {
			t.Errorf("%s is taken", line)
		}
	}
}

// resolve returns the command that a command line is of, or what is wrong with it. Of a
// run of bourn itself it is the inner one.
func resolve(line []string) (path, problem string) {
	cmd, rest, err := (&app{}).root().Find(line[1:])
	if err != nil {
		return "", err.Error()
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return "", err.Error()
	}
	args := cmd.Flags().Args()
	if err := cmd.ValidateArgs(args); err != nil {
		return "", err.Error()
	}
	switch {
	case cmd.Name() == "explain":
		if _, err := readQuestion(cmd, args, ""); err != nil {
			return "", err.Error()
		}
	case cmd.Name() == "run" && len(args) > 0 && args[0] == "bourn":
		return resolve(args)
	}
	return cmd.CommandPath(), ""
}

// words splits a line as a shell does, as far as examples need it: quotes, and an end at
// what leads elsewhere.
func words(line string) []string {
	var all []string
	word, quote, begun := "", rune(0), false
	end := func() {
		if begun {
			all = append(all, word)
		}
		word, begun = "", false
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && c == ' ':
			end()
		case quote == 0 && strings.ContainsRune(">|&;", c):
			end()
			return all
		default:
			word, begun = word+string(c), true
		}
	}
	end()
	return all
}
