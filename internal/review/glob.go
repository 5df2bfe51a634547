package review

import (
	"regexp"
	"strings"
)

// globMatch reports whether a shell pattern matches the whole of text: * any characters, ?
// one, [a-z] and [!a-z] one of them, \ the next as it is.
func globMatch(pattern, text string) bool {
	re, err := regexp.Compile(globRegexp(pattern))
	return err != nil || re.MatchString(text)
}

// globRegexp returns the regular expression of the glob of a command rule. There * stands
// for any characters: a command has no directories.
func globRegexp(pattern string) string {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '[':
			end := classEnd(pattern[i:])
			if end < 0 {
				b.WriteString(`\[`)
				continue
			}
			b.WriteString(class(pattern[i+1 : i+end]))
			i += end
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			if c < 0x80 {
				b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			} else {
				b.WriteByte(c)
			}
		}
	}
	b.WriteString(`\z`)
	return b.String()
}

// classEnd returns where the class that s begins with is closed, or -1.
func classEnd(s string) int {
	from := 1
	if from < len(s) && (s[from] == '!' || s[from] == '^') {
		from++
	}
	from++ // a bracket that comes first is one of the class
	if from >= len(s) {
		return -1
	}
	end := strings.IndexByte(s[from:], ']')
	if end < 0 {
		return -1
	}
	return from + end
}

// class returns the regular expression of what stands between brackets.
func class(s string) string {
	var b strings.Builder
	b.WriteByte('[')
	if s[0] == '!' || s[0] == '^' {
		b.WriteByte('^')
		s = s[1:]
	}
	for _, r := range s {
		if strings.ContainsRune(`[]\^&~`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	b.WriteByte(']')
	return b.String()
}
