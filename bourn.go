// Package bourn holds the nouns that every part of Bourn shares: names, ids and
// error codes. It imports nothing but the standard library and decides nothing.
//
// The words mean what docs/vocabulary.md says, here and in every other package,
// in YAML, JSON, SQL and on the command line alike.
package bourn

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// An AgentName names an agent: a program with a profile, which runs under a seal.
// It is a single path element, so it can name the agent's directory.
type AgentName string

// maxAgentName is the longest agent name, in bytes; a socket path that holds one
// must stay below the 107 bytes of sun_path (unix(7)).
const maxAgentName = 64

// ParseAgentName returns s as an agent name. A name is 1 to 64 characters of
// a-z, 0-9, '-' and '_', and begins with a letter or a digit; anything else is
// ErrInvalid.
func ParseAgentName(s string) (AgentName, error) {
	if s == "" || len(s) > maxAgentName {
		return "", fmt.Errorf("%w agent name %q: must have 1 to %d characters", ErrInvalid, s, maxAgentName)
	}
	for i, r := range s {
		alnum := 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
		if alnum || i > 0 && (r == '-' || r == '_') {
			continue
		}
		return "", fmt.Errorf("%w agent name %q: use a-z, 0-9, '-' and '_', beginning with a letter or a digit", ErrInvalid, s)
	}
	return AgentName(s), nil
}

// Printable returns s with everything a terminal could act on escaped: control
// characters, bytes that are not UTF-8, and the Unicode marks that reorder or
// hide text. What is printable stays as it is, so ordinary paths read as written.
func Printable(s string) string {
	clean := true
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r == 0xfffd || hidden(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0xfffd && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// hidden reports whether r is a C1 control or a format character that changes how
// the text around it is shown (bidirectional overrides, zero-width characters, BOM,
// line and paragraph separators), as in CVE-2021-42574.
func hidden(r rune) bool {
	switch {
	case 0x80 <= r && r <= 0x9f, 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e,
		0x2060 <= r && r <= 0x2069, r == 0xfeff, r == 0x00ad, r == 0x061c, 0xe0000 <= r && r <= 0xe007f:
		return true
	}
	return false
}
