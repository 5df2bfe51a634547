package review

import (
	"slices"

	"bourn"

	"mvdan.cc/sh/v3/syntax"
)

// Programs returns the words that name a program in a command, each once, as they are
// written: those of the simple commands that are held against command rules, without their
// wrappers too, and of what may be one. A word that is known only when the command runs is
// not among them, nor is anything behind the limits of a reading. Without a rule about paths
// there are none: nothing would be held against them.
func (c *Compiled) Programs(command bourn.Command) []string {
	if !c.Valid() || c.paths.empty {
		return nil
	}
	p, ok := c.parsers.Get().(*syntax.Parser)
	if !ok {
		p = syntax.NewParser()
	}
	var r *reading
	if command.Text != "" {
		r = readCommand(p, command.Text, false)
	} else {
		r = readArgv(p, command.Argv, false)
	}
	c.parsers.Put(r.parser)
	var names []string
	seen := map[string]bool{}
	for i := range r.forms {
		name := r.forms[i].program()
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return slices.Clip(names)
}

// program is the word that names a form's program, or "" where that is not known.
func (f *form) program() string {
	w := f.words[0]
	switch {
	case f.path != "" && !w.glob:
		return f.path
	case w.known && !w.glob:
		return w.text
	}
	return ""
}
