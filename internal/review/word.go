package review

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// A word is one word of a command as the program gets it: without quotes and escapes.
type word struct {
	text  string         // the word; what cannot be known stands in it as it is written, such as $x
	known bool           // text is exactly what the program gets
	split bool           // not known, and may turn into no word or several
	glob  bool           // file names may take the place of a pattern in text
	pre   string         // of a word that is not known: what it begins with
	suf   string         // and ends with
	inner []*syntax.Stmt // of the first substitution in it
}

// What stands for a substitution in the text of a word.
const (
	substitution = "$(…)"
	expansion    = "${…}"
)

func literal(text string) word { return word{text: text, known: true} }

func literals(texts []string) []word {
	ws := make([]word, len(texts))
	for i, t := range texts {
		ws[i] = literal(t)
	}
	return ws
}

// couldBe reports whether the program may get exactly text.
func (w word) couldBe(text string) bool {
	switch {
	case w.text == text:
		return true
	case !w.known && w.split:
		return true
	case !w.known:
		return len(text) >= len(w.pre)+len(w.suf) && strings.HasPrefix(text, w.pre) && strings.HasSuffix(text, w.suf)
	case w.glob:
		return globMatch(w.text, text)
	}
	return false
}

// An expander turns the words of a parsed command into words.
type expander struct {
	vars map[string]string // variables whose value is known
	left int               // how many words braces may still make
	out  []word
	cur  word   // without its texts
	text []byte // of cur
	pre  int    // where what is known at its beginning ends
	suf  int    // and where what is known at its end begins
	any  bool   // there is a word in cur, maybe an empty one

	likely bool // what is not known is guessed
}

func newExpander(vars map[string]string, words int) *expander {
	return &expander{vars: vars, left: maxBraces, out: make([]word, 0, words), cur: word{known: true}}
}

// maxBraces is how many words the braces of one command may make.
const maxBraces = 1024

// words expands the words of one command, and reports whether braces make too many.
func words(args []*syntax.Word, vars map[string]string) (ws []word, tooMany bool) {
	e := newExpander(vars, len(args)+1)
	for _, arg := range args {
		if !e.braces(arg) {
			return e.out, true
		}
	}
	return e.out, false
}

// braces expands one word, braces first, as bash does.
func (e *expander) braces(w *syntax.Word) bool {
	if !slices.ContainsFunc(w.Parts, opensBrace) {
		e.word(w.Parts)
		return true
	}
	split := *w
	if !syntax.SplitBraces(&split) {
		e.word(w.Parts)
		return true
	}
	for _, parts := range e.alternatives(split.Parts) {
		e.word(parts)
	}
	return e.left > 0
}

func opensBrace(part syntax.WordPart) bool {
	lit, ok := part.(*syntax.Lit)
	return ok && strings.Contains(lit.Value, "{")
}

// alternatives returns every reading of parts with braces. A sequence is left as its first
// element: it makes numbers and single letters only.
func (e *expander) alternatives(parts []syntax.WordPart) [][]syntax.WordPart {
	all := [][]syntax.WordPart{nil}
	for _, part := range parts {
		b, braces := part.(*syntax.BraceExp)
		if !braces {
			for i := range all {
				all[i] = append(all[i], part)
			}
			continue
		}
		elems := b.Elems
		if b.Sequence {
			elems = elems[:1]
		}
		var next [][]syntax.WordPart
		for _, before := range all {
			for _, elem := range elems {
				for _, middle := range e.alternatives(elem.Parts) {
					if e.left--; e.left <= 0 {
						return next
					}
					next = append(next, append(append([]syntax.WordPart(nil), before...), middle...))
				}
			}
		}
		all = next
	}
	return all
}

func (e *expander) word(parts []syntax.WordPart) {
	for _, part := range parts {
		e.part(part, false)
	}
	e.end()
}

// end closes the current word.
func (e *expander) end() {
	if e.any {
		w := e.cur
		w.text = string(e.text)
		if !w.known {
			w.pre, w.suf = w.text[:e.pre], w.text[e.suf:]
		}
		e.out = append(e.out, w)
	}
	e.cur, e.any, e.text = word{known: true}, false, e.text[:0]
}

func (e *expander) add(text string) {
	e.any = true
	e.text = append(e.text, text...)
}

// unknown adds what is only known when the command runs.
func (e *expander) unknown(text string, split bool) {
	if e.cur.known {
		e.pre, e.cur.known = len(e.text), false
	}
	e.any = true
	e.text = append(e.text, text...)
	e.suf = len(e.text)
	e.cur.split = e.cur.split || split
}

