package review

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// steering are variables that make programs execute, load or read something else than what
// their command says. What that is stands in a file, or in several variables together, so
// that no rule about commands can be held against it. GIT_CONFIG_ is a beginning: git reads
// settings, with aliases among them, from GIT_CONFIG_COUNT, _KEY_n, _VALUE_n, _PARAMETERS,
// _GLOBAL and _SYSTEM (git-config(1), ENVIRONMENT).
var steering = map[string]bool{
	"GIT_EXEC_PATH": true, "GIT_TEMPLATE_DIR": true,
	"BASH_ENV": true, "ENV": true, "SHELLOPTS": true, "BASHOPTS": true, "PS4": true, "ZDOTDIR": true,
	"LD_PRELOAD": true, "LD_LIBRARY_PATH": true, "LD_AUDIT": true, "GCONV_PATH": true,
	"DYLD_INSERT_LIBRARIES": true, "DYLD_LIBRARY_PATH": true, "DYLD_FRAMEWORK_PATH": true,
	"PERL5OPT": true, "PERL5DB": true, "PYTHONSTARTUP": true, "PYTHONINSPECT": true, "RUBYOPT": true, "NODE_OPTIONS": true,
	"JAVA_TOOL_OPTIONS": true, "JDK_JAVA_OPTIONS": true, "_JAVA_OPTIONS": true,
}

func steers(name string) bool {
	return steering[name] || strings.HasPrefix(name, "GIT_CONFIG_") && name != "GIT_CONFIG_NOSYSTEM"
}

// loading are the options of node that load more than its program (node(1)).
var loading = []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file", "--eval", "--inspect"}

// harmless reports whether a variable with this value steers nothing. ENV is a file that an
// interactive shell reads: most who set it mean "production".
func harmless(name, value string) bool {
	switch {
	case value == "":
		return true
	case name == "ENV":
		return !strings.ContainsAny(value, "/$`~")
	case name == "NODE_OPTIONS":
		return !slices.ContainsFunc(strings.Fields(value), func(option string) bool {
			option, _, _ = strings.Cut(strings.ReplaceAll(option, "_", "-"), "=")
			return !strings.HasPrefix(option, "-") || slices.Contains(loading, option)
		})
	}
	return false
}

// environment reads the names of the variables that a call sets beside its command. Their
// values are not part of an action.
func (r *reading) environment(names []string) {
	for _, name := range names {
		if steers(name) || hookVariables[name] {
			r.steered(name)
		}
	}
}

func (r *reading) steered(name string) {
	r.cannotTell("the variable " + name + " can make a program execute something else")
}

// variable reads what a variable of the text makes programs execute. Where its value is
// known and is a command, that is read; else it cannot be told.
func (r *reading) variable(name string, value word, how string) {
	command := hookVariables[name]
	switch {
	case !command && !steers(name):
	case value.known && command:
		r.guesses++
		r.shellText(value, how+", in $"+name)
		r.guesses--
	case value.known && harmless(name, value.text):
	default:
		r.steered(name)
	}
}

// assignments reads the variables that stand before a command, or alone.
func (r *reading) assignments(assigns []*syntax.Assign, how string) {
	for _, a := range assigns {
		if a.Name == nil {
			continue
		}
		text, known := plainValue(a)
		if !known && a.Value != nil && !a.Append {
			// With what the text has said of its own variables.
			if ws, tooMany := words([]*syntax.Word{a.Value}, r.vars.now(a)); !tooMany && len(ws) == 1 && ws[0].known {
				text, known = ws[0].text, true
			}
		}
		r.variable(a.Name.Value, word{text: text, known: known}, how)
	}
}

// exporting are the shell's own commands that set variables.
var exporting = map[string]bool{"export": true, "declare": true, "typeset": true, "local": true, "readonly": true}

// settings reads NAME=value among words, and the names that export is given alone.
func (r *reading) settings(ws []word, bare bool, how string) {
	for _, w := range ws {
		text := w.text
		if !w.known {
			text = w.pre
		}
		name, value, ok := strings.Cut(text, "=")
		switch {
		case ok:
			r.variable(name, word{text: value, known: w.known}, how)
		case bare && w.known && r.vars.maybe[name] == nil:
			r.variable(name, word{}, how)
		}
	}
}
