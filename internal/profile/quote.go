package profile

import (
	"fmt"
	"strings"
	"unicode"
)

// quote returns text as a YAML scalar on one line that reads back as the same text in
// every place of a block or a flow value. Ordinary paths and words stay as they are.
func quote(text string) string {
	if plain(text) {
		return text
	}
	return doubleQuote(text)
}

// plain reports whether text needs no quotes: it is a path, a word or an option of
// letters, digits and a few marks that mean nothing to YAML, and no word that does.
func plain(text string) bool {
	body := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "-")
	switch strings.ToLower(body) {
	case "", "~", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	rooted := strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~/")
	if first := rune(body[0]); !rooted && !('a' <= first && first <= 'z' || 'A' <= first && first <= 'Z') {
		return false
	}
	for _, r := range body {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/~._-+@=", r) {
			return false
		}
	}
	return true
}

// doubleQuote writes what a reader or a terminal could take for something else as an
// escape of YAML 1.2, 5.7.
func doubleQuote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
