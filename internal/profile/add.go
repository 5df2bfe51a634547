package profile

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// add splices the entry in as the last of the list.
func (e *edit) add() {
	parent := e.root.find(e.parent)
	switch {
	case parent == nil && e.root.flow():
		e.addFlowEntry(e.root, flowKey(e.root, e.parent)+": { "+e.flowEntry(e.root)+" }")
	case parent == nil:
		e.addBlockEntry(e.root, e.parent, e.key)
	case isBare(parent.value.Node):
		e.splice(parent.colon, parent.colon, " { "+e.flowEntry(parent.value)+" }")
	default:
		e.addTo(parent.value)
	}
}

func (e *edit) addTo(parent *node) {
	list := parent.find(e.key)
	switch {
	case list == nil && parent.flow():
		e.addFlowEntry(parent, e.flowEntry(parent))
	case list == nil:
		e.addBlockEntry(parent, e.key)
	case isBare(list.value.Node):
		e.splice(list.colon, list.colon, " [ "+e.item(quote)+" ]")
	case list.value.flow():
		e.addFlowItem(list.value)
	default:
		e.addBlockItem(list.value)
	}
}

// makesMode reports whether the key hosts must come with a mode.
func (e *edit) makesMode() bool { return e.list == HostList && !e.profile.Network.ModeNamed() }

// scalar returns the entry as near is written: in quotes among quotes, as in JSON.
func (e *edit) scalar(near *node) string {
	if doubleQuoted(near) {
		return e.item(doubleQuote)
	}
	return e.item(quote)
}

// item returns the entry as text, quoted by q: of a placeholder a mapping.
func (e *edit) item(q func(string) string) string {
	switch {
	case e.rule != nil:
		return e.rule.item(q)
	case !e.placeholder:
		return q(e.given)
	case q("a") == "a":
		return "{path: " + q(e.given) + ", placeholder: true}"
	}
	return "{" + q("path") + ": " + q(e.given) + ", " + q("placeholder") + ": true}"
}

// doubleQuoted reports whether a value, or the first key or entry of it, is in quotes.
func doubleQuoted(n *node) bool {
	switch {
	case len(n.entries) > 0:
		return doubleQuoted(n.entries[0].key)
	case len(n.items) > 0:
		return doubleQuoted(n.items[0].node)
	}
	return n.Style&yaml.DoubleQuotedStyle != 0
}

// flowEntry returns the key of the list with the list, as near is written.
func (e *edit) flowEntry(near *node) string {
	text := flowKey(near, e.key) + ": [ " + e.scalar(near) + " ]"
	if e.makesMode() {
		return flowKey(near, "mode") + ": " + flowKey(near, NetworkRestricted) + ", " + text
	}
	return text
}

func flowKey(near *node, key string) string {
	if doubleQuoted(near) {
		return `"` + key + `"`
	}
	return key
}

// addFlowEntry adds a key with its value at the end of a flow mapping.
func (e *edit) addFlowEntry(in *node, text string) {
	if len(in.entries) == 0 {
		e.splice(in.start+1, in.start+1, text)
		return
	}
	last := in.entries[len(in.entries)-1]
	if e.keepsLast(last) {
		e.splice(last.key.start, last.key.start, text+", ")
		return
	}
	e.splice(last.value.end, last.value.end, ", "+text)
}

// keepsLast reports whether the last key of a mapping stays the last: hosts directly after
// a mode would go with it.
func (e *edit) keepsLast(last entry) bool { return e.list == HostList && last.key.Value == "mode" }

// addBlockEntry adds keys, each below the one before, and the entry below the last of
// them, after the last line of a block mapping that takes nothing more.
func (e *edit) addBlockEntry(in *node, keys ...string) {
	i := len(in.entries) - 1
	for i > 0 && in.entries[i].value.tail {
		i--
	}
	after := e.lineEnd(in.entries[i].value.end)
	if e.keepsLast(in.entries[i]) {
		after = e.lineEndBefore(in.entries[i].key.start)
	}
	newline := e.newline(after)
	indent := in.start - e.lineStart(in.start)
	step, dash := e.indents()

	var b strings.Builder
	for i, key := range keys {
		line := newline + strings.Repeat(" ", indent+i*step)
		if i == len(keys)-1 && e.makesMode() {
			b.WriteString(line + "mode: " + NetworkRestricted)
		}
		b.WriteString(line + key + ":")
	}
	indent += (len(keys)-1)*step + dash
	b.WriteString(newline + strings.Repeat(" ", indent) + "- " + e.item(quote))
	e.splice(after, after, b.String())
}

// lineEndBefore returns where the line before that of a byte ends; there is one.
func (e *edit) lineEndBefore(off int) int {
	end := e.lineStart(off) - 1
	if e.text[end-1] == '\r' {
		end--
	}
	return end
}

// indents returns by how much the file indents a mapping and a list below their key.
func (e *edit) indents() (step, dash int) {
	step, dash = 0, -1
	for _, outer := range e.root.entries {
		step, dash = e.indentsOf(outer, step, dash)
		for _, inner := range outer.value.entries {
			step, dash = e.indentsOf(inner, step, dash)
		}
	}
	if step == 0 {
		step = 2
	}
	if dash < 0 {
		dash = step
	}
	return step, dash
}

// indentsOf fills in what is not known yet from the value of one key.
func (e *edit) indentsOf(in entry, step, dash int) (int, int) {
	key, value := in.key.start-e.lineStart(in.key.start), in.value.start-e.lineStart(in.value.start)
	switch {
	case in.value.flow():
	case step == 0 && len(in.value.entries) > 0:
		step = value - key
	case dash < 0 && len(in.value.items) > 0:
		dash = value - key
	}
	return step, dash
}

// addBlockItem adds a line after that of the last entry.
func (e *edit) addBlockItem(list *node) {
	last := list.items[len(list.items)-1]
	after := e.lineEnd(last.end)
	indent := e.text[e.lineStart(last.dash):last.dash]
	e.splice(after, after, e.newline(after)+indent+"- "+e.item(quote))
}

// addFlowItem adds an entry after the last: on a line of its own where the last has one.
func (e *edit) addFlowItem(list *node) {
	text := e.scalar(list)
	if len(list.items) == 0 {
		e.splice(list.start+1, list.start+1, text)
		return
	}
	last := list.items[len(list.items)-1].node
	comma, alone := e.ownLine(last)
	if !alone {
		e.splice(last.end, last.end, ", "+text)
		return
	}
	after := e.lineEnd(last.end)
	line := e.newline(after) + e.text[e.lineStart(last.start):last.start] + text
	if comma {
		e.splice(after, after, line+",")
		return
	}
	e.splice(last.end, last.end, ",")
	e.splice(after, after, line)
}

// ownLine reports whether an entry of a flow list has its lines to itself, but for a
// comma and a comment, and whether there is a comma.
func (e *edit) ownLine(n *node) (comma, alone bool) {
	if strings.Trim(e.text[e.lineStart(n.start):n.start], " ") != "" {
		return false, false
	}
	rest := strings.TrimLeft(e.text[n.end:e.lineEnd(n.end)], " ")
	rest, comma = strings.CutPrefix(rest, ",")
	rest = strings.TrimLeft(rest, " ")
	return comma, rest == "" || rest[0] == '#'
}
