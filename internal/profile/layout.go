package profile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A node is a value with the place of its text. The YAML reader gives where a value
// begins; layout finds where it ends by reading on from there, and refuses what it
// cannot follow, so that an edit never guesses.
type node struct {
	*yaml.Node
	start, end int     // of the text; equal where a key has no value
	items      []item  // of a list
	entries    []entry // of a mapping
	tail       bool    // the text ends in that of a block scalar, which takes the lines after it
}

// An item is an entry of a list.
type item struct {
	*node
	dash int // the "-" of a block list
}

// An entry is a key of a mapping with its value.
type entry struct {
	key   *node
	colon int // after the ":"
	value *node
}

// find returns the entry with a key, or nil.
func (n *node) find(name string) *entry {
	for i := range n.entries {
		if n.entries[i].key.Value == name {
			return &n.entries[i]
		}
	}
	return nil
}

// place returns the place of an entry among those of a mapping.
func (n *node) place(of *entry) int {
	return slices.IndexFunc(n.entries, func(e entry) bool { return e.key == of.key })
}

func (n *node) flow() bool { return n.Style&yaml.FlowStyle != 0 }

// layout places the tree.
func layout(s *source, root *yaml.Node) (*node, *problem) {
	p := placer{s: s}
	at := p.skip(0)
	if strings.HasPrefix(s.text[at:], "---") {
		at += len("---")
	}
	n := p.place(root, at, -1)
	return n, p.problem
}

// A placer reads forward; its first problem ends the reading.
type placer struct {
	s       *source
	problem *problem
}

func (p *placer) fail(off int, format string, args ...any) {
	if p.problem == nil {
		bad := p.s.problem(p.s.pos(min(off, len(p.s.text))), format, args...)
		p.problem = &bad
	}
}

// skip returns where the next token begins at or after a place.
func (p *placer) skip(at int) int {
	for at < len(p.s.text) {
		switch p.s.text[at] {
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			at = p.s.lineEnd(at)
		default:
			return at
		}
	}
	return at
}

// eat returns the place after a character that must come next.
func (p *placer) eat(at int, c byte) int {
	at = p.skip(at)
	if at >= len(p.s.text) || p.s.text[at] != c {
		p.fail(at, "this form of YAML is not used in profiles: %q must come here", c)
		return at
	}
	return at + 1
}

// place finds the text of a value that begins at or after at. Indent is that of the
// block the value is in, which the lines of a block scalar exceed.
func (p *placer) place(y *yaml.Node, at, indent int) *node {
	n := &node{Node: y, start: at, end: at}
	if p.problem != nil || isBare(y) {
		return n
	}
	n.start = p.skip(at)
	if n.start != p.s.offset(y.Line, y.Column) || n.start >= len(p.s.text) {
		p.fail(n.start, "this form of YAML is not used in profiles; write key: value, and lists with - or [ ]")
		return n
	}
	switch {
	case p.s.text[n.start] == '!':
		p.fail(n.start, tagsMessage)
	case y.Kind == yaml.ScalarNode:
		p.scalar(n, indent)
	case y.Kind == yaml.MappingNode && n.flow():
		p.flowMapping(n)
	case y.Kind == yaml.MappingNode:
		p.blockMapping(n)
	case n.flow():
		p.flowList(n)
	default:
		p.blockList(n)
	}
	return n
}

func (p *placer) scalar(n *node, indent int) {
	text := p.s.text[n.start:]
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0 && text[0] == '"':
		n.end = n.start + quotedLen(text, '\\')
	case n.Style&yaml.SingleQuotedStyle != 0 && text[0] == '\'':
		n.end = n.start + quotedLen(text, '\'')
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 && (text[0] == '|' || text[0] == '>'):
		n.end, n.tail = p.blockEnd(n.start, indent), true
	case n.Style == 0 && strings.HasPrefix(text, n.Value):
		n.end = n.start + len(n.Value)
	default:
		p.fail(n.start, "text that goes on over several lines must be in quotes")
	}
}

