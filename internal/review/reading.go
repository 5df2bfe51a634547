package review

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A reading is what is found in a command's text: every text that a shell gets, every
// simple command in them, and what could not be told.
//
//	text ──parse──▶ simple commands ──unwrap──▶ forms
//	  ▲                                  │
//	  └── sh -c, eval, here-documents ◀──┘
type reading struct {
	parser  *syntax.Parser
	fold    bool            // programs are found in whatever case they are written
	texts   []string        // the given one first
	alone   map[string]bool // texts that were read with no parameters and nothing to read from
	forms   []form
	pipes   []string // normal forms of pipelines
	unclear []string // why it cannot be told what is executed
	vars    settled
	aliases map[string][]word
	given   []word // the positional parameters of the text that is read next, $0 first
	stdin   feed
	guesses int // above zero: what is read may not be a command at all, and is not unclear
	depth   int
	bytes   int // of texts and forms that may still be made
}

// A form is one way to see a simple command: as it is written, and without each wrapper.
type form struct {
	words []word
	text  string // the words with single blanks between them
	how   string // where it was found, such as "inside sudo"
	path  string // of the program, as it is written, when that has a slash
	open  bool   // words that are not known follow
	guess bool   // it may not be a command at all
	firm  bool   // only what surely matches counts: what may is asked about elsewhere
}

// Limits of a reading. What goes beyond them is unclear.
const (
	maxText    = 128 << 10 // bytes of the given text
	maxReading = 2 << 20   // bytes of all texts and forms
	maxForms   = 4096
	maxDepth   = 40  // of wrappers and texts within each other
	maxNesting = 200 // of brackets within each other
	maxPipes   = 32  // forms of one pipeline
	maxUnclear = 16  // reasons why it cannot be told
	maxSuffix  = 16  // words of one command that are tried as the program
)

// A feed is what a command reads on its standard input.
type feed struct {
	kind  feedKind
	text  string // of feedText
	forms []form // of feedUnknown: what writes it
}

type feedKind uint8

const (
	feedNone    feedKind = iota // the terminal, or a file
	feedText                    // a text that is known
	feedUnknown                 // what another program prints
)

// readCommand reads a text that is given to a shell.
func readCommand(p *syntax.Parser, text string, fold bool) *reading {
	r := &reading{parser: p, bytes: maxReading, fold: fold}
	if len(text) > maxText {
		r.texts = []string{text[:maxText]}
		r.cannotTell("the command is longer than is read")
		return r
	}
	r.read(text, "in the text")
	return r
}

// readArgv reads a command that goes to no shell.
func readArgv(p *syntax.Parser, argv []string, fold bool) *reading {
	r := &reading{parser: p, bytes: maxReading, fold: fold}
	size := 0
	for _, arg := range argv {
		size += len(arg) + 1
	}
	if size > maxText {
		r.cannotTell("the command is longer than is read")
		return r
	}
	r.command(literals(argv), "as given")
	return r
}

func (r *reading) cannotTell(why string) {
	if r.guesses > 0 || len(r.unclear) == maxUnclear {
		return
	}
	for _, known := range r.unclear {
		if known == why {
			return
		}
	}
	r.unclear = append(r.unclear, why)
}

// spend takes n bytes from what may still be made, and reports whether they were there.
func (r *reading) spend(n int) bool {
	if r.bytes -= n; r.bytes >= 0 && len(r.forms) < maxForms {
		return true
	}
	r.guesses, r.bytes = 0, -1
	r.cannotTell("the command is more than can be read")
	return false
}

// enter begins a wrapper or a text within another; leave ends it.
func (r *reading) enter() bool {
	if r.depth++; r.depth <= maxDepth {
		return true
	}
	r.guesses = 0
	r.cannotTell("the command is nested too deeply")
	return false
}

func (r *reading) leave() { r.depth-- }

// read reads a text as a shell would: bash, or what POSIX says of shells.
func (r *reading) read(text, how string) {
	defer r.leave()
	if !r.enter() || !r.spend(len(text)) {
		return
	}
	// Guesses about a command's other words say nothing new about a text among them.
	if alone := r.depth > 1 && len(r.given) == 0 && r.stdin.kind == feedNone; alone && r.guesses > 0 && r.alone[text] {
		return
	} else if alone && r.guesses == 0 {
		if r.alone == nil {
			r.alone = map[string]bool{}
		}
		r.alone[text] = true
	}
	r.texts = append(r.texts, text)
	if nesting(text) > maxNesting {
		r.cannotTell("the command is nested too deeply")
		return
	}
	file, err := r.parse(text, syntax.LangBash)
	posix := false
	if err != nil {
		file, err = r.parse(text, syntax.LangPOSIX)
		posix = err == nil
	}
	if err != nil {
		r.cannotTell("the command cannot be parsed: " + err.Error())
		return
	}
	r.script(file, text, how)
	if !posix && (strings.Contains(text, "[[") || strings.Contains(text, "((")) {
		// A shell that does not know these words executes what stands in them.
		if file, err := r.parse(text, syntax.LangPOSIX); err == nil {
			r.guesses++
			r.script(file, text, how)
			r.guesses--
		}
	}
}

