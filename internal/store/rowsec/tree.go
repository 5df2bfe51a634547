package rowsec

import (
	"fmt"
	"strconv"
	"strings"
)

// A node is one of a stored expression: pg_policy.polqual is a pg_node_tree, which prints
// as
//
//	node  = "{" LABEL { ":" FIELD value } "}"
//	value = node | "(" { value } ")" | words | "[" bytes "]"
//
// (PostgreSQL, src/backend/nodes/outfuncs.c; the fields that are read here are the same in
// 15 to 18.) What is not a node is kept as words.
type node struct {
	label  string
	fields []field
}

type field struct {
	name  string
	words []string
	nodes []*node // those in the value, lists flattened
}

// The nodes that are looked at.
const (
	funcCall   = "FUNCEXPR"
	operator   = "OPEXPR"
	arrayTest  = "SCALARARRAYOPEXPR"
	column     = "VAR"
	constant   = "CONST"
	sublink    = "SUBLINK"
	sqlValue   = "SQLVALUEFUNCTION"
	nullTest   = "NULLTEST"
	boolean    = "BOOLEXPR"
	query      = "QUERY"
	relabel    = "RELABELTYPE"
	coerceIO   = "COERCEVIAIO"
	anySublink = "2" // x in (select …), of SubLinkType
)

// parseTree reads a stored expression. "" is no node and no error.
func parseTree(text string) (*node, error) {
	p := &treeParser{rest: text}
	p.next()
	if p.word == "" {
		return nil, nil
	}
	// A policy's expression is one node; an index's are a list of them.
	n := &node{label: "LIST"}
	f := field{name: "items"}
	p.value(&f)
	n.fields = []field{f}
	if p.err == nil && p.word != "" {
		p.err = fmt.Errorf("cannot read a stored expression: %q follows its end", p.word)
	}
	if p.err == nil && len(f.nodes) == 1 {
		return f.nodes[0], nil
	}
	return n, p.err
}

type treeParser struct {
	rest string
	word string // the one at hand, "" at the end
	err  error
}

// next takes the next word. A backslash makes the byte behind it an ordinary one.
func (p *treeParser) next() {
	p.rest = strings.TrimLeft(p.rest, " \n\t")
	p.word = ""
	if p.rest == "" {
		return
	}
	if strings.ContainsRune("{}()[]", rune(p.rest[0])) {
		p.word, p.rest = p.rest[:1], p.rest[1:]
		return
	}
	i := 0
	for i < len(p.rest) && !strings.ContainsRune(" \n\t{}()[]", rune(p.rest[i])) {
		if p.rest[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(p.rest))
	p.word, p.rest = p.rest[:i], p.rest[i:]
}

// value reads one value into f.
func (p *treeParser) value(f *field) {
	switch p.word {
	case "{":
		f.nodes = append(f.nodes, p.node())
	case "(", "[":
		end := map[string]string{"(": ")", "[": "]"}[p.word]
		p.next()
		for p.word != end && p.err == nil {
			if p.word == "" {
				p.err = fmt.Errorf("cannot read a stored expression: a list does not end")
				return
			}
			p.value(f)
		}
		p.next()
	default:
		f.words = append(f.words, p.word)
		p.next()
	}
}

func (p *treeParser) node() *node {
	p.next()
	n := &node{label: p.word}
	p.next()
	for p.word != "}" && p.err == nil {
		if !strings.HasPrefix(p.word, ":") {
			p.err = fmt.Errorf("cannot read a stored expression: %s has %q where a field begins", n.label, p.word)
			return n
		}
		f := field{name: p.word[1:]}
		p.next()
		for p.word != "}" && !strings.HasPrefix(p.word, ":") && p.err == nil {
			if p.word == "" {
				p.err = fmt.Errorf("cannot read a stored expression: %s does not end", n.label)
				return n
			}
			p.value(&f)
		}
		n.fields = append(n.fields, f)
	}
	p.next()
	return n
}

// word returns the value of a field that is one word, "" for none.
func (n *node) word(name string) string {
	for _, f := range n.fields {
		if f.name == name && len(f.words) > 0 {
			return f.words[0]
		}
	}
	return ""
}

func (n *node) number(name string) int64 {
	i, err := strconv.ParseInt(n.word(name), 10, 64)
	if err != nil {
		return 0
	}
	return i
}

// in returns the nodes in a field.
func (n *node) in(name string) []*node {
	for _, f := range n.fields {
		if f.name == name {
			return f.nodes
		}
	}
	return nil
}

// each calls f with every node below and n itself, and with how many queries are around
// it. Where f returns false it does not go further down.
func (n *node) each(depth int, f func(n *node, depth int) bool) {
	if n == nil || !f(n, depth) {
		return
	}
	if n.label == query {
		depth++
	}
	for _, field := range n.fields {
		for _, below := range field.nodes {
			below.each(depth, f)
		}
	}
}

// has reports whether there is a node for which f is true.
func (n *node) has(f func(*node) bool) bool {
	found := false
	n.each(0, func(n *node, _ int) bool {
		found = found || f(n)
		return !found
	})
	return found
}

// calls reports whether one of the functions is called.
func (n *node) calls(functions map[int64]bool) bool {
	return n.has(func(n *node) bool { return n.label == funcCall && functions[n.number("funcid")] })
}

// readsOutside reports whether a sublink reads a column of what is around it, which makes
// it be evaluated once a row: what reads none is evaluated once.
func (n *node) readsOutside() bool {
	found := false
	n.each(0, func(n *node, depth int) bool {
		found = found || n.label == column && n.number("varlevelsup") >= int64(depth)
		return !found
	})
	return found
}

// conjuncts are the parts of a condition that must all be true.
func (n *node) conjuncts() []*node { return n.parts("and") }

// alternatives are the parts of a condition of which one must be true.
func (n *node) alternatives() []*node { return n.parts("or") }

func (n *node) parts(op string) []*node {
	if n == nil {
		return nil
	}
	if n.label == boolean && n.word("boolop") == op {
		var all []*node
		for _, arg := range n.in("args") {
			all = append(all, arg.parts(op)...)
		}
		return all
	}
	return []*node{n}
}

// isTrue reports whether a condition is the constant true, or has it as an alternative.
func (n *node) isTrue() bool {
	for _, one := range n.alternatives() {
		if one.label != constant || one.word("consttype") != boolType || one.word("constisnull") != "false" {
			continue
		}
		if value := one.words("constvalue"); len(value) > 1 && value[1] != "0" {
			return true
		}
	}
	return false
}

const boolType = "16" // of pg_type, fixed

func (n *node) words(name string) []string {
	for _, f := range n.fields {
		if f.name == name {
			return f.words
		}
	}
	return nil
}

// plain takes off what only changes a value's type.
func (n *node) plain() *node {
	for n != nil && (n.label == relabel || n.label == coerceIO) && len(n.in("arg")) == 1 {
		n = n.in("arg")[0]
	}
	return n
}