func (e *expander) part(part syntax.WordPart, quoted bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		if quoted {
			e.add(unescape(p.Value, "$`\"\\\n"))
			return
		}
		e.cur.glob = e.cur.glob || hasGlob(p.Value)
		e.add(unescape(p.Value, ""))
	case *syntax.SglQuoted:
		if p.Dollar {
			e.add(ansi(p.Value))
		} else {
			e.add(p.Value)
		}
	case *syntax.DblQuoted:
		e.add("")
		for _, inner := range p.Parts {
			e.part(inner, true)
		}
	case *syntax.ParamExp:
		e.param(p, quoted)
	case *syntax.CmdSubst:
		if e.guess(p) {
			return
		}
		e.substitution(p.Stmts)
		e.unknown(substitution, !quoted)
	case *syntax.ProcSubst:
		e.substitution(p.Stmts)
		e.unknown("<(…)", false)
	case *syntax.ArithmExp:
		e.unknown("$((…))", false)
	case *syntax.ExtGlob:
		e.unknown(p.Op.String()+p.Pattern.Value+")", true)
	default:
		e.unknown(expansion, !quoted)
	}
}

func (e *expander) substitution(stmts []*syntax.Stmt) {
	if e.cur.inner == nil {
		e.cur.inner = stmts
	}
}

func (e *expander) param(p *syntax.ParamExp, quoted bool) {
	name, plain := plainParam(p)
	if !plain && e.guess(p) {
		return
	}
	if !plain {
		e.unknown(expansion, !quoted || p.Param != nil && (p.Param.Value == "@" || p.Index != nil))
		return
	}
	value, known := e.vars[name]
	switch {
	case known && quoted && name != "@":
		e.add(value)
	case known:
		e.fields(value)
	case name == "IFS" && !quoted:
		e.end() // it separates words
	case e.guess(p):
	default:
		e.unknown("$"+name, !quoted && !steady[name] || name == "@")
	}
}

// steady are variables that hold one path: outside quotes too they make one word. Who sets
// them to something else does not do so by mistake.
var steady = map[string]bool{
	"HOME": true, "PWD": true, "OLDPWD": true, "TMPDIR": true, "GOPATH": true, "GOBIN": true,
	"GOROOT": true, "VIRTUAL_ENV": true, "JAVA_HOME": true, "CARGO_HOME": true,
}

// fields adds the value of a variable outside quotes, where blanks separate words.
func (e *expander) fields(value string) {
	e.cur.glob = e.cur.glob || hasGlob(value)
	for i, f := range strings.FieldsFunc(" "+value+" ", isBlank) {
		if i > 0 || value != "" && isBlank(rune(value[0])) {
			e.end()
		}
		e.add(f)
	}
	if value != "" && isBlank(rune(value[len(value)-1])) {
		e.end()
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// plainParam returns the name of $name and ${name}.
func plainParam(p *syntax.ParamExp) (string, bool) {
	plain := p.Param != nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.NestedParam == nil && p.Index == nil && len(p.Modifiers) == 0 && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil
	if !plain {
		return "", false
	}
	return p.Param.Value, true
}

// hasGlob reports whether an unquoted text holds a pattern that file names may replace.
func hasGlob(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		case '[':
			if strings.IndexByte(s[i:], ']') > 1 {
				return true
			}
		}
	}
	return false
}

// unescape removes backslashes: before the characters of only, or before any when it is
// empty. A backslash at the end of a line goes with the line's end.
func unescape(s, only string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (only == "" || strings.IndexByte(only, s[i+1]) >= 0) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ansi decodes what stands in $'…' (bash(1), QUOTING).
func ansi(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		i += ansiEscape(&b, s[i:]) - 1
	}
	text := b.String()
	if nul := strings.IndexByte(text, 0); nul >= 0 {
		text = text[:nul] // bash ends the word's part there
	}
	return text
}

var ansiSingle = map[byte]byte{'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': '\n', 'r': '\r',
	't': '\t', 'v': 11, '\\': '\\', '\'': '\'', '"': '"', '?': '?'}

// ansiEscape decodes what follows a backslash, and returns how many bytes that is.
func ansiEscape(b *strings.Builder, s string) int {
	digits := func(from, most, base int) (value, to int) {
		for to = from; to < len(s) && to < from+most; to++ {
			d := strings.IndexByte("0123456789abcdef0123456789ABCDEF", s[to]) % 16
			if d < 0 || d >= base {
				break
			}
			value = value*base + d
		}
		return value, to
	}
	if c, ok := ansiSingle[s[0]]; ok {
		b.WriteByte(c)
		return 1
	}
	switch c := s[0]; {
	case '0' <= c && c <= '7':
		v, to := digits(0, 3, 8)
		b.WriteByte(byte(v))
		return to
	case c == 'x':
		if v, to := digits(1, 2, 16); to > 1 {
			b.WriteByte(byte(v))
			return to
		}
	case c == 'u' || c == 'U':
		most := 4
		if c == 'U' {
			most = 8
		}
		if v, to := digits(1, most, 16); to > 1 {
			if v > utf8.MaxRune {
				v = utf8.RuneError
			}
			b.WriteRune(rune(v))
			return to
		}
	case c == 'c' && len(s) > 1:
		b.WriteByte(s[1] & 0x1f)
		return 2
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return 1
}