// parse parses a text. The parser's panics, should it have any, are errors: fail closed.
func (r *reading) parse(text string, lang syntax.LangVariant) (file *syntax.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err, r.parser = errParser, syntax.NewParser() // its state may be anything
		}
	}()
	syntax.Variant(lang)(r.parser)
	return r.parser.Parse(strings.NewReader(text), "")
}

type parserError string

func (e parserError) Error() string { return string(e) }

const errParser = parserError("the parser gives up")

// nesting returns how deeply brackets stand within each other, at most; quotes are not
// looked at.
func nesting(text string) int {
	depth, most := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{':
			depth++
			most = max(most, depth)
		case ')', '}':
			depth = max(0, depth-1)
		}
	}
	return most
}

// script reads a parsed text.
func (r *reading) script(file *syntax.File, text, how string) {
	outer := r.vars
	r.vars = settled{}
	if strings.Contains(text, "=") || strings.Contains(text, "for ") || strings.Contains(text, "set ") || strings.Contains(text, "(") || strings.Contains(text, "function ") {
		r.vars = settle(file)
	}
	if len(r.given) > 0 {
		r.vars.positional(r.given[1:])
		r.vars.note("0", r.given[0].text)
	}
	for _, stmt := range file.Stmts {
		r.walk(stmt, how)
	}
	r.vars = outer
}

// walk reads a statement and what is in it.
func (r *reading) walk(n syntax.Node, how string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			return r.stmt(n, how)
		case *syntax.DeclClause:
			r.declare(n, how)
		case *syntax.ProcSubst:
			if n.Op == syntax.CmdOut {
				r.receiver(n, how)
				return false
			}
		}
		return r.bytes >= 0
	})
}

// receiver reads what stands in >(…): something writes to its standard input.
func (r *reading) receiver(p *syntax.ProcSubst, how string) {
	outer := r.stdin
	r.stdin = feed{kind: feedUnknown}
	for _, s := range p.Stmts {
		r.walk(s, how)
	}
	r.stdin = outer
}

// stmt reads a statement, and reports whether the walk goes on into it.
func (r *reading) stmt(s *syntax.Stmt, how string) bool {
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) > 0 {
			outer := r.stdin
			r.stdin = r.redirected(s)
			r.call(c, how)
			r.stdin = outer
		} else {
			r.assignments(c.Assigns, how)
		}
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			for _, redir := range s.Redirs {
				r.walk(redir, how)
			}
			r.pipeline(c, how)
			return false
		}
	default:
		if in := r.redirected(s); c != nil && in.kind != r.stdin.kind {
			outer := r.stdin
			r.stdin = in
			r.walk(c, how)
			for _, redir := range s.Redirs {
				r.walk(redir, how)
			}
			r.stdin = outer
			return false
		}
	}
	return r.bytes >= 0
}

// redirected returns what the statement reads.
func (r *reading) redirected(s *syntax.Stmt) feed {
	in := r.stdin
	for _, redir := range s.Redirs {
		if redir.N != nil && redir.N.Value != "0" {
			continue
		}
		switch redir.Op {
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			in = feed{}
			for _, part := range redir.Word.Parts {
				if sub, ok := part.(*syntax.ProcSubst); ok {
					in = feed{kind: feedUnknown, forms: r.formsOf(sub.Stmts)}
				}
			}
		case syntax.Hdoc, syntax.DashHdoc:
			in = r.bodyOf(redir.Hdoc, true)
		case syntax.WordHdoc:
			in = r.bodyOf(redir.Word, false)
		}
	}
	return in
}

// bodyOf returns the text of a here-document or here-string.
func (r *reading) bodyOf(w *syntax.Word, document bool) feed {
	if w == nil {
		return feed{kind: feedText}
	}
	e := newExpander(r.vars.now(w), 1)
	for _, part := range w.Parts {
		e.part(part, document)
	}
	e.end()
	return feed{kind: feedText, text: joined(e.out)}
}

