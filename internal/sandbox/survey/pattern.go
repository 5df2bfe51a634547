package survey

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// A Pattern is an absolute glob in the syntax of doublestar, case-sensitive: /w/**/.env, /w/*/id_{rsa,ed25519}. A "**" component is
// any number of directories, also none. The zero value matches nothing.
//
// It is run as a set of states, one component at a time, so that a walk enters only what can still match:
//
//	/  w  /  **  /  .env          state 0 -w-> 1 -> 2 -.env-> 3 (all)
//	                                           ↺ any name
//
// The states may hold more than the pattern, never less: a hit is confirmed with doublestar.Match on the whole path.
type Pattern struct {
	text     string
	segments []segment
}

// maxSegments bounds the components of a pattern that are told apart: states are the bits of one word.
const maxSegments = 62

// ParsePattern refuses what is no valid glob and what can match no path: relative text, empty, "." and ".." components.
func ParsePattern(text string) (Pattern, error) {
	if !doublestar.ValidatePattern(text) || strings.Contains(text, "\x00") {
		return Pattern{}, fmt.Errorf("cannot parse pattern %q: no valid glob", text)
	}
	if !strings.HasPrefix(text, "/") {
		return Pattern{}, fmt.Errorf("cannot parse pattern %q: not absolute", text)
	}
	if path.Clean(text) != text {
		return Pattern{}, fmt.Errorf("cannot parse pattern %q: write it as %q", text, path.Clean(text))
	}
	p := Pattern{text: text}
	parts := strings.Split(text[1:], "/")
	if text == "/" {
		parts = nil
	}
	whole := !crosses(text) && !slices.ContainsFunc(parts, starsInBraces)
	for i, part := range parts {
		if i == maxSegments || !whole && strings.ContainsAny(part, `*?[{\`) {
			p.segments = append(p.segments, segment{kind: rest})
			break
		}
		p.segments = append(p.segments, newSegment(part))
	}
	return p, nil
}

func (p Pattern) String() string { return p.text }

// Match reports whether the absolute path matches, by name alone.
func (p Pattern) Match(path string) bool {
	return p.text != "" && doublestar.MatchUnvalidated(p.text, path)
}

// Base is the directory above the first component that is not literal: every match lies at or below it. Expand does not follow links,
// so a caller resolves Base and, where it leads elsewhere, expands the rebased pattern.
func (p Pattern) Base() string {
	base, _ := p.split()
	return base
}

// split separates Base, its escapes taken out, from the rest. doublestar.SplitPattern takes
// an escaped comma for the beginning of the rest.
func (p Pattern) split() (base, rest string) {
	slash := 0
	var literal, upToSlash []byte
	for i := 0; i < len(p.text); i++ {
		c := p.text[i]
		if strings.IndexByte("*?[{", c) >= 0 {
			break
		}
		if c == '/' {
			slash, upToSlash = i, append([]byte(nil), literal...)
		}
		if c == '\\' && i+1 < len(p.text) {
			i++
			c = p.text[i]
		}
		literal = append(literal, c)
	}
	if len(upToSlash) == 0 {
		return "/", p.text[slash+1:]
	}
	return string(upToSlash), p.text[slash+1:]
}

// Rebase returns p with dir, an absolute clean path, in the place of Base.
func (p Pattern) Rebase(dir string) (Pattern, error) {
	_, rest := p.split()
	return ParsePattern(join(Escape(dir), rest))
}

// Escape returns the pattern text that matches path and nothing else (but doublestar takes all bytes that are not UTF-8 for equal).
func Escape(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if strings.IndexByte(`*?[]{}\,`, path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// crosses reports whether something in the pattern could match a slash, or a brace hold one: then components cannot be told apart. It
// may err on that side. (doublestar lets a class such as [^a] match a slash.)
func crosses(text string) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; text[i] == '/' {
				return true
			}
		case '{':
			depth++
		case '}':
			depth--
		case '/':
			if depth > 0 {
				return true
			}
		case '[':
			end := strings.IndexByte(text[i:], ']')
			if end < 0 || !plainClass(text[i+1:i+end]) {
				return true
			}
			i += end
		}
	}
	return false
}

// starsInBraces reports whether the choices of a brace could leave "**" of a component, as those of {*,a}* do. It may err on that side.
func starsInBraces(part string) bool {
	if strings.Count(part, "*") < 2 {
		return false
	}
	depth, start := 0, 0
	for i := range len(part) {
		if c := part[i]; c == '{' || c == '}' || c == ',' {
			if depth > 0 && strings.Trim(part[start:i], "*") == "" {
				return true
			}
			start = i + 1
			switch c {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
	}
	return false
}

// plainClass reports whether the inside of a class holds only letters, digits, dots, underscores and ranges between the first two.
func plainClass(s string) bool {
	for i := range len(s) {
		switch {
		case alphanumeric(s[i]), s[i] == '.', s[i] == '_':
		case s[i] == '-' && (i == 0 || i == len(s)-1 || alphanumeric(s[i-1]) && alphanumeric(s[i+1])):
		default:
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

type kind uint8

const (
	literal kind = iota // text
	affix               // text*suffix
	glob                // anything else within a component, for doublestar to judge
	stars               // **
	rest                // the rest of a pattern that crosses components: runs as **, confirmed by the whole path
)

// A segment is a component of a pattern.
type segment struct {
	kind         kind
	text, suffix string
}

func newSegment(text string) segment {
	if text == "**" {
		return segment{kind: stars}
	}
	plain, suffix := text, ""
	if i := strings.IndexAny(text, `*?[{\`); i >= 0 {
		plain, suffix = text[:i], text[i:]
	}
	switch {
	case !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError): // for doublestar all invalid bytes are equal
		return segment{kind: glob, text: text}
	case suffix == "":
		return segment{kind: literal, text: text}
	case suffix[0] == '*' && !strings.ContainsAny(suffix[1:], `*?[]{}\`):
		return segment{kind: affix, text: plain, suffix: suffix[1:]}
	}
	if word, ok := unescape(text); ok {
		return segment{kind: literal, text: word}
	}
	return segment{kind: glob, text: text}
}

// unescape returns the one name that text matches, if it holds no wildcard.
func unescape(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if strings.IndexByte(`*?[{`, text[i]) >= 0 {
			return "", false
		}
		b.WriteByte(text[i])
	}
	return b.String(), true
}

func (s *segment) match(name []byte) bool {
	switch s.kind {
	case literal:
		return string(name) == s.text
	case affix:
		return len(name) >= len(s.text)+len(s.suffix) && string(name[:len(s.text)]) == s.text &&
			string(name[len(name)-len(s.suffix):]) == s.suffix
	case glob:
		return doublestar.MatchUnvalidated(s.text, string(name))
	case stars, rest:
		return true
	}
	return false
}

// closure adds to set the states that are reached without a name, as ** does when it is no directory.
func (p *Pattern) closure(set uint64) uint64 {
	for i := range p.segments {
		if set&(1<<i) != 0 && p.segments[i].kind >= stars {
			set |= 1 << (i + 1)
		}
	}
	return set
}

// next returns the states after one more component.
func (p *Pattern) next(set uint64, name []byte) uint64 {
	var to uint64
	for i := range p.segments {
		s := &p.segments[i]
		switch {
		case set&(1<<i) == 0:
		case s.kind >= stars:
			to |= 1 << i
		case s.match(name):
			to |= 1 << (i + 1)
		}
	}
	return p.closure(to)
}

// accepts reports whether the states hold the end of the pattern.
func (p *Pattern) accepts(set uint64) bool { return set&(1<<len(p.segments)) != 0 }

// opaque reports whether its components cannot be told apart.
func (p *Pattern) opaque() bool {
	return len(p.segments) > 0 && p.segments[len(p.segments)-1].kind == rest
}