// quotedLen returns the length of the quoted text that s begins with, in which escape
// takes the next character literally; a quote doubled is its own escape.
func quotedLen(s string, escape byte) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == escape && i+1 < len(s) && (escape == '\\' || s[i+1] == escape):
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}

// blockEnd returns the end of a block scalar: its header and every line after that is
// empty or indented by more than indent.
func (p *placer) blockEnd(at, indent int) int {
	for i, line := 0, p.s.pos(at).Line; ; i++ {
		if line+i >= len(p.s.lines) {
			return len(p.s.text)
		}
		rest := p.s.text[p.s.lines[line+i]:]
		spaces := len(rest) - len(strings.TrimLeft(rest, " "))
		blank := spaces == len(rest) || rest[spaces] == '\n' || rest[spaces] == '\r'
		if !blank && spaces <= indent {
			return p.s.lines[line+i]
		}
	}
}

func (p *placer) blockMapping(n *node) {
	at := n.start
	indent := at - p.s.lineStart(at)
	for i := 0; i+1 < len(n.Content) && p.problem == nil; i += 2 {
		e := p.entry(n.Content[i], n.Content[i+1], at, indent)
		at, n.tail = e.value.end, e.value.tail
		n.entries = append(n.entries, e)
	}
	n.end = at
}

func (p *placer) entry(k, v *yaml.Node, at, indent int) entry {
	e := entry{key: p.place(k, at, indent)}
	e.colon = p.eat(e.key.end, ':')
	e.value = p.place(v, e.colon, indent)
	return e
}

func (p *placer) flowMapping(n *node) {
	at := p.eat(n.start, '{')
	for i := 0; i+1 < len(n.Content) && p.problem == nil; i += 2 {
		if i > 0 {
			at = p.eat(at, ',')
		}
		e := p.entry(n.Content[i], n.Content[i+1], at, 0)
		at = e.value.end
		n.entries = append(n.entries, e)
	}
	n.end = p.close(at, len(n.entries), '}')
}

// close returns the place after the bracket that ends a flow value, before which a
// comma may stand where there is something to end.
func (p *placer) close(at, length int, bracket byte) int {
	if next := p.skip(at); length > 0 && next < len(p.s.text) && p.s.text[next] == ',' {
		at = next + 1
	}
	return p.eat(at, bracket)
}

func (p *placer) flowList(n *node) {
	at := p.eat(n.start, '[')
	for i, y := range n.Content {
		if p.problem != nil {
			return
		}
		if i > 0 {
			at = p.eat(at, ',')
		}
		value := p.place(y, at, 0)
		at = value.end
		n.items = append(n.items, item{node: value})
	}
	n.end = p.close(at, len(n.items), ']')
}

func (p *placer) blockList(n *node) {
	at := n.start
	for _, y := range n.Content {
		if p.problem != nil {
			return
		}
		dash := p.skip(at)
		value := p.place(y, p.eat(dash, '-'), dash-p.s.lineStart(dash))
		at, n.tail = value.end, value.tail
		n.items = append(n.items, item{value, dash})
	}
	n.end = at
}

// lineStart returns where the line of a byte begins.
func (s *source) lineStart(off int) int { return s.lines[s.line(off)] }

// lineEnd returns where the line of a byte ends, before what ends it.
func (s *source) lineEnd(off int) int {
	next := s.line(off) + 1
	if next == len(s.lines) {
		return len(s.text)
	}
	end := s.lines[next] - 1
	if end > off && s.text[end-1] == '\r' {
		end--
	}
	return end
}

// newline returns what ends the line of a byte, or, where nothing does, the one before.
func (s *source) newline(off int) string {
	end := s.lineEnd(off)
	if end == len(s.text) {
		end = max(s.lineStart(off)-1, 0)
		if end > 0 && s.text[end-1] == '\r' {
			end--
		}
	}
	if strings.HasPrefix(s.text[end:], "\r\n") {
		return "\r\n"
	}
	return "\n"
}
