package review

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// settled are the variables of one text whose value is known: they are assigned once in
// it, a plain text, by a statement that is always executed, and nothing else can change
// them. now returns those that have their value where a node stands.
type settled struct {
	values map[string]string
	since  map[string]uint     // the offset of the end of the assignment
	maybe  map[string][]string // every plain text that is assigned, known or not
}

// changers are programs that may change a variable by its name.
var changers = map[string]bool{
	"read": true, "mapfile": true, "readarray": true, "getopts": true, "unset": true,
	"eval": true, "source": true, ".": true, "let": true,
}

func settle(file *syntax.File) settled {
	s := settled{values: map[string]string{}, since: map[string]uint{}, maybe: map[string][]string{}}
	times := map[string]int{}
	functions := functionsOf(file)
	wild := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name == nil || n.Naked {
				break
			}
			times[n.Name.Value]++
			if text, ok := plainValue(n); ok {
				s.note(n.Name.Value, text)
			} else {
				times[n.Name.Value]++
				s.elements(n)
			}
		case *syntax.WordIter:
			times[n.Name.Value] += 2
			s.items(n)
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil {
				times[n.Param.Value]++
				s.instead(n)
			}
		case *syntax.CallExpr:
			s.parameters(n, functions)
			wild = wild || len(n.Args) > 0 && changers[n.Args[0].Lit()] ||
				len(n.Args) > 1 && n.Args[0].Lit() == "printf" && n.Args[1].Lit() == "-v"
		}
		return true
	})
	if wild || times["IFS"] > 0 {
		return s
	}
	for _, stmt := range file.Stmts {
		for _, a := range always(stmt) {
			if a.Name == nil || times[a.Name.Value] != 1 || len(s.values) == maxVariables {
				continue
			}
			if text, ok := plainValue(a); ok {
				s.values[a.Name.Value], s.since[a.Name.Value] = text, a.End().Offset()
			}
		}
	}
	return s
}

// items notes the words that a loop goes through.
func (s *settled) items(n *syntax.WordIter) {
	ws, _ := words(n.Items, nil)
	for _, w := range ws {
		if w.known {
			s.note(n.Name.Value, w.text)
		}
	}
}

// elements notes the elements of an array, as the text that they make together.
func (s *settled) elements(n *syntax.Assign) {
	if n.Array == nil {
		return
	}
	var texts []string
	for _, elem := range n.Array.Elems {
		if elem.Value == nil {
			continue
		}
		ws, _ := words([]*syntax.Word{elem.Value}, nil)
		for _, w := range ws {
			if w.known {
				texts = append(texts, w.text)
			}
		}
	}
	if len(texts) > 0 {
		s.note(n.Name.Value, strings.Join(texts, " "))
	}
}

// Limits of what is kept of variables.
const (
	maxVariables = 32
	maxValues    = 4 // of one variable
)

// note keeps a value that a variable may have.
func (s *settled) note(name, value string) {
	values, known := s.maybe[name]
	if len(values) < maxValues && (known || len(s.maybe) < maxVariables) {
		s.maybe[name] = append(values, value)
	}
}

// always returns the assignments of a statement that are executed whatever happens.
func always(s *syntax.Stmt) []*syntax.Assign {
	if s.Background || s.Coprocess || s.Disown || len(s.Redirs) > 0 {
		return nil
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return c.Assigns
		}
	case *syntax.DeclClause:
		if c.Variant.Value == "export" {
			return c.Args
		}
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt {
			return always(c.X)
		}
	}
	return nil
}

// plainValue returns the value of an assignment when it is a text without anything in it
// that the shell would have to work out.
func plainValue(a *syntax.Assign) (string, bool) {
	if a.Append || a.Index != nil || a.Array != nil || a.Naked {
		return "", false
	}
	if a.Value == nil {
		return "", true
	}
	e := newExpander(nil, 1)
	for _, part := range a.Value.Parts {
		e.part(part, false)
	}
	e.end()
	switch len(e.out) {
	case 0:
		return "", true
	case 1:
		return e.out[0].text, e.out[0].known
	}
	return "", false
}

// now returns the variables that are known where a node stands.
func (s settled) now(n syntax.Node) map[string]string {
	if len(s.values) == 0 {
		return nil
	}
	here := map[string]string{}
	for name, value := range s.values {
		if s.since[name] <= n.Pos().Offset() {
			here[name] = value
		}
	}
	return here
}

// choice returns the i-th value of every variable, or nil when none has that many.
func (s settled) choice(i int) map[string]string {
	var all map[string]string
	for _, values := range s.maybe {
		if i < len(values) {
			all = map[string]string{}
			break
		}
	}
	if all == nil {
		return nil
	}
	for name, values := range s.maybe {
		all[name] = values[min(i, len(values)-1)]
	}
	return all
}
