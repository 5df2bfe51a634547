package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"bourn"
	"bourn/api"
	"bourn/internal/workspace"

	"github.com/danielgtaylor/huma/v2"
)

// problem is an [api.Problem] as huma sends it.
type problem struct{ api.Problem }

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return "application/problem+json" }

// A detailed error is made of several things that are wrong, which the caller may know.
type detailed struct {
	error
	details []api.Detail
}

func (d detailed) Unwrap() error { return d.error }

// problemOf makes an error into what a caller may know of it. The text of an internal one
// stays here: the log has it, under the request's id.
func problemOf(ctx context.Context, log *slog.Logger, err error) *problem {
	code := bourn.CodeOf(err)
	p := &problem{api.Problem{
		Type: "about:blank", Title: http.StatusText(code.HTTPStatus()), Status: code.HTTPStatus(),
		Code: string(code), Detail: err.Error(), Hint: bourn.HintOf(err), Instance: requestID(ctx),
	}}
	if code == bourn.CodeInternal {
		p.Detail, p.Hint = "something went wrong in the control plane", ""
		log.ErrorContext(ctx, "internal error", "error", err.Error())
	}
	var why *workspace.Problem
	if errors.As(err, &why) {
		p.Reason = why.Reason
	}
	var d detailed
	if errors.As(err, &d) {
		p.Errors = d.details
	}
	return p
}

// codeOfStatus is the code of a status that huma chose.
func codeOfStatus(status int) bourn.Code {
	switch {
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return bourn.CodeNotFound
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return bourn.CodeDenied
	case status == http.StatusConflict:
		return bourn.CodeConflict
	case status == http.StatusServiceUnavailable:
		return bourn.CodeUnavailable
	case status >= 500:
		return bourn.CodeInternal
	}
	return bourn.CodeInvalid
}

// humaErrors sets, once, what huma makes errors of: it has no other place to be told.
var humaErrors sync.Once

func useProblems() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return humaProblem("", status, message, errs...)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		return humaProblem(requestID(ctx.Context()), status, message, errs...)
	}
}

// humaUnreadable is what huma says of a body that it cannot read, with the status 500.
const humaUnreadable = "cannot read request body"

// humaProblem makes an error of huma's own. Its texts name places and rules; the values
// that it would add are what the caller sent, and are left out. What a JSON parser says
// quotes its input, and is replaced.
func humaProblem(id string, status int, message string, errs ...error) *problem {
	code := codeOfStatus(status)
	if status == http.StatusBadRequest {
		status = code.HTTPStatus() // what cannot be read is invalid, as everything else is
	}
	if message == humaUnreadable {
		// A body that breaks off, or breaks HTTP's own rules, is no fault of ours.
		status, code = bourn.CodeInvalid.HTTPStatus(), bourn.CodeInvalid
	}
	p := &problem{api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: string(code), Detail: message, Instance: id}}
	if code == bourn.CodeInternal {
		p.Detail = "something went wrong in the control plane"
		return p
	}
	for _, err := range errs {
		if err == nil {
			continue
		}
		d := api.Detail{Message: "cannot be read"}
		var strict *strictError
		var detail huma.ErrorDetailer
		switch {
		case errors.As(err, &strict):
			d.Location, d.Message = strict.at, strict.what
		case errors.As(err, &detail):
			e := detail.ErrorDetail()
			d.Location, d.Message = location(e.Location), saying(e.Message)
			if kept, ok := strings.CutPrefix(e.Message, strictMark); ok {
				d.Location, d.Message, _ = strings.Cut(kept, ": ")
			}
		}
		p.Errors = append(p.Errors, d)
	}
	return p
}

// location keeps the part of a place that the interface defines; an unknown key is the
// caller's own text.
func location(at string) string {
	known, _ := knownPlace(strings.NewReplacer("[", ".", "]", "").Replace(at))
	return known
}

// saying keeps what huma says about a rule, and drops what quotes the input.
func saying(message string) string {
	for _, known := range []string{"expected ", "unexpected property", "unknown query parameter", "request body is", "required "} {
		if strings.HasPrefix(message, known) {
			return message
		}
	}
	return "cannot be read"
}
