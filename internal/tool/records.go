package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"bourn"
	"bourn/internal/workspace"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// The typed tools of the company's records: each is one fixed statement, performed by the
// control plane as the member whose agent it is. What comes of one is JSON, as over HTTP.

// ofRecords makes a tool of records. check says what is wrong with an input that a schema does
// not keep; whether an id is one, and may be used, is the control plane's to say.
func ofRecords[I any](t Tool, check func(I) error) *Tool {
	verb := workspace.RecordsWrite
	if t.Tier == bourn.TierRead {
		verb = workspace.RecordsRead
	}
	made := define(t, func(in I) (workspace.Request, error) {
		if err := check(in); err != nil {
			return workspace.Request{}, err
		}
		input, err := json.Marshal(in)
		return workspace.Request{Verb: verb, Input: input}, err
	}, func(r json.RawMessage) string { return string(r) })
	if body := made.Input.Properties["body"]; body != nil { // a type alone does not say it
		*body = jsonschema.Schema{Type: "object", Description: body.Description}
	}
	return made
}

// oneOf refuses a value that is none of a few; "" is left out.
func oneOf(name, value string, values ...string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return fmt.Errorf("%w: %s is one of %s", bourn.ErrInvalid, name, strings.Join(values, ", "))
}

func visibility(value string) error {
	return oneOf("visibility", value, "private", "circle", "company")
}

func taskStatus(value string) error {
	return oneOf("status", value, "open", "doing", "done", "dropped")
}

// short refuses a text with more characters than there is room for.
func short(name, value string, most int) error {
	if utf8.RuneCountInString(value) > most {
		return fmt.Errorf("%w: %s has %d characters at most", bourn.ErrInvalid, name, most)
	}
	return nil
}

// pageOf refuses a number that no page has.
func pageOf(limit int) error {
	if limit < 0 || limit > 200 {
		return fmt.Errorf("%w: limit is 1 to 200", bourn.ErrInvalid)
	}
	return nil
}

// object refuses a body that is no object.
func object(body jsontext.Value) error {
	if body != nil && body.Kind() != '{' {
		return fmt.Errorf("%w: body is an object", bourn.ErrInvalid)
	}
	return nil
}

// changesSomething refuses a change of nothing.
func changesSomething(given ...bool) error {
	if slices.Contains(given, true) {
		return nil
	}
	return fmt.Errorf("%w: there is nothing to change", bourn.ErrInvalid)
}
