package posix

import (
	"fmt"

	"bourn"
)

// A Reason says why an actor or the helper refused. The list is closed.
type Reason string

// Reasons.
const (
	IdentityMissing    Reason = "actor_identity_missing"    // nobody has this name
	RuntimeUnavailable Reason = "actor_runtime_unavailable" // helper, registry or host cannot do it
	PermissionDenied   Reason = "permission_denied"         // known, and may not
	NotFound           Reason = "not_found"
	AlreadyExists      Reason = "already_exists"
	InvalidPath        Reason = "invalid_path"
	OperationFailed    Reason = "operation_failed"
)

// reasons is the one table from a reason to its code and to the helper's exit status. The statuses lie
// between those of bourn and those of env(1).
var reasons = []struct {
	reason Reason
	code   bourn.Code
	exit   int
}{
	{IdentityMissing, bourn.CodeNotFound, 64},
	{RuntimeUnavailable, bourn.CodeUnavailable, 65},
	{PermissionDenied, bourn.CodeDenied, 66},
	{NotFound, bourn.CodeNotFound, 67},
	{AlreadyExists, bourn.CodeConflict, 68},
	{InvalidPath, bourn.CodeInvalid, 69},
	{OperationFailed, bourn.CodeInvalid, 70},
}

// Code returns the code that the reason belongs to; that of an unknown one is CodeInternal.
func (r Reason) Code() bourn.Code {
	for _, row := range reasons {
		if row.reason == r {
			return row.code
		}
	}
	return bourn.CodeInternal
}

// ExitStatus returns the status that the helper exits with. 1 is that of no reason.
func (r Reason) ExitStatus() int {
	for _, row := range reasons {
		if row.reason == r {
			return row.exit
		}
	}
	return 1
}

// ReasonOf returns the reason for the helper's exit status, and whether it is one.
func ReasonOf(exit int) (Reason, bool) {
	for _, row := range reasons {
		if row.exit == exit {
			return row.reason, true
		}
	}
	return "", false
}

// A Refusal is an error with a reason. It wraps the sentinel of the reason's code.
type Refusal struct {
	Reason Reason
	Text   string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Text }

// Unwrap returns the sentinel of the reason's code.
func (r *Refusal) Unwrap() error { return r.Reason.Code().Err() }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{reason, bourn.Printable(fmt.Sprintf(format, args...))}
}

// A Verb is what the helper is asked to do.
type Verb string

// Verbs.
const (
	VerbActor  Verb = "actor"  // become the person and execute bourn as their actor
	VerbDial   Verb = "dial"   // become the person, connect to the database, pass the socket back
	VerbKill   Verb = "kill"   // become the person and end their processes
	VerbRevoke Verb = "revoke" // narrow the registry
)

// verbs holds how many words follow the person: at least and at most.
var verbs = []struct {
	verb        Verb
	least, most int
}{
	{VerbActor, 0, 1},
	{VerbDial, 0, 0},
	{VerbKill, 0, 0},
	{VerbRevoke, 0, 1},
}

// A Request is what the helper is asked. It names a person by user name and carries no
// number, path or command: those are the registry's.
//
//	helper actor  bc_person_NAME [AGENT]
//	helper dial   bc_person_NAME
//	helper kill   bc_person_NAME
//	helper revoke bc_person_NAME [bc_circle_NAME]
type Request struct {
	Verb   Verb
	Person string          // a user name
	Circle string          // revoke: a group name, or "" for all
	Agent  bourn.AgentName // actor: whose seal, or "" for the base seal
}

// maxArgument is longer than any argument of a request can be.
const maxArgument = 64

// ParseRequest reads the helper's arguments, os.Args as it is: also its first word must be
// there (CVE-2021-4034). Anything but the grammar of [Request] is a [Refusal], operation_failed.
func ParseRequest(args []string) (Request, error) {
	if len(args) < 3 || len(args) > 4 {
		return Request{}, refuse(OperationFailed, "a verb and a person are needed, and at most one word more")
	}
	for _, a := range args[1:] {
		if len(a) > maxArgument {
			return Request{}, refuse(OperationFailed, "an argument is longer than %d bytes", maxArgument)
		}
	}
	r, rest := Request{Verb: Verb(args[1]), Person: args[2]}, args[3:]
	known := false
	for _, v := range verbs {
		if v.verb != r.Verb {
			continue
		}
		if known = true; len(rest) < v.least || len(rest) > v.most {
			return Request{}, refuse(OperationFailed, "%s: wrong number of arguments", v.verb)
		}
	}
	if !known {
		return Request{}, refuse(OperationFailed, "unknown verb %q", args[1])
	}
	if _, err := ParseUserName(r.Person); err != nil {
		return Request{}, refuse(OperationFailed, "%v", err)
	}
	if len(rest) == 0 {
		return r, nil
	}
	var err error
	switch r.Verb {
	case VerbActor:
		r.Agent, err = bourn.ParseAgentName(rest[0])
	case VerbRevoke:
		r.Circle = rest[0]
		_, err = ParseGroupName(r.Circle)
	case VerbDial, VerbKill:
	}
	if err != nil {
		return Request{}, refuse(OperationFailed, "%v", err)
	}
	return r, nil
}

// Args returns the arguments that ParseRequest reads as r, without the program's name.
func (r Request) Args() []string {
	args := []string{string(r.Verb), r.Person}
	if r.Agent != "" {
		args = append(args, string(r.Agent))
	}
	if r.Circle != "" {
		args = append(args, r.Circle)
	}
	return args
}
