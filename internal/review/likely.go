package review

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// likely returns the words of a command as they probably are where they are not known, and
// nil where nothing can be said: a variable that nobody sets is empty, ${x:-TEXT} and
// ${x:+TEXT} are TEXT, $(echo TEXT) prints TEXT. It is there to be matched, not to be
// believed. The program's name is not guessed at.
func likely(args []*syntax.Word, vars map[string]string) []word {
	all := newExpander(vars, len(args)+1)
	changed := false
	for i, arg := range args {
		from := len(all.out)
		if !all.braces(arg) {
			return nil
		}
		if one := all.out[from:]; i > 0 && len(one) == 1 && !one[0].known {
			e := newExpander(vars, 1)
			e.likely = true
			if e.braces(arg) && says(e.out) {
				all.out, changed = append(all.out[:from], e.out...), true
			}
		}
	}
	if !changed {
		return nil
	}
	return all.out
}

// says reports whether words that were guessed say anything.
func says(ws []word) bool {
	for _, w := range ws {
		if !w.known || w.text == "" || w.text == "-" || w.text == "--" {
			return false
		}
	}
	return len(ws) > 0
}

// guess adds what a part probably is that is only known when the command runs, and reports
// whether it could. Every part can be empty.
func (e *expander) guess(part syntax.WordPart) bool {
	if !e.likely {
		return false
	}
	switch p := part.(type) {
	case *syntax.ParamExp:
		if p.Param != nil && p.Exp == nil && anyIndex(p.Index) {
			e.fields(e.vars[p.Param.Value])
		}
		if p.Exp != nil && p.Exp.Word != nil && instead[p.Exp.Op] {
			inner := newExpander(e.vars, 1)
			inner.likely = true
			inner.word(p.Exp.Word.Parts)
			e.fields(joined(inner.out))
		}
	case *syntax.CmdSubst:
		if len(p.Stmts) != 1 {
			break
		}
		c := callOf(p.Stmts[0])
		if c == nil || len(c.Args) == 0 {
			break
		}
		if ws, tooMany := words(c.Args, e.vars); !tooMany && len(ws) > 0 {
			if text, ok := echoed(ws); ok {
				text, _, _ = strings.Cut(text, "\n")
				e.fields(text)
			}
		}
	}
	return true
}

// instead are the operators whose word may stand for the variable.
var instead = map[syntax.ParExpOperator]bool{
	syntax.AlternateUnset: true, syntax.AlternateUnsetOrNull: true, syntax.DefaultUnset: true,
	syntax.DefaultUnsetOrNull: true, syntax.AssignUnset: true, syntax.AssignUnsetOrNull: true,
}

// instead notes what a variable becomes where it is not set.
func (s *settled) instead(n *syntax.ParamExp) {
	if n.Exp.Word == nil || n.Exp.Op != syntax.AssignUnset && n.Exp.Op != syntax.AssignUnsetOrNull {
		return
	}
	if ws, _ := words([]*syntax.Word{n.Exp.Word}, nil); len(ws) == 1 && ws[0].known {
		s.note(n.Param.Value, ws[0].text)
	}
}

// anyIndex reports whether an index is that of all elements.
func anyIndex(index syntax.ArithmExpr) bool {
	w, ok := index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// maxPositional is how many positional parameters are followed.
const maxPositional = 9

// positional notes the parameters that a function, a text or what follows set is given.
func (s *settled) positional(ws []word) {
	if s.maybe == nil {
		s.maybe = map[string][]string{}
	}
	s.note("@", joined(ws))
	s.note("*", joined(ws))
	for i, w := range ws[:min(len(ws), maxPositional)] {
		s.note(string(rune('1'+i)), w.text)
	}
}

// parameters notes what a call gives a function of the same text, or what it sets.
func (s *settled) parameters(c *syntax.CallExpr, functions map[string]bool) {
	if len(c.Args) < 2 {
		return
	}
	name := c.Args[0].Lit()
	if name != "set" && !functions[name] {
		return
	}
	ws, tooMany := words(c.Args[1:], nil)
	if tooMany || len(ws) == 0 {
		return
	}
	if name == "set" {
		if ws[0].text != "--" {
			return
		}
		ws = ws[1:]
	}
	s.positional(ws)
}

// functionsOf returns the names of the functions that a text declares.
func functionsOf(file *syntax.File) map[string]bool {
	var names map[string]bool
	syntax.Walk(file, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil {
			if names == nil {
				names = map[string]bool{}
			}
			names[f.Name.Value] = true
		}
		return true
	})
	return names
}
