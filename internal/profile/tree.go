package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"bourn"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how deep a profile may nest; the deepest key of the schema is at 5.
const maxDepth = 16

// What the search for a syntax error reads again and again must be small: it is
// quadratic. A larger file gets the line that the reader names.
const (
	maxSearchBytes = 16 << 10
	maxSearchLines = 500
)

// tree returns the root node of the one document in the source.
func (s *source) tree() (*yaml.Node, problemList) {
	decoder := yaml.NewDecoder(strings.NewReader(s.text))
	doc, err := next(decoder)
	switch {
	case errors.Is(err, io.EOF):
		return nil, problemList{s.problem(Pos{1, 1}, "the profile is empty")}
	case err != nil:
		return nil, problemList{s.syntax(err)}
	}
	more, err := next(decoder)
	switch {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, problemList{s.syntax(err)}
	}
	return nil, problemList{s.problem(s.clamp(more.Line, more.Column), "a profile is one document; this begins another")}
}

// next reads one document. The reader panics on some input that it calls impossible.
func next(decoder *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if v := recover(); v != nil {
			doc, err = nil, fmt.Errorf("the YAML reader cannot read this: %v", v)
		}
	}()
	doc = new(yaml.Node)
	if err := decoder.Decode(doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, io.EOF
	}
	return doc, nil
}

// clamp returns the position of the YAML reader's line and column, kept in the text.
func (s *source) clamp(line, column int) Pos { return s.pos(s.offset(line, column)) }

// syntax gives an error of the YAML reader a position. The reader names no column, and
// as line the beginning of whatever encloses the error, or none.
func (s *source) syntax(err error) problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, found := strings.CutPrefix(text, "line "); found {
		if number, message, found := strings.Cut(rest, ": "); found {
			text = message
			line, _ = strconv.Atoi(number)
		}
	}
	if found := s.searchSyntax(); found > 0 {
		line = found
	}
	if text == "did not find expected alphabetic or numeric character" {
		text = "an entry that begins with * or & must be in quotes"
	}
	line = min(max(line, 1), len(s.lines))
	off := s.lines[line-1]
	off += len(s.text[off:]) - len(strings.TrimLeft(s.text[off:], " "))
	return s.problem(s.pos(off), "%s", bourn.Printable(text))
}

// searchSyntax returns the first line that the text cannot be read up to: the one after
// the longest readable beginning. 0 means not searched.
func (s *source) searchSyntax() int {
	if len(s.text) > maxSearchBytes || len(s.lines) > maxSearchLines {
		return 0
	}
	for n := len(s.lines) - 1; n > 0; n-- {
		if readable(s.text[:s.lines[n]]) {
			return n + 1
		}
	}
	return 1
}

func readable(text string) bool {
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		if _, err := next(decoder); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

const tagsMessage = "tags are not allowed in a profile; quote a value to make it text"

// form reports everything below n that YAML has and profiles do not use.
func (d *decoder) form(n *yaml.Node, depth int) {
	if depth > maxDepth {
		d.fail(n, "nested deeper than %d levels", maxDepth)
		return
	}
	switch {
	case n.Kind == yaml.AliasNode:
		d.fail(n, "aliases are not allowed in a profile; write the value again")
	case n.Anchor != "":
		d.fail(n, "anchors are not allowed in a profile")
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(n, tagsMessage)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!merge":
		d.fail(n, "merge keys are not allowed in a profile")
	}
	for _, c := range n.Content {
		d.form(c, depth+1)
	}
}
