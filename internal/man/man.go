// Package man makes manual pages: one for each command of a tree, and bourn-profile(5) of
// the documentation's page about profiles. It says nothing of its own: what a page holds is
// what --help, the tables of the caller and the documentation hold.
//
// The pages are for the man macros and in ASCII, so that groff and mandoc print them alike.
package man

import (
	"path"
	"strconv"
	"strings"
	"time"

	"bourn/docs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An Edition is what all pages of one set have in common.
type Edition struct {
	Version string    // of the program
	Date    time.Time // of the pages
	// Notes are the sections of a command that its help does not have.
	Notes func(cmd *cobra.Command) Notes
}

// Notes are rows of three sections: what stands first, and what is said of it.
type Notes struct {
	Exit, Environment, Files [][2]string
}

// Pages returns the pages by their places below a directory of manual pages, as in
// man1/bourn-run.1: of root and of every command below it that is not hidden.
func Pages(root *cobra.Command, e Edition) map[string][]byte {
	pages := map[string][]byte{"man5/bourn-profile.5": profilePage(e)}
	add(pages, root, e)
	return pages
}

func add(pages map[string][]byte, cmd *cobra.Command, e Edition) {
	if !shown(cmd) {
		return
	}
	pages[path.Join("man1", pageName(cmd)+".1")] = commandPage(cmd, e)
	for _, sub := range cmd.Commands() {
		add(pages, sub, e)
	}
}

// shown reports whether a command has a page. cobra's own help command is no command of
// the program's.
func shown(cmd *cobra.Command) bool {
	return !cmd.Hidden && (cmd.Name() != "help" || cmd.Parent() == nil)
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func commandPage(cmd *cobra.Command, e Edition) []byte {
	var r roff
	r.begin(pageName(cmd), 1, e, cmd.Short)
	r.section("SYNOPSIS")
	r.lines(synopsis(cmd))
	r.section("DESCRIPTION")
	if cmd.Long == "" {
		r.paragraph(escape(cmd.Short + "."))
	} else {
		r.text(cmd.Long)
	}
	r.commands(cmd)
	r.options(cmd)
	if cmd.Example != "" {
		r.section("EXAMPLES")
		r.text(cmd.Example)
	}
	notes := e.Notes(cmd)
	r.rows("EXIT STATUS", notes.Exit)
	r.rows("ENVIRONMENT", notes.Environment)
	r.rows("FILES", notes.Files)
	r.seeAlso(cmd)
	return []byte(r.String())
}

// synopsis is the line of a command: what is typed literally is bold.
func synopsis(cmd *cobra.Command) string {
	words := []string{bold(cmd.CommandPath())}
	rest := strings.Fields(cmd.Use)[1:]
	switch {
	case cmd.HasAvailableSubCommands():
		rest = append(rest, "COMMAND")
	case cmd.HasAvailableLocalFlags() && !strings.Contains(cmd.Use, "[flags]"):
		rest = append([]string{"[flags]"}, rest...)
	}
	for _, word := range rest {
		switch {
		case word == "[flags]":
			words = append(words, "["+italic("options")+"]")
		case strings.ToLower(word) == word && word != "--":
			words = append(words, bold(word))
		case strings.Trim(word, "[-") == "":
			words = append(words, escape(word))
		default:
			words = append(words, italic(word))
		}
	}
	return strings.Join(words, " ")
}

// commands lists what is below a command.
func (r *roff) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	r.section("COMMANDS")
	for _, sub := range cmd.Commands() {
		if shown(sub) {
			r.tagged(bold(sub.Name()), escape(sub.Short+"; see "+pageName(sub)+"(1)."))
		}
	}
}

func (r *roff) options(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	r.section("OPTIONS")
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			r.tagged(flagTag(f))
		}
	})
}

// flagTag returns what is typed for a flag, and what is said of it.
func flagTag(f *pflag.Flag) (tag, text string) {
	value, about := pflag.UnquoteUsage(f)
	tag = bold("--" + f.Name)
	if f.Shorthand != "" {
		tag = bold("-"+f.Shorthand) + ", " + tag
	}
	if value != "" {
		tag += " " + italic(strings.ToUpper(value))
	}
	switch f.DefValue {
	case "", "false", "0", "[]":
	default:
		about += "; without it, " + f.DefValue
	}
	return tag, escape(about + ".")
}

// rows writes a section of rows, if there are any.
func (r *roff) rows(heading string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	r.section(heading)
	for _, row := range rows {
		r.tagged(bold(row[0]), escape(row[1]))
	}
}

// seeAlso names the page above, those below, and that of profiles.
func (r *roff) seeAlso(cmd *cobra.Command) {
	var all []string
	see := func(name string, section int) { all = append(all, bold(name)+"("+strconv.Itoa(section)+")") }
	if parent := cmd.Parent(); parent != nil {
		see(pageName(parent), 1)
	}
	for _, sub := range cmd.Commands() {
		if shown(sub) {
			see(pageName(sub), 1)
		}
	}
	see("bourn-profile", 5)
	r.section("SEE ALSO")
	r.WriteString(".ad l\n") // names are too long for lines of even length
	r.paragraph(strings.Join(all, ", "))
}

func profilePage(e Edition) []byte {
	var r roff
	r.begin("bourn-profile", 5, e, "what an agent may read, write, execute and reach")
	r.section("DESCRIPTION")
	r.markdown(docs.Profile)
	r.section("SEE ALSO")
	r.paragraph(bold("bourn") + "(1), " + bold("bourn-agent-create") + "(1), " + bold("bourn-agent-perm") + "(1), " + bold("bourn-run") + "(1)")
	return []byte(r.String())
}
