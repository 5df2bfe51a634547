package bourn

import "errors"

// The closed list of error codes. An error belongs to a code by wrapping its
// sentinel; [CodeOf] reads it back, so errors.Is works on both sides of a wire.
var (
	// ErrInvalid: the input cannot be what was meant. Usage, syntax, unknown names.
	ErrInvalid = errors.New("invalid")
	// ErrDenied: understood, and refused.
	ErrDenied = errors.New("denied")
	// ErrParked: waits for a human's answer.
	ErrParked = errors.New("parked")
	// ErrNotFound: no such agent, path, tool or request.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the state has moved on, or the name is taken.
	ErrConflict = errors.New("conflict")
	// ErrWeakHost: this host cannot keep the boundary that was asked for.
	ErrWeakHost = errors.New("weak host")
	// ErrUnavailable: a part that is needed does not answer; trying later may help.
	ErrUnavailable = errors.New("unavailable")
	// ErrInternal: a defect of Bourn's. Its text never leaves the process.
	ErrInternal = errors.New("internal")
)

// A Code classifies an error for programs. The list is closed.
type Code string

// Codes, in the order of their sentinels above.
const (
	CodeInvalid     Code = "invalid"
	CodeDenied      Code = "denied"
	CodeParked      Code = "parked"
	CodeNotFound    Code = "not_found"
	CodeConflict    Code = "conflict"
	CodeWeakHost    Code = "weak_host"
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"
)

// codes is the one table from a sentinel to its code, HTTP status and exit status.
var codes = []struct {
	err  error
	code Code
	http int
	exit int
}{
	{ErrInvalid, CodeInvalid, 422, 2},
	{ErrDenied, CodeDenied, 403, 3},
	{ErrParked, CodeParked, 202, 4},
	{ErrNotFound, CodeNotFound, 404, 1},
	{ErrConflict, CodeConflict, 409, 1},
	{ErrWeakHost, CodeWeakHost, 501, 5},
	{ErrUnavailable, CodeUnavailable, 503, 1},
	{ErrInternal, CodeInternal, 500, 1},
}

// CodeOf returns the code of err: that of the first sentinel it wraps, and
// CodeInternal for an error that wraps none. It must not be called with nil.
func CodeOf(err error) Code {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeInternal
}

// Err returns the sentinel of the code; that of an unknown one is ErrInternal.
func (c Code) Err() error {
	for _, row := range codes {
		if row.code == c {
			return row.err
		}
	}
	return ErrInternal
}

// HTTPStatus returns the status that a response carrying this code has.
func (c Code) HTTPStatus() int {
	for _, row := range codes {
		if row.code == c {
			return row.http
		}
	}
	return 500
}

// ExitStatus returns the exit status of a command that ends with this code.
func (c Code) ExitStatus() int {
	for _, row := range codes {
		if row.code == c {
			return row.exit
		}
	}
	return 1
}

// hinted carries a hint: what to do about an error, printed apart from it.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// WithHint attaches to err what the reader should do next. A nil err stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return hinted{err, hint}
}

// HintOf returns the outermost hint attached to err, or "".
func HintOf(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
