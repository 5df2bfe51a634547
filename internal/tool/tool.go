// Package tool is the governed tools: what each is called, what it takes, which request
// it makes of an actor, and how its result reads. One file each.
//
// # What it upholds
//
// An input says one thing: a duplicate, differently-cased or unknown key is an error, and
// so is a path that a program would take for an option. What a tool does is the request
// it makes, and review judges that.
//
// # What it does not
//
// It performs nothing, and decides nothing.
//
// # Needs
//
// Nothing.
package tool

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"bourn"
	"bourn/internal/workspace"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// A Tool is one governed tool.
type Tool struct {
	Name        string
	Title       string
	Description string
	Tier        bourn.Tier
	// Destructive and Idempotent are hints for clients; what only reads is neither.
	Destructive, Idempotent bool
	// OpenWorld: what it does may reach beyond the workspace.
	OpenWorld bool
	Input     *jsonschema.Schema
	// Request makes the input into what an actor is asked.
	Request func(input []byte) (workspace.Request, error)
	// Text makes the actor's result into what a model reads.
	Text func(result workspace.Raw) (string, error)
}

// ReadOnly reports whether the tool only reads.
func (t *Tool) ReadOnly() bool { return t.Tier == bourn.TierRead }

// All returns the tools, in the order in which they are shown.
func All() []*Tool {
	return []*Tool{
		filesRead(), filesList(), filesFind(), filesInspect(), filesSearch(),
		filesWrite(), filesEdit(), filesPatch(), filesDelete(), filesMove(),
		shellExec(), gitStatus(), gitDiff(), spawnSubagent(), parallelJobs(),
		recordsList(), recordsGet(), recordsCreate(), recordsUpdate(), recordsDelete(), tasksList(), tasksCreate(), tasksUpdate(),
		recordsQuery(), whoami(),
	}
}

// define makes a tool of an input type and two functions. Keys of the input are the JSON
// names of its fields; those that may be left out say omitzero.
func define[I, R any](t Tool, request func(I) (workspace.Request, error), text func(R) string) *Tool {
	schema, err := jsonschema.For[I](nil)
	if err != nil {
		panic(err) // a type of this package's own: a test makes every tool
	}
	oneType(schema)
	t.Input = schema
	t.Request = func(input []byte) (workspace.Request, error) {
		var in I
		if err := decode(input, &in); err != nil {
			return workspace.Request{}, err
		}
		r, err := request(in)
		r.Tool = t.Name
		return r, err
	}
	t.Text = func(result workspace.Raw) (string, error) {
		var r R
		if err := result.Into(&r); err != nil {
			return "", fmt.Errorf("%w: the result of %s cannot be read", bourn.ErrInternal, t.Name)
		}
		return text(r), nil
	}
	return &t
}

// oneType gives every value in a schema one type: a slice may be null to the library, and some
// clients know one type at a time.
func oneType(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	if schema.Types = slices.DeleteFunc(schema.Types, func(k string) bool { return k == "null" }); len(schema.Types) == 1 {
		schema.Type, schema.Types = schema.Types[0], nil
	}
	for _, p := range schema.Properties {
		oneType(p)
	}
	oneType(schema.Items)
}

// decode reads an input strictly. Its errors name what is wrong and quote nothing.
func decode(input []byte, into any) error {
	if len(input) == 0 {
		input = []byte("{}")
	}
	err := json.Unmarshal(input, into, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(false))
	if err == nil {
		return nil
	}
	what := "is not valid JSON"
	var semantic *json.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "has a key twice"
	case errors.Is(err, json.ErrUnknownName):
		what = "has a key that is not known (keys are compared with their case)"
	case errors.As(err, &semantic):
		what = "has a value of another type at " + bourn.Printable(string(semantic.JSONPointer))
	}
	return bourn.WithHint(fmt.Errorf("%w: the tool's input %s", bourn.ErrInvalid, what), "see the tool's input schema")
}

// needed refuses an empty text.
func needed(name, value string) error {
	if value == "" {
		return fmt.Errorf("%w: %s is missing", bourn.ErrInvalid, name)
	}
	return nil
}

// shown is a file's content as a model reads it: text as it is, other bytes in base64.
func shown(content []byte) string {
	if utf8.Valid(content) && !strings.ContainsRune(string(content), 0) {
		return string(content)
	}
	return "(not text; base64)\n" + base64.StdEncoding.EncodeToString(content)
}

// plural counts.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// leftOut says what a result does not show.
func leftOut(n int, truncated bool) string {
	var s string
	if n > 0 {
		s += fmt.Sprintf("\n(%s left out: denied, or not readable)", plural(n, "entry"))
	}
	if truncated {
		s += "\n(there is more: narrow it down)"
	}
	return strings.ReplaceAll(s, "entrys", "entries")
}
