package profile

import (
	"fmt"
	"path"
	"strings"
)

// A Path is a path of a profile: absolute, or "~" or below "~/". It has no "..".
type Path struct {
	Text string // as the file has it
	Pos  Pos
}

// Clean returns the path with repeated and trailing slashes and "." components taken
// out. Two paths of a profile are the same when their clean texts are equal.
func (p Path) Clean() string { return clean(p.Text) }

// A Deny is an entry of filesystem.deny: a path, or a pattern of paths.
type Deny struct {
	Path // the text has its escapes; Literal takes them out
	// Empty shows a denied directory as an empty one, for programs that stop at one that
	// cannot be read.
	Empty bool
	// Placeholder lets an empty object stand there, during a run, where nothing does.
	Placeholder bool
	Glob        bool // the text has an unescaped * ? [ or {, in the syntax of doublestar
}

// Literal returns the clean path that an entry without a pattern denies, its escapes
// resolved. ok is false for a pattern.
func (d Deny) Literal() (p string, ok bool) {
	if d.Glob {
		return "", false
	}
	return clean(Unescape(d.Text)), true
}

// EscapePattern returns the deny entry that denies exactly the path: what a pattern
// would give a meaning to is preceded by a backslash.
func EscapePattern(p string) string {
	var b strings.Builder
	for i := range len(p) {
		if strings.IndexByte(`*?[]{}\`, p[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// maxPath is the longest path, in bytes, that a system call takes: PATH_MAX of
// linux/limits.h less the final NUL.
const maxPath = 4095

func clean(text string) string {
	rest, home := strings.CutPrefix(text, "~")
	if !home {
		return path.Clean(text)
	}
	if rest = path.Clean("/" + rest); rest == "/" {
		return "~"
	}
	return "~" + rest
}

// Unescape returns the path that an entry without a pattern means: each backslash taken out,
// what follows it kept.
func Unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// checkPath returns what is wrong with the text of a path that is granted, or "".
func checkPath(text string) string {
	if bad := checkAnchored(text); bad != "" {
		return bad
	}
	if strings.Contains(text, "*") {
		return fmt.Sprintf("%q is a pattern: read and write take paths, not patterns; only deny takes patterns", text)
	}
	return checkComponents(text, strings.Split(text, "/"))
}

// checkDeny returns what is wrong with the text of a deny entry, or "".
func checkDeny(text string) string {
	if bad := checkAnchored(text); bad != "" {
		return bad
	}
	if bad := checkPattern(text); bad != "" {
		return fmt.Sprintf("pattern %q %s", text, bad)
	}
	// An alternative of a pattern may hold a component of its own.
	inAlternative := func(r rune) bool { return strings.ContainsRune("/{},", r) }
	return checkComponents(text, strings.FieldsFunc(Unescape(text), inAlternative))
}

func checkAnchored(text string) string {
	switch {
	case text == "":
		return "a path cannot be empty"
	case len(text) > maxPath:
		return fmt.Sprintf("a path cannot be longer than %d bytes", maxPath)
	case strings.ContainsRune(text, 0):
		return fmt.Sprintf("path %q has a NUL character", text)
	case text == "~", text[0] == '/', strings.HasPrefix(text, "~/"):
		return ""
	case text[0] == '~':
		return fmt.Sprintf("path %q is in another person's home; begin it with / or ~/", text)
	}
	return fmt.Sprintf("path %q is relative; begin it with / or ~/", text)
}

func checkComponents(text string, components []string) string {
	for _, c := range components {
		if c == ".." {
			return fmt.Sprintf("path %q has a component \"..\"; write the path that is meant", text)
		}
	}
	return ""
}

// IsPattern reports whether a deny entry has an unescaped character that begins a pattern.
func IsPattern(text string) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '*', '?', '[', '{':
			return true
		}
	}
	return false
}

// checkPattern returns what is wrong with the syntax of a pattern, or "". It accepts no
// pattern that doublestar.ValidatePattern refuses.
func checkPattern(text string) string {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return "ends in a backslash"
			}
		case '[':
			n := classLen(text[i:])
			if n == 0 {
				return `has a bad [ ] class; write \[ for the character "["`
			}
			i += n - 1
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				return `has a "}" without its "{"; write \} for the character`
			}
		}
	}
	if depth > 0 {
		return `has a "{" without its "}"; write \{ for the character`
	}
	return ""
}

// classLen returns the length of the character class that text begins with, and 0
// where it is empty, does not end, or has a slash, which no class can match.
func classLen(text string) int {
	i := 1
	if i < len(text) && (text[i] == '^' || text[i] == '!') {
		i++
	}
	for first := i; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '/':
			return 0
		case '-':
			if i == first || i+1 < len(text) && text[i+1] == ']' {
				return 0 // doublestar wants a range to have both ends
			}
		case ']':
			if i == first {
				return 0
			}
			return i + 1
		}
	}
	return 0
}
