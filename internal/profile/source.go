package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"bourn"
)

// maxSource is the longest profile, in bytes.
const maxSource = 1 << 20

// A Pos is a place in a file; both numbers count from 1, columns in characters.
type Pos struct{ Line, Column int }

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// compare orders positions as they come in the file.
func (p Pos) compare(q Pos) int {
	if p.Line != q.Line {
		return p.Line - q.Line
	}
	return p.Column - q.Column
}

// A problem is one thing wrong with a profile.
type problem struct {
	file string
	pos  Pos
	text string
}

func (p problem) Error() string {
	return fmt.Sprintf("%s:%s: %s", bourn.Printable(p.file), p.pos, p.text)
}

func (p problem) Unwrap() error { return bourn.ErrInvalid }

type problemList []problem

// join returns the problems as one error, sorted, a line each.
func (l problemList) join() error {
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b problem) int { return a.pos.compare(b.pos) })
	errs := make([]error, len(l))
	for i, p := range l {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// A source is the text of a profile in which lines end in "\n" or "\r\n" for every
// reader alike, so that a line and a column name one byte.
type source struct {
	name  string
	text  string
	lines []int // where each begins
	chars []int // how many characters begin before each block of blockLen bytes
}

// blockLen bounds what is counted to find a position: a line may be as long as the text.
const blockLen = 64

// newSource returns the text as a source, or everything in it that is not plain text.
func newSource(name string, src []byte) (*source, problemList) {
	s := &source{name: name, text: string(src), lines: []int{0}}
	if len(src) > maxSource {
		return nil, problemList{s.problem(Pos{1, 1}, "a profile cannot be longer than %d bytes", maxSource)}
	}
	s.measure()
	if problems := s.check(); problems != nil {
		return nil, problems
	}
	return s, nil
}

func (s *source) problem(pos Pos, format string, args ...any) problem {
	return problem{s.name, pos, fmt.Sprintf(format, args...)}
}

// measure fills in lines and chars.
func (s *source) measure() {
	chars := 0
	for i := range len(s.text) {
		if i%blockLen == 0 {
			s.chars = append(s.chars, chars)
		}
		if utf8.RuneStart(s.text[i]) {
			chars++
		}
		if s.text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	s.chars = append(s.chars, chars)
}

// charsBefore returns how many characters begin before a byte.
func (s *source) charsBefore(off int) int {
	block := off / blockLen
	n := s.chars[block]
	for i := block * blockLen; i < off; i++ {
		if utf8.RuneStart(s.text[i]) {
			n++
		}
	}
	return n
}

// offset returns the byte at which a position of the YAML reader lies.
func (s *source) offset(line, column int) int {
	if line < 1 || line > len(s.lines) {
		return len(s.text)
	}
	char := s.charsBefore(s.lines[line-1]) + max(column-1, 0)
	// The first block before which more characters begin is after the one looked for.
	block, _ := slices.BinarySearch(s.chars, char+1)
	off := (block - 1) * blockLen
	for n := s.chars[block-1]; off < len(s.text); off++ {
		if utf8.RuneStart(s.text[off]) {
			if n == char {
				break
			}
			n++
		}
	}
	return min(off, s.lineEnd(s.lines[line-1]))
}

// line returns the index of the line of a byte.
func (s *source) line(off int) int {
	line, found := slices.BinarySearch(s.lines, off)
	if !found {
		line--
	}
	return line
}

// pos returns the position of a byte.
func (s *source) pos(off int) Pos {
	line := s.line(off)
	return Pos{line + 1, s.charsBefore(off) - s.charsBefore(s.lines[line]) + 1}
}

// check returns a problem for each line that has a character the form does not allow.
func (s *source) check() problemList {
	var problems problemList
	for i, begin := range s.lines {
		end := len(s.text)
		if i+1 < len(s.lines) {
			end = s.lines[i+1]
		}
		if off, bad := checkLine(s.text[begin:end], i == 0); bad != "" {
			problems = append(problems, s.problem(s.pos(begin+off), "%s", bad))
		}
	}
	return problems
}

// checkLine returns the first bad character of a line: where, and what to say.
func checkLine(line string, first bool) (int, string) {
	if line != "" && line[0] == '%' {
		return 0, "YAML directives are not allowed in a profile"
	}
	comment := commentStart(line)
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch bad := badRune(r, size, line[i:]); {
		case bad != "":
			return i, bad
		case r == 0xfeff && first && i == 0:
			return i, "byte order mark; save the file as UTF-8 without one"
		case r == 0xfeff:
			return i, "character U+FEFF is not allowed; write it as an escape in double quotes"
		case r == '\t' && i < comment:
			return i, `tab; indent with spaces, and write "\t" in double quotes for the character`
		}
		i += size
	}
	return 0, ""
}

// commentStart returns where the first thing that can be a comment begins in a line.
// A "#" inside quotes counts: there a tab does no harm.
func commentStart(line string) int {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ') {
			return i
		}
	}
	return len(line)
}

// badRune says why the character that rest begins with is not allowed, or "". The YAML
// reader ends a line at U+0085, U+2028 and U+2029 and at a lone carriage return, and
// editors do not.
func badRune(r rune, size int, rest string) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf("byte 0x%02x is not UTF-8", rest[0])
	case r == '\r' && !strings.HasPrefix(rest, "\r\n"):
		return "carriage return that no newline follows"
	case r < 0x20 && r != '\t' && r != '\n' && r != '\r', 0x7f <= r && r <= 0x9f,
		r == 0x2028, r == 0x2029, r == 0xfffe, r == 0xffff:
		return fmt.Sprintf("character %U is not allowed; write it as an escape in double quotes", r)
	}
	return ""
}
