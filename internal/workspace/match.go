package workspace

import (
	"bytes"
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

func newLineMatcher(query string, regex bool) (*lineMatcher, error) {
	if !regex {
		return &lineMatcher{literal: []byte(query)}, nil
	}
	line, err := regexp.Compile(query)
	if err != nil {
		return nil, err
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
// until that returns false.
func (m *lineMatcher) lines(text []byte, yield func(number int, line []byte) bool) {
	number, counted := 1, 0
	// Where lines end in two bytes, $ among many is not where one line ends.
	plain := m.whole != nil && bytes.IndexByte(text, '\r') < 0
	for at := 0; at < len(text); {
		from := m.next(text[at:], plain)
		if from < 0 {
			return
		}
		from += at
		begin := bytes.LastIndexByte(text[:from], '\n') + 1
		end := len(text)
		if n := bytes.IndexByte(text[from:], '\n'); n >= 0 {
			end = from + n
		}
		line := bytes.TrimSuffix(text[begin:end], []byte{'\r'})
		if m.fits(line) {
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
func (m *lineMatcher) next(text []byte, plain bool) int {
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
	loc := m.whole.FindIndex(text)
	if loc == nil {
		return -1
	}
	return loc[0]
}

func (m *lineMatcher) fits(line []byte) bool {
	if m.line == nil {
		return bytes.Contains(line, m.literal)
	}
	return m.line.Match(line)
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
