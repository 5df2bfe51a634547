package run

import (
	"path"
	"slices"
	"strings"

	"bourn/internal/profile"
)

// A claudePath is a path of a Claude Code settings file: a pattern as in gitignore(5), and
// where it begins.
//
//	//p     the root of the file system
//	~/p     the home
//	/p      where the settings file belongs: the project, or ~/.claude for a person's own
//	p, ./p  the working directory, here the project; one name alone at any depth
//
// In the sandbox block /p is from the root, and what is relative begins where the settings
// file belongs (settings reference, "sandbox path prefixes").
type claudePath struct {
	anchor     string   // absolute, or "~"
	components []string // without a "**" at the end; empty is all of the anchor
	floating   bool     // at any depth below the anchor
	climbs     bool     // it begins with ".."
	whole      bool     // it names what lies below, not the directory itself
	bad        string   // why it cannot be translated
}

// anchors are the directories at which relative paths of a settings file begin.
type anchors struct {
	project string // of permission rules
	source  string // of permission rules that begin with /, and of the sandbox block
}

// rulePath reads the path of a permission rule.
func (a anchors) rulePath(text string) claudePath {
	switch {
	case strings.HasPrefix(text, "//"):
		return newClaudePath("/", text, false)
	case text == "~", strings.HasPrefix(text, "~/"):
		return newClaudePath("~", text[1:], false)
	case strings.HasPrefix(text, "/"):
		return newClaudePath(a.source, text, false)
	}
	return newClaudePath(a.project, text, true)
}

// sandboxPath reads a path of the sandbox block.
func (a anchors) sandboxPath(text string) claudePath {
	switch {
	case strings.HasPrefix(text, "/"):
		return newClaudePath("/", text, false)
	case text == "~", strings.HasPrefix(text, "~/"):
		return newClaudePath("~", text[1:], false)
	}
	return newClaudePath(a.source, text, false)
}

func newClaudePath(anchor, text string, relative bool) claudePath {
	p := claudePath{anchor: anchor}
	if trimmed := strings.TrimRight(text, " "); !strings.HasSuffix(trimmed, `\`) {
		text = trimmed
	}
	for part := range strings.SplitSeq(text, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			p.components = append(p.components, part)
		case len(p.components) == 0:
			p.anchor, p.climbs = path.Dir(p.anchor), true
			if anchor == "~" {
				p.bad = `it leaves the home by ".."; write the path that is meant`
			}
		case magic(p.components[len(p.components)-1]):
			p.bad = `a ".." after a pattern; write the path that is meant`
		default:
			p.components = p.components[:len(p.components)-1]
		}
		if strings.Contains(part, "[:") {
			p.bad = "bourn's patterns have no classes like [[:alpha:]]"
		}
	}
	p.stripBelow(relative)
	p.floating = relative && !p.climbs && len(p.components) == 1
	return p
}

// stripBelow takes the end away that names everything below a directory.
func (p *claudePath) stripBelow(relative bool) {
	for n := len(p.components); n > 0; n = len(p.components) {
		last := p.components[n-1]
		all := last == "**" || last == "*" && (n > 1 && p.components[n-2] == "**" || n == 1 && relative)
		if !all {
			return
		}
		p.components, p.whole = p.components[:n-1], true
	}
}

// denies returns the entries of filesystem.deny that close at least what the pattern
// matches and all below it.
func (p claudePath) denies() []string {
	base := p.anchor
	if base != "~" {
		base = strings.TrimSuffix(profile.EscapePattern(base), "/")
	}
	if len(p.components) == 0 {
		switch {
		case base == "":
			return []string{"/"}
		case p.whole:
			return []string{base + "/*"}
		}
		return []string{base}
	}
	if p.floating {
		base += "/**"
	}
	literal, choice := base, base
	for _, c := range p.components {
		literal += "/" + escapeBraces(c)
		choice += "/" + c
	}
	if choice != literal && strings.Contains(choice, ",") && bracesClose(p.components) {
		// To gitignore a brace is a character. Whoever writes one means a choice: both are
		// closed.
		return []string{literal, choice}
	}
	return []string{literal}
}

// plainDenies is denies for what is no valid pattern: Claude Code guards exactly that path.
func (p claudePath) plainDenies() []string {
	q := p
	q.components = nil
	for _, c := range p.components {
		q.components = append(q.components, profile.EscapePattern(c))
	}
	return q.denies()
}

// path returns the one path that the pattern names with everything below it, and the reason
// where it is none.
func (p claudePath) path() (at, bad string) {
	switch {
	case p.bad != "":
		return "", p.bad
	case slices.ContainsFunc(p.components, magic):
		return "", "a grant names one path and everything below it; only denies take patterns"
	}
	return p.prefix(), ""
}

// prefix is the path before the first component that is a pattern.
func (p claudePath) prefix() string {
	at := p.anchor
	for _, c := range p.components {
		if magic(c) {
			break
		}
		at = strings.TrimSuffix(at, "/") + "/" + profile.Unescape(c)
	}
	return at
}

// reach is the directory that holds all that the pattern matches, the denied path itself
// where there is no pattern.
func (p claudePath) reach() string {
	if p.floating {
		return p.anchor
	}
	return p.prefix()
}

// magic reports whether a component is a pattern to gitignore(5).
func magic(component string) bool {
	return profile.IsPattern(escapeBraces(component))
}

// escapeBraces takes their meaning from braces, which are characters to gitignore(5).
func escapeBraces(component string) string {
	var b strings.Builder
	for i := 0; i < len(component); i++ {
		switch c := component[i]; {
		case c == '\\' && i+1 < len(component):
			b.WriteByte(c)
			i++
		case c == '{' || c == '}':
			b.WriteByte('\\')
		}
		b.WriteByte(component[i])
	}
	return b.String()
}

// bracesClose reports whether every brace closes in its component.
func bracesClose(components []string) bool {
	return !slices.ContainsFunc(components, func(c string) bool {
		depth := 0
		for _, r := range c {
			switch r {
			case '{':
				depth++
			case '}':
				depth--
			}
			if depth < 0 {
				return true
			}
		}
		return depth != 0
	})
}