// formsOf reads statements that stand inside a word, only to know what writes.
func (r *reading) formsOf(stmts []*syntax.Stmt) []form {
	from := len(r.forms)
	r.guesses++
	for _, s := range stmts {
		r.walk(s, "in a substitution")
	}
	r.guesses--
	return r.forms[from:len(r.forms):len(r.forms)]
}

// pipeline reads the stages of a pipeline, each fed by the one before, and writes the
// pipeline in its normal form.
func (r *reading) pipeline(c *syntax.BinaryCmd, how string) {
	outer := r.stdin
	var stages [][]form
	for _, s := range flatten(c) {
		from := len(r.forms)
		r.walk(s, how)
		forms := r.forms[from:len(r.forms):len(r.forms)]
		stages = append(stages, forms)
		if r.bytes < 0 {
			break
		}
		r.stdin = r.printed(s, forms)
	}
	r.stdin = outer
	r.pipe(stages)
}

// flatten returns the stages of a pipeline in order.
func flatten(c *syntax.BinaryCmd) []*syntax.Stmt {
	var back []*syntax.Stmt
	s := &syntax.Stmt{Cmd: c}
	for {
		b, ok := s.Cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll || s.Negated {
			break
		}
		back = append(back, b.Y)
		s = b.X
	}
	stages := []*syntax.Stmt{s}
	for i := len(back) - 1; i >= 0; i-- {
		stages = append(stages, back[i])
	}
	return stages
}

// pipe adds the normal forms of a pipeline: every form of one stage with every form of the
// others, up to a limit.
func (r *reading) pipe(stages [][]form) {
	all := []string{""}
	for i, forms := range stages {
		if len(forms) == 0 {
			continue
		}
		if len(all)*len(forms) > maxPipes {
			// As written, and without any wrapper.
			forms = []form{forms[0], forms[len(forms)-1]}
		}
		if len(all)*len(forms) > maxPipes {
			forms = forms[1:]
		}
		var next []string
		for _, before := range all {
			for _, f := range forms {
				if !r.spend(len(before) + len(f.text)) {
					return
				}
				if i > 0 && before != "" {
					next = append(next, before+" | "+f.text)
				} else {
					next = append(next, f.text)
				}
			}
		}
		all = next
	}
	r.pipes = append(r.pipes, all...)
}

// printed returns what a stage prints: the text of echo, printf and of cat with a
// here-document; nobody knows of others.
func (r *reading) printed(s *syntax.Stmt, forms []form) feed {
	unknown := feed{kind: feedUnknown, forms: forms}
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return unknown
	}
	ws, _ := words(c.Args, r.vars.now(c))
	if len(ws) == 0 {
		return unknown
	}
	if name := path.Base(ws[0].text); name == "cat" && len(ws) == 1 {
		if in := r.redirected(s); in.kind == feedText {
			return in
		}
		return unknown
	}
	for len(ws) > 1 && (ws[0].text == "command" || ws[0].text == "builtin") {
		ws = ws[1:]
	}
	if text, ok := echoed(ws); ok {
		return feed{kind: feedText, text: text}
	}
	return unknown
}

// echoed returns what echo or printf prints, where that is known.
func echoed(ws []word) (string, bool) {
	name := path.Base(ws[0].text)
	if name != "echo" && name != "printf" {
		return "", false
	}
	var args []string
	for _, w := range ws[1:] {
		if !w.known && w.text == w.pre+substitution+w.suf {
			return "", false
		}
		if len(args) == 0 && name == "echo" && strings.HasPrefix(w.text, "-") && strings.Trim(w.text, "-neE") == "" {
			continue
		}
		args = append(args, w.text)
	}
	if name == "printf" {
		return printed(args), true
	}
	text := strings.Join(args, " ")
	if strings.Contains(text, `\`) {
		text = text + "\n" + ansi(text) // whether echo decodes depends on the shell
	}
	return text, true
}

// printed returns roughly what printf prints.
func printed(args []string) string {
	if len(args) == 0 {
		return ""
	}
	format, rest := ansi(args[0]), args[1:]
	if !strings.Contains(format, "%") {
		return format
	}
	var b strings.Builder
	for first := true; first || len(rest) > 0; first = false {
		before := len(rest)
		for i := 0; i < len(format); i++ {
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			for i++; i < len(format)-1 && strings.IndexByte("0123456789.-+# ", format[i]) >= 0; i++ {
			}
			switch {
			case format[i] == '%':
				b.WriteByte('%')
			case len(rest) > 0 && format[i] == 'b':
				b.WriteString(ansi(rest[0]))
				rest = rest[1:]
			case len(rest) > 0:
				b.WriteString(rest[0])
				rest = rest[1:]
			}
		}
		if len(rest) == before {
			break
		}
	}
	return b.String()
}
