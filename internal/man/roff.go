package man

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A roff writes the source of one page for the man macros, which groff_man(7) and
// mandoc's man(7) describe. Its methods take plain text: they escape it.
type roff struct {
	strings.Builder
	headed bool // a heading stands right before, which begins a paragraph by itself
}

// width is the longest line of filled text, in bytes; mandoc asks for at most 80.
const width = 78

// begin writes the title line and the NAME section.
func (r *roff) begin(name string, section int, e Edition, about string) {
	fmt.Fprintf(r, ".TH %s %d %s %s %s\n", argument(strings.ToUpper(name)), section,
		e.Date.UTC().Format("2006-01-02"), argument("bourn "+e.Version), argument("Bourn"))
	r.section("NAME")
	r.lines(escape(name) + ` \- ` + escape(about))
}

func (r *roff) section(heading string)    { r.heading("SH", heading) }
func (r *roff) subsection(heading string) { r.heading("SS", heading) }

func (r *roff) heading(macro, text string) {
	fmt.Fprintf(r, ".%s %s\n", macro, argument(text))
	r.headed = true
}

// begins begins a paragraph; a tag does that by itself.
func (r *roff) begins() {
	if !r.headed {
		r.WriteString(".PP\n")
	}
	r.headed = false
}

// paragraph writes filled text, which is escaped already.
func (r *roff) paragraph(text string) {
	r.begins()
	r.lines(text)
}

// tagged writes a tag, which is escaped already, and indented text.
func (r *roff) tagged(tag, text string) {
	r.headed = false
	fmt.Fprintf(r, ".TP\n%s\n", guard(tag))
	r.lines(text)
}

// literal writes lines as they are, indented.
func (r *roff) literal(lines []string) {
	r.begins()
	r.WriteString(".RS 4\n.nf\n")
	for _, line := range lines {
		if line == "" {
			r.WriteString(".sp\n") // a blank line in the source is a mistake to mandoc
			continue
		}
		r.WriteString(guard(escape(line)) + "\n")
	}
	r.WriteString(".fi\n.RE\n")
}

// lines breaks escaped text at blanks.
func (r *roff) lines(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			r.WriteString(guard(line) + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		r.WriteString(guard(line) + "\n")
	}
}

// text writes what help texts are made of: paragraphs, and lines indented by two blanks,
// which stay as they are.
func (r *roff) text(s string) {
	var filled, kept []string
	flush := func() {
		for len(kept) > 0 && kept[len(kept)-1] == "" {
			kept = kept[:len(kept)-1]
		}
		if len(filled) > 0 {
			r.paragraph(escape(strings.Join(filled, " ")))
		}
		if len(kept) > 0 {
			r.literal(kept)
		}
		filled, kept = nil, nil
	}
	for line := range strings.SplitSeq(s, "\n") {
		literal, indented := strings.CutPrefix(line, "  ")
		switch {
		case indented:
			if len(filled) > 0 {
				flush()
			}
			kept = append(kept, literal)
		case line == "" && len(kept) > 0:
			kept = append(kept, "")
		default:
			if line == "" || len(kept) > 0 {
				flush()
			}
			if line != "" {
				filled = append(filled, line)
			}
		}
	}
	flush()
}

// escapes are the characters that roff would take for something else, groff_char(7).
var escapes = map[rune]string{
	'\\': `\e`, '-': `\-`, '~': `\(ti`, '^': `\(ha`, '`': `\(ga`, '\'': `\(aq`, '"': `\(dq`,
}

// escape returns text that is printed as it is. A page is ASCII: what is not is named by
// its number.
func escape(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch e, special := escapes[c]; {
		case special:
			b.WriteString(e)
		case c < utf8.RuneSelf:
			b.WriteRune(c)
		default:
			fmt.Fprintf(&b, `\[u%04X]`, c)
		}
	}
	return b.String()
}

// guard keeps a line of text from being taken for a request.
func guard(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// argument is text as one argument of a macro.
func argument(s string) string { return `"` + escape(s) + `"` }

func bold(s string) string   { return `\fB` + escape(s) + `\fR` }
func italic(s string) string { return `\fI` + escape(s) + `\fR` }
