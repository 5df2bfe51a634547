package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/posix"
	"bourn/internal/workspace"
)

// On a shared host the setuid helper is the one way to a person's files, and one process of
// the control plane's is the one that may take it:
//
//	control plane ── request, socket, pipe (SCM_RIGHTS) ──▶ helper runner ──▶ bourn-posix-helper
//	  no_new_privs ◀──────── how it ended ────────────────      not dumpable          │
//	      └── PostgreSQL, tools, …: no_new_privs                                      ▼
//	      ◀────────────────── what the person's process says ──────────── bourn, as the person
//
// The runner is started before anything else, on an unnamed socket pair, and ends with the
// control plane. Then the control plane gives up, on every thread, what setuid programs
// give: nothing that it starts from there on can become a person.

// HelperRole is the first argument of the process that executes the helper.
const HelperRole = "helper-runner"

// HelperName is the helper's path below the prefix that the control plane's own program is
// installed in.
const HelperName = "libexec/bourn/bourn-posix-helper"

// HelperRunner is the role of the process that executes the helper. It returns the exit
// status; started by anything but a control plane it does nothing.
func HelperRunner() int { return helperRunner() }

// helperPath is where the helper stands, whose control plane stands in PREFIX/bin.
func helperPath() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(filepath.Dir(self)), HelperName), nil
}

// helperOrder is one execution of the helper, as the runner is told. The first message names
// the helper alone.
type helperOrder struct {
	ID     uint64   `json:"id,omitempty"`
	Helper string   `json:"helper,omitempty"`
	Args   []string `json:"args,omitempty"`
}

// helperEnd is how one ended.
type helperEnd struct {
	ID     uint64 `json:"id"`
	Status int    `json:"status"`          // 128 and more: a signal
	Error  string `json:"error,omitempty"` // why it was not executed
}

// maxOrder is more bytes than an order or an end has.
const maxOrder = 8 << 10

// nobodyIs is a well-formed user name that stands for nobody in a registry: what the helper
// answers to it shows whether it could become somebody.
func nobodyIs(r posix.Registry) string {
	name := []byte("bc_person_aaaaaaaaaa")
	for taken := true; taken; {
		taken = false
		for _, e := range r.People {
			if e.Name == string(name) {
				taken = true
				name[len(name)-1]++ // there are more letters than people of one name
			}
		}
	}
	return string(name)
}

// unavailable is the answer where nobody can be become.
func unavailable(hint, text string) *workspace.Problem {
	return &workspace.Problem{Code: posix.RuntimeUnavailable.Code(), Reason: string(posix.RuntimeUnavailable), Text: bourn.Printable(text), Hint: hint}
}

// helperSaid divides what the helper has said into its reason, and what to do.
func helperSaid(said []byte) (text, hint string) {
	for line := range bytes.Lines(said) {
		s := strings.TrimSpace(string(line))
		if h, is := strings.CutPrefix(s, "hint: "); is {
			hint = h
			continue
		}
		s = strings.TrimPrefix(s, "bourn-posix-helper: ")
		for _, r := range []posix.Reason{posix.IdentityMissing, posix.RuntimeUnavailable, posix.PermissionDenied, posix.NotFound, posix.AlreadyExists, posix.InvalidPath, posix.OperationFailed} {
			s = strings.TrimPrefix(s, string(r)+": ")
		}
		if text == "" {
			text = s
		}
	}
	if text == "" {
		text = "it said nothing"
	}
	return bourn.Printable(text), bourn.Printable(hint)
}

// helperProblem is what the helper's end comes to where it gave a reason.
func helperProblem(end helperEnd, said []byte) *workspace.Problem {
	if end.Error != "" {
		return unavailable("see that "+HelperName+" is installed as Bourn's package does it, and start the control plane again", "the helper cannot be executed: "+end.Error)
	}
	reason, known := posix.ReasonOf(end.Status)
	if !known {
		return nil
	}
	text, hint := helperSaid(said)
	if hint == "" {
		hint = helperHints[reason]
	}
	return &workspace.Problem{Code: reason.Code(), Reason: string(reason), Text: text, Hint: hint}
}

// helperHints are what to do about a refusal of the helper's that does not say so itself.
var helperHints = map[posix.Reason]string{
	posix.IdentityMissing:    "ask an administrator, who may run: bourn people list",
	posix.RuntimeUnavailable: "ask an administrator, who may run: bourn people sync",
	posix.PermissionDenied:   "ask an administrator, who may run: bourn people list",
	posix.OperationFailed:    "the control plane's log says more",
}
