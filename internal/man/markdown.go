package man

import "strings"

// markdown writes a page of the documentation: headings, paragraphs, fenced blocks, lists
// and tables, with code and bold text in them. A table becomes a list, whose tags are the first column.
// The page's own title is left out, and so are comments.
func (r *roff) markdown(page string) {
	var filled []string
	var fence []string
	var head []string
	fenced := false
	flush := func() {
		if len(filled) > 0 {
			r.paragraph(inline(strings.Join(filled, " ")))
		}
		filled = nil
	}
	for line := range strings.SplitSeq(page, "\n") {
		marker := strings.HasPrefix(line, "```")
		switch {
		case fenced && marker:
			r.literal(fence)
			fenced = false
			continue
		case fenced:
			fence = append(fence, line)
			continue
		}
		row := strings.HasPrefix(line, "|")
		if !row {
			head = nil
		}
		if row || marker || line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "<!--") {
			flush()
		}
		switch {
		case marker:
			fenced, fence = true, nil
		case row && head == nil:
			head = cells(line)
		case row:
			r.row(head, cells(line))
		case strings.HasPrefix(line, "### "):
			r.subsection(line[4:])
		case strings.HasPrefix(line, "## "):
			r.section(strings.ToUpper(line[3:]))
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "<!--"):
		case strings.HasPrefix(line, "- "):
			r.tagged(`\(bu`, inline(line[2:]))
		default:
			filled = append(filled, line)
		}
	}
	flush()
}

// cells returns the cells of a line of a table. A bar in a cell is written \|.
func cells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(line, `\|`, bar)
	all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range all {
		all[i] = strings.ReplaceAll(strings.TrimSpace(all[i]), bar, "|")
	}
	return all
}

// row writes a line of a table: the second column, then the others with their headings.
func (r *roff) row(head, row []string) {
	if strings.HasPrefix(row[0], "---") {
		return
	}
	text := ""
	for i := 1; i < len(row) && i < len(head); i++ {
		cell := inline(row[i])
		switch {
		case cell == "":
		case i == 1 && len(head) > 2:
			text += cell + ".\n"
		case i == 1:
			text += cell + "\n"
		default:
			text += escape(head[i]) + ": " + cell + ".\n"
		}
	}
	first, rest, _ := strings.Cut(text, "\n")
	r.tagged(inline(row[0]), first)
	for line := range strings.Lines(rest) {
		r.WriteString(".br\n")
		r.lines(line)
	}
}

// inline escapes a text with its code and bold in bold, and links as what they lead to.
func inline(s string) string {
	var b strings.Builder
	for s != "" {
		at := strings.IndexAny(s, "`*[")
		if at < 0 {
			break
		}
		b.WriteString(escape(s[:at]))
		s = s[at:]
		if text, rest, ok := between(s, "`", "`"); ok {
			b.WriteString(bold(text))
			s = rest
		} else if text, rest, ok := between(s, "**", "**"); ok {
			b.WriteString(bold(text))
			s = rest
		} else if text, rest, ok := between(s, "[", "]("); ok && strings.Contains(rest, ")") {
			_, s, _ = strings.Cut(rest, ")")
			if strings.HasSuffix(text, ".md") {
				text = "docs/" + text
			}
			b.WriteString(escape(text))
		} else {
			b.WriteString(escape(s[:1]))
			s = s[1:]
		}
	}
	return b.String() + escape(s)
}

// between returns what stands between two marks at the beginning of s.
func between(s, open, end string) (text, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, open)
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, end)
}
