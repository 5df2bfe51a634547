package operation

import (
	"strings"

	"bourn"
)

// A Failure is what a command with --json prints on standard output when it could not do
// what was asked. A success is never an object with the key "error".
type Failure struct {
	Error struct {
		Code    bourn.Code `json:"code"`
		Message string     `json:"message"` // the sentence that stands on standard error
		Hint    string     `json:"hint"`    // what to do next, never ""
	} `json:"error"`
}

// NewFailure is the failure that an error is. An error without a hint gets another.
func NewFailure(err error, hint string) Failure {
	var f Failure
	f.Error.Code, f.Error.Message, f.Error.Hint = bourn.CodeOf(err), Sentence(err), bourn.HintOf(err)
	if f.Error.Hint == "" {
		f.Error.Hint = hint
	}
	return f
}

// Sentence is an error's text without the name of its code, which is for programs.
func Sentence(err error) string {
	text := err.Error()
	for _, code := range []error{bourn.ErrInvalid, bourn.ErrDenied, bourn.ErrNotFound, bourn.ErrConflict, bourn.ErrWeakHost, bourn.ErrUnavailable} {
		text = strings.TrimPrefix(text, code.Error()+": ")
	}
	return text
}
