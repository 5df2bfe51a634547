package review

import (
	"slices"
	"strings"

	"bourn"

	"mvdan.cc/sh/v3/syntax"
)

// commitVerbs are the commands of git that make commits on a branch, or may.
var commitVerbs = []string{
	"am", "cherry-pick", "citool", "commit", "commit-tree", "fast-import", "filter-branch", "gui", "merge", "pull",
	"quiltimport", "rebase", "replay", "revert", "subtree",
}

// CommitVerbs returns the commands of git that Commits looks for.
func CommitVerbs() []string { return slices.Clone(commitVerbs) }

// Commits reports whether a command makes a commit with git, as far as its text tells, and
// in a few words why. It reads the text as hard blocks do: a program or a verb of git that
// is known only when it runs counts, where git may be meant, and a variable that is set beside
// the text may mean it. An alias of the repository's, a script and a program that uses git by
// itself are not seen.
func Commits(c bourn.Command) (why string, is bool) {
	p := syntax.NewParser()
	var r *reading
	given := c.Text
	if given != "" {
		r = readCommand(p, given, false)
	} else {
		given = strings.Join(c.Argv, " ")
		r = readArgv(p, c.Argv, false)
	}
	for _, f := range r.forms {
		if verb, is := f.commits(); is {
			return "the command has git " + verb, true
		}
	}
	r.environment(c.Env)
	named := func(variable string) bool { return strings.Contains(given, variable) }
	if len(r.unclear) > 0 && (strings.Contains(strings.ToLower(given), "git") || slices.ContainsFunc(c.Env, named)) {
		return "it may make a commit: " + r.unclear[0], true
	}
	return "", false
}

// commits reports whether a simple command makes a commit, and by which verb of git: it has
// none of the command's other words, which may be secret.
func (f form) commits() (verb string, is bool) {
	program := f.words[0].text
	if verb, own := strings.CutPrefix(program, "git-"); own { // git-commit, from git's own directory
		return verb, slices.Contains(commitVerbs, verb)
	}
	const later = "and a verb that is known only when it runs"
	switch {
	case program != "git":
		return "", false
	case len(f.words) == 1:
		return later, f.open // xargs git
	// Alone, these leave what was begun.
	case len(f.words) == 3 && !f.open && f.words[2].known && (f.words[2].text == "--abort" || f.words[2].text == "--quit"):
		return "", false
	case f.words[1].known && !f.words[1].glob:
		return f.words[1].text, slices.Contains(commitVerbs, f.words[1].text)
	}
	return later, slices.ContainsFunc(commitVerbs, f.words[1].couldBe)
}
