package workspace

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"bourn"
)

// A Job is a piece of work that is handed to a child: a run of its own, under a part of what
// the caller is granted. A list that is nil keeps what is granted, an empty one keeps
// nothing of it.
type Job struct {
	Task    string        `json:"task"`
	Root    string        `json:"root"`            // where the child works, as it was given
	Agent   string        `json:"agent,omitempty"` // that does it under its own profile; "" for the caller's
	Read    []string      `json:"read,omitzero"`
	Write   []string      `json:"write,omitzero"`
	Deny    []string      `json:"deny,omitzero"` // besides what is denied
	Hosts   []string      `json:"hosts,omitzero"`
	Tools   []string      `json:"tools,omitzero"`
	Env     []string      `json:"env,omitzero"`     // names
	Records string        `json:"records,omitzero"` // "" keeps the caller's; read or none
	Timeout time.Duration `json:"timeout,omitzero"` // 0 for none besides the run's own
}

// MaxTask is the longest task, in bytes: it is one argument of a program, and the kernel
// takes no longer one than 128 KiB (execve(2), MAX_ARG_STRLEN).
const MaxTask = 120 << 10

// Check returns why a job is none, or nil.
func (j Job) Check() error {
	switch {
	case j.Task == "":
		return fmt.Errorf("%w: task is missing", bourn.ErrInvalid)
	case len(j.Task) > MaxTask:
		return bourn.WithHint(fmt.Errorf("%w: the task has %d bytes; %d fit", bourn.ErrInvalid, len(j.Task), MaxTask), "write it to a file, and name the file in the task")
	case strings.ContainsRune(j.Task, 0):
		return fmt.Errorf("%w: the task holds a NUL, which no argument of a program can", bourn.ErrInvalid)
	case j.Timeout < 0:
		return fmt.Errorf("%w: timeout is a number of seconds", bourn.ErrInvalid)
	}
	return nil
}

func (j Job) isText() bool {
	for _, list := range [][]string{{j.Task, j.Root, j.Agent, j.Records}, j.Read, j.Write, j.Deny, j.Hosts, j.Tools, j.Env} {
		for _, s := range list {
			if !utf8.ValidString(s) {
				return false
			}
		}
	}
	return true
}

// delegateTargets are what delegating jobs is judged for: where each works.
func delegateTargets(jobs []Job) []bourn.Target {
	var all []bourn.Target
	for _, j := range jobs {
		all = append(all, bourn.Target{Operation: bourn.Delegate, Path: j.Root})
	}
	return all
}

// A Root is a directory that was opened and judged: which it is, and not only where.
type Root struct {
	Path string `json:"path"` // without symbolic links
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// DelegateResult has the root of each job, in order.
type DelegateResult struct {
	Roots []Root `json:"roots"`
}

// A JobResult is what came of a job. Of each stream there is the end.
type JobResult struct {
	Child    string   `json:"child,omitempty"` // the run; "" where none was started
	Status   int      `json:"status"`
	Signal   string   `json:"signal,omitempty"`
	TimedOut bool     `json:"timed_out,omitempty"`
	Stdout   []byte   `json:"stdout,omitempty"`
	Stderr   []byte   `json:"stderr,omitempty"`
	LeftOut  int64    `json:"left_out,omitempty"` // bytes of both that came before
	Files    []string `json:"files,omitempty"`    // that have the whole of a stream that is cut
	Refusals []string `json:"refusals,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Problem  *Problem `json:"problem,omitempty"` // why it was not done, or not to its end
}

// JobResults are what came of several jobs, in order.
type JobResults struct {
	Jobs []JobResult `json:"jobs"`
}

// Raw returns the results as a tool reads them.
func (r JobResults) Raw() (Raw, error) {
	text, err := json.Marshal(r)
	return Raw{JSON: text}, err
}

// Open opens a root as a place, following no symbolic link on the way. Where another object
// stands there than was judged, the error is ErrDenied.
func (r Root) Open() (*os.File, error) { return openRoot(r) }

// ProblemOf is an error as it travels: its code, text and hint.
func ProblemOf(err error) *Problem { return problemOf(err) }
