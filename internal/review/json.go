package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A jsonKind is the type of a JSON value, by the name that a reader knows it by.
type jsonKind string

const (
	jsonObject jsonKind = "object"
	jsonArray  jsonKind = "array"
	jsonString jsonKind = "string"
	jsonNumber jsonKind = "number"
	jsonBool   jsonKind = "boolean"
	jsonNull   jsonKind = "null"
)

// A node is a JSON value with every key of every object in it, also those that stand
// there twice: what encoding/json would silently choose between.
type node struct {
	kind    jsonKind
	text    string // of a string, a number, or a boolean
	keys    []string
	members []node // of an object, in the order of keys, or of an array
}

// decode reads exactly one JSON value.
func decode(data []byte) (node, *Problem) {
	if len(data) > maxDocument {
		return node{}, problemf("", "too_large", "the document has %d bytes; at most %d are read", len(data), maxDocument)
	}
	if !utf8.Valid(data) {
		return node{}, problemf("", "encoding_invalid", "the document is not UTF-8")
	}
	var whole json.RawMessage
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&whole); err != nil {
		return node{}, syntaxProblem(err)
	}
	rest := bytes.TrimLeft(data[d.InputOffset():], " \t\r\n")
	if len(rest) > 0 {
		return node{}, problemf("", "trailing_data", "something follows the document at byte %d", len(data)-len(rest))
	}
	d = json.NewDecoder(bytes.NewReader(whole))
	d.UseNumber()
	n, err := value(d, 0)
	if err != nil {
		return node{}, syntaxProblem(err)
	}
	return n, nil
}

func syntaxProblem(err error) *Problem {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return problemf("", "json_invalid", "the document ends too early")
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return problemf("", "json_invalid", "%v, at byte %d", e, e.Offset)
	}
	return problemf("", "json_invalid", "%v", err)
}

var errDepth = errors.New("the document is nested too deeply")

// value reads the next value; its syntax is known to be good.
func value(d *json.Decoder, depth int) (node, error) {
	if depth > maxJSONDepth {
		return node{}, errDepth
	}
	token, err := d.Token()
	if err != nil {
		return node{}, err
	}
	switch t := token.(type) {
	case json.Delim:
		return compound(d, t, depth)
	case string:
		// The mark that stands for what could not be decoded, such as half a surrogate pair.
		if strings.ContainsRune(t, utf8.RuneError) {
			return node{}, fmt.Errorf("%s holds a character that cannot be decoded", strconv.QuoteToASCII(t))
		}
		return node{kind: jsonString, text: t}, nil
	case json.Number:
		return node{kind: jsonNumber, text: t.String()}, nil
	case bool:
		return node{kind: jsonBool, text: strconv.FormatBool(t)}, nil
	}
	return node{kind: jsonNull}, nil
}

func compound(d *json.Decoder, open json.Delim, depth int) (node, error) {
	n := node{kind: jsonArray}
	if open == '{' {
		n.kind = jsonObject
	}
	for d.More() {
		if n.kind == jsonObject {
			key, err := value(d, depth+1)
			if err != nil {
				return node{}, err
			}
			n.keys = append(n.keys, key.text)
		}
		member, err := value(d, depth+1)
		if err != nil {
			return node{}, err
		}
		n.members = append(n.members, member)
	}
	_, err := d.Token() // the end of it
	return n, err
}
