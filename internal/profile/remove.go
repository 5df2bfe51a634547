package profile

import (
	"slices"
	"strings"
)

// remove splices out the entry at i. What Add makes and nothing needs any more goes
// with it.
func (e *edit) remove(i int) {
	parent := e.root.find(e.parent)
	list := parent.value.find(e.key)
	switch value := list.value; {
	case len(value.items) == 1 && value.flow():
		e.removeFlow(parent, list)
	case len(value.items) == 1:
		e.removeBlock(parent, list)
	case value.flow():
		e.removeFlowItem(value, i)
	default:
		e.cutLines(value.items[i].dash, value.items[i].end)
	}
}

// removeFlow empties a flow list and takes it out if its form says that Add made it.
func (e *edit) removeFlow(parent, list *entry) {
	only := list.value.items[0].node
	made := e.made(list.value, only.start, only.end, "[ ]")
	switch flow := parent.value.flow(); {
	case made && !flow && e.afterSpace(list):
		e.splice(list.colon, list.value.end, "")
	case made && flow && e.removeFlowEntry(parent, list):
	default:
		e.removeOnlyItem(only)
	}
}

// made reports whether a flow value is a pair of brackets with one space on either side
// of what lies between start and end.
func (e *edit) made(n *node, start, end int, brackets string) bool {
	return e.text[n.start:start] == brackets[:2] && e.text[end:n.end] == brackets[1:]
}

// afterSpace reports whether one space divides a key from its value.
func (e *edit) afterSpace(in *entry) bool { return e.text[in.colon:in.value.start] == " " }

// removeFlowEntry takes a list out of its flow mapping, and the mapping too if Add made
// that. It reports false where the form is not Add's.
func (e *edit) removeFlowEntry(parent, list *entry) bool {
	start, end, n := list.key.start, list.value.end, 1
	if mode := e.modeOf(parent.value, list); mode != nil {
		start, n = mode.key.start, 2
	}
	switch {
	case len(parent.value.entries) > n:
		return e.cutBeforeMode(parent.value, list) || e.cutLastEntries(parent.value, list, n)
	case start == parent.value.start+1 && e.text[e.skip(end)] == '}':
		e.splice(start, end, "")
	case !e.made(parent.value, start, end, "{ }"):
		return false
	case e.root.flow():
		return e.cutLastEntries(e.root, parent, 1)
	case !e.afterSpace(parent):
		return false
	default:
		e.splice(parent.colon, parent.value.end, "")
	}
	return true
}

// modeOf returns the entry before that of the list, if it is the mode that Add makes for
// the list, or nil.
func (e *edit) modeOf(in *node, list *entry) *entry {
	i := in.place(list)
	if e.list != HostList || i == 0 || in.entries[i-1].key.Value != "mode" {
		return nil
	}
	mode := &in.entries[i-1]
	made := []string{"mode: restricted, ", `"mode": "restricted", `}
	if !in.flow() {
		made = []string{"mode: restricted" + e.newline(mode.key.start) + strings.Repeat(" ", in.start-e.lineStart(in.start))}
	}
	if !slices.Contains(made, e.text[mode.key.start:list.key.start]) {
		return nil
	}
	return mode
}

// cutLastEntries takes the last n entries of a flow mapping out, of which the last is
// named, with the comma and the space before them.
func (e *edit) cutLastEntries(in *node, last *entry, n int) bool {
	first := len(in.entries) - n
	if first < 1 || in.place(last) != len(in.entries)-1 {
		return false
	}
	before := in.entries[first-1].value.end
	if e.text[before:in.entries[first].key.start] != ", " {
		return false
	}
	e.splice(before, last.value.end, "")
	return true
}

// cutBeforeMode takes hosts that Add put before the mode out of a flow mapping.
func (e *edit) cutBeforeMode(in *node, list *entry) bool {
	last := in.entries[len(in.entries)-1]
	if !e.keepsLast(last) || e.text[list.value.end:max(last.key.start, list.value.end)] != ", " {
		return false
	}
	e.splice(list.key.start, last.key.start, "")
	return true
}

// removeOnlyItem leaves the brackets and what is written between them besides the entry.
func (e *edit) removeOnlyItem(only *node) {
	comma, alone := e.ownLine(only)
	if alone {
		e.cutLines(only.start, only.end)
	} else {
		e.splice(only.start, only.end, "")
	}
	if next := e.skip(only.end); e.text[next] == ',' && !(alone && comma) {
		e.splice(next, next+1, "")
	}
}

// removeFlowItem takes an entry and a comma out of a flow list that has others.
func (e *edit) removeFlowItem(list *node, i int) {
	n := list.items[i].node
	comma, alone := e.ownLine(n)
	switch last := i == len(list.items)-1; {
	case alone && comma:
		e.cutLines(n.start, n.end)
	case alone && last:
		e.cutComma(list.items[i-1].end)
		e.cutLines(n.start, n.end)
	case last:
		e.cutLastItem(list.items[i-1].end, n)
	default:
		e.splice(n.start, n.end, "")
		after := e.skip(n.end)
		end := after + 1
		end += len(e.text[end:]) - len(strings.TrimLeft(e.text[end:], " "))
		e.splice(after, end, "")
	}
}

// cutLastItem takes out the comma after the entry before, and the entry; what lies
// between is kept where it is more than spaces.
func (e *edit) cutLastItem(before int, n *node) {
	if strings.Trim(e.text[before:n.start], " ") == "," {
		e.splice(before, n.end, "")
		return
	}
	e.cutComma(before)
	e.splice(n.start, n.end, "")
}

func (e *edit) cutComma(before int) {
	comma := e.skip(before)
	e.splice(comma, comma+1, "")
}

func (s *source) skip(at int) int { return (&placer{s: s}).skip(at) }

// removeBlock takes out the only entry of a block list, the key if nothing but the entry
// is below it, and so its parent. A comment in between keeps what it is written to, and
// so does a block scalar before, to which blank lines that follow would fall.
func (e *edit) removeBlock(parent, list *entry) {
	only := list.value.items[0]
	start := only.dash
	if e.directly(list.colon, start) {
		start = list.key.start
		n := 1
		if mode := e.modeOf(parent.value, list); mode != nil {
			start, n = mode.key.start, 2
		}
		if len(parent.value.entries) == n && e.directly(parent.colon, start) && !e.afterTail(parent) {
			start = parent.key.start
		}
	}
	e.cutLines(start, only.end)
}

func (e *edit) afterTail(in *entry) bool {
	for i := range e.root.entries {
		if e.root.entries[i].key == in.key {
			return i > 0 && e.root.entries[i-1].value.tail
		}
	}
	return false
}

// directly reports whether a line end and the indentation of the next line are all that
// lies between two places.
func (e *edit) directly(from, to int) bool {
	between := e.text[from:to]
	return strings.Trim(between, " \r\n") == "" && strings.Count(between, "\n") == 1
}

// cutLines takes out the lines from start to end, which nothing else is on but a comment,
// and the line end before them; at the beginning of the text the one after them.
func (e *edit) cutLines(start, end int) {
	from, to := e.lineStart(start), e.lineEnd(end)
	switch {
	case from == 0:
		to = min(to+len(e.newline(to)), len(e.text))
	case strings.HasSuffix(e.text[:from], "\r\n"):
		from -= 2
	default:
		from--
	}
	e.splice(from, to, "")
}
