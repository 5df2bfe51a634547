package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// A lineMatcher finds the lines of a text that a pattern fits, each line by itself.
type lineMatcher struct {
	literal []byte         // stands in every line that fits; all there is to a text
	line    *regexp.Regexp // of a pattern: decides about one line
	whole   *regexp.Regexp // finds where in many lines one may fit; nil where that cannot be said
}

// Limits of what is looked for: with a pattern of so many steps a piece of text takes at most
// some seconds, and no longer piece is looked at without asking whether anybody still waits.
const (
	maxQuery = 4 << 10 // bytes of a text or a pattern
	maxSteps = 2000    // of a pattern: see regexp/syntax.Prog
	piece    = 8 << 10
)

// newLineMatcher returns an error that quotes nothing of the query.
func newLineMatcher(query string, regex bool) (*lineMatcher, error) {
	if len(query) > maxQuery {
		return nil, fmt.Errorf("it has more than %d bytes", maxQuery)
	}
	if !regex {
		return &lineMatcher{literal: []byte(query)}, nil
	}
	if err := checkPattern(query); err != nil {
		return nil, err
	}
	line, err := regexp.Compile(query)
	if err != nil {
		return nil, errors.New("it cannot be compiled")
	}
	m := &lineMatcher{line: line}
	many := "(?m:" + query + ")"
	tree, err := syntax.Parse(many, syntax.Perl)
	if err != nil {
		return m, nil // as in a query that closes a group and opens one
	}
	m.literal = longest(tree)
	if !ofText(tree) {
		m.whole, _ = regexp.Compile(many)
	}
	return m, nil
}

// checkPattern refuses what is no regular expression, and what takes too many steps.
func checkPattern(query string) error {
	tree, err := syntax.Parse(query, syntax.Perl)
	if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("it is no regular expression: %s", wrong.Code)
	}
	if err != nil {
		return errors.New("it is no regular expression")
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return errors.New("it cannot be compiled")
	}
	if n := len(program.Inst); n > maxSteps {
		return fmt.Errorf("it takes %d steps; up to %d are taken", n, maxSteps)
	}
	return nil
}

// ofText reports whether an expression is about where a text begins or ends: among many
// lines that is not where a line does.
func ofText(re *syntax.Regexp) bool {
	if re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return true
	}
	for _, sub := range re.Sub {
		if ofText(sub) {
			return true
		}
	}
	return false
}

// longest returns the longest literal that stands in every text that an expression fits.
func longest(re *syntax.Regexp) []byte {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []byte(string(re.Rune))
		}
	case syntax.OpCapture, syntax.OpPlus:
		return longest(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return longest(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []byte
		for _, sub := range re.Sub {
			if l := longest(sub); len(l) > len(best) {
				best = l
			}
		}
		return best
	}
	return nil
}

// lines calls yield for every line that fits, with its number from 1 and without its end,
// until that returns false, or ctx ends: what was not looked at then is not said.
func (m *lineMatcher) lines(ctx context.Context, text []byte, yield func(number int, line []byte) bool) {
	number, counted := 1, 0
	// Where lines end in two bytes, $ among many is not where one line ends.
	plain := m.whole != nil && bytes.IndexByte(text, '\r') < 0
	for at := 0; at < len(text) && ctx.Err() == nil; {
		from := m.next(ctx, text[at:], plain)
		if from < 0 {
			return
		}
		from += at
		if from == len(text) && text[from-1] == '\n' {
			return // behind the last line
		}
		begin := bytes.LastIndexByte(text[:from], '\n') + 1
		end := len(text)
		if n := bytes.IndexByte(text[from:], '\n'); n >= 0 {
			end = from + n
		}
		line := bytes.TrimSuffix(text[begin:end], []byte{'\r'})
		if m.fits(ctx, line) {
			number += bytes.Count(text[counted:begin], []byte{'\n'})
			counted = begin
			if !yield(number, line) {
				return
			}
		}
		at = end + 1
	}
}

// next returns where the next line may be that fits, or -1. text begins where a line does.
func (m *lineMatcher) next(ctx context.Context, text []byte, plain bool) int {
	at := 0
	if m.literal != nil {
		if at = bytes.Index(text, m.literal); at < 0 || m.line == nil {
			return at
		}
		at = bytes.LastIndexByte(text[:at], '\n') + 1
	}
	// With a literal that a line needs, the line that has it is the one to look at.
	if !plain || m.literal != nil {
		return at
	}
	for at < len(text) && ctx.Err() == nil {
		end := len(text)
		if end-at > piece {
			n := bytes.LastIndexByte(text[at:at+piece], '\n')
			if n < 0 {
				return at // one long line, which is the one to look at
			}
			end = at + n + 1
		}
		if loc := m.whole.FindIndex(text[at:end]); loc != nil {
			return at + loc[0]
		}
		at = end
	}
	return -1
}

func (m *lineMatcher) fits(ctx context.Context, line []byte) bool {
	switch {
	case m.line == nil:
		return bytes.Contains(line, m.literal)
	case len(line) <= piece:
		return m.line.Match(line)
	}
	return m.line.MatchReader(&interruptible{ctx: ctx, r: bytes.NewReader(line)})
}

// interruptible is a text that ends when nobody waits any more for what is found in it.
type interruptible struct {
	ctx  context.Context
	r    *bytes.Reader
	read int
}

// ReadRune implements io.RuneReader.
func (i *interruptible) ReadRune() (rune, int, error) {
	if i.read++; i.read%1024 == 0 && i.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return i.r.ReadRune()
}

// maxLine is how many bytes of a line are shown.
const maxLine = 4 << 10

// shown is a line as it is answered with: cut, and UTF-8.
func shown(line []byte) string {
	const most = maxLine
	if len(line) > most {
		line = line[:most]
		// Not in the middle of a character.
		for range utf8.UTFMax - 1 {
			if r, n := utf8.DecodeLastRune(line); r != utf8.RuneError || n != 1 {
				break
			}
			line = line[:len(line)-1]
		}
	}
	return string(bytes.ToValidUTF8(line, []byte(string(utf8.RuneError))))
}
