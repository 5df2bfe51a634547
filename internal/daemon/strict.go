package daemon

import (
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"bourn/api"

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

func (e *strictError) Error() string { return strictMark + e.at + ": " + e.what }

func strictOf(err error) error {
	e := &strictError{at: "body", what: "is not valid JSON"}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	isSemantic, isSyntactic := errors.As(err, &semantic), errors.As(err, &syntactic)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.what = "has a key twice"
	case errors.Is(err, json.ErrUnknownName):
		e.what = "has a key that is not known (keys are compared with their case)"
	case isSemantic:
		e.what = "has a value of another type"
	case isSyntactic && errors.Is(err, io.ErrUnexpectedEOF):
		e.what = "ends too early"
	}
	var pointer jsontext.Pointer
	if isSemantic {
		pointer = semantic.JSONPointer
	}
	if isSyntactic && len(syntactic.JSONPointer) > len(pointer) {
		pointer = syntactic.JSONPointer
	}
	e.at, _ = knownPlace("body" + strings.ReplaceAll(string(pointer), "/", "."))
	return e
}

// knownNames are all the names that the interface has for what is sent.
var knownNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{"body": true, "query": true, "path": true}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() { //nolint:exhaustive // what holds nothing else has no names
		case reflect.Pointer, reflect.Slice:
			walk(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				for _, tag := range []string{"json", "query", "path"} {
					if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" {
						names[name] = true
					}
				}
				walk(f.Type)
			}
		}
	}
	for _, t := range []any{api.SaveBoundaries{}, api.TestBoundaries{}, api.VerifyLog{}, api.NewDiagnosticsToken{}, logQuery{}, historyQuery{}, byID{},
		recordsQuery{}, tasksQuery{}, ofCircle{}, api.NewRecord{}, api.RecordChange{}, api.NewTask{}, api.TaskChange{}, api.PutCircle{}, api.CompanyChange{}} {
		walk(reflect.TypeOf(t))
	}
	return names
})

// knownPlace cuts a place, as in body.document.3, before the first part that the interface
// does not know: such a part is the caller's own text. It reports whether all is known.
func knownPlace(at string) (string, bool) {
	var known []string
	for part := range strings.SplitSeq(at, ".") {
		if n, err := strconv.ParseUint(part, 10, 32); !knownNames()[part] && (err != nil || strconv.FormatUint(n, 10) != part) {
			return strings.Join(known, "."), false
		}
		known = append(known, part)
	}
	return strings.Join(known, "."), true
}
