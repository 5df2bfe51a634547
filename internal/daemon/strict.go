package daemon

import (
	"errors"
	"io"
	"reflect"
	"strings"

	"bourn"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// strictFormat reads JSON that says one thing to every reader: no duplicate keys, no keys
// in another case, no unknown ones, no invalid UTF-8, nothing after the value.
var strictFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		return json.MarshalWrite(w, v, json.Deterministic(true), jsontext.EscapeForHTML(true))
	},
	Unmarshal: func(data []byte, v any) error {
		options := []json.Options{json.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false)}
		// huma reads a body twice: as any, to check it against its schema (which refuses
		// unknown keys with their places), and as its type.
		if t := reflect.TypeOf(v); t != nil && t.Elem().Kind() != reflect.Interface {
			options = append(options, json.RejectUnknownMembers(true))
		}
		err := json.Unmarshal(data, v, options...)
		if err == nil {
			return nil
		}
		return strictOf(err)
	},
}

// A strictError says what is wrong with a body and where, in words of ours: the parser's
// own quote what was sent.
type strictError struct{ at, what string }

// strictMark begins the text of a strictError, by which it is known where huma keeps
// only the text.
const strictMark = "bourn-strict: "

func (e *strictError) Error() string { return strictMark + e.what }

func strictOf(err error) error {
	e := &strictError{at: "body", what: "is not valid JSON"}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.what = "has a key twice"
	case errors.Is(err, json.ErrUnknownName):
		e.what = "has a key that is not known (keys are compared with their case)"
	case errors.As(err, &semantic):
		e.what = "has a value of another type"
	case errors.As(err, &syntactic) && errors.Is(err, io.ErrUnexpectedEOF):
		e.what = "ends too early"
	}
	var pointer jsontext.Pointer
	if semantic != nil {
		pointer = semantic.JSONPointer
	} else if syntactic != nil {
		pointer = syntactic.JSONPointer
	}
	// The last part of a place may be a key that was made up.
	if parent := string(pointer.Parent()); parent != "" && len(parent) < 200 {
		e.at = "body" + strings.ReplaceAll(bourn.Printable(parent), "/", ".")
	}
	return e
}
