package workspace

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"bourn"
)

// A Verb is what an actor can be asked to do. The list is closed.
type Verb string

// The verbs.
const (
	Read    Verb = "read"    // a file's bytes
	List    Verb = "list"    // a directory's entries, to a depth
	Find    Verb = "find"    // the paths below one that a glob fits
	Inspect Verb = "inspect" // what a path is
	Search  Verb = "search"  // the lines that a text or pattern fits
	Write   Verb = "write"   // a whole file
	Edit    Verb = "edit"    // one exact text for another
	Patch   Verb = "patch"   // a unified diff, whole or not at all
	Delete  Verb = "delete"  // a file, or an empty directory
	Move    Verb = "move"    // a path to another
	Exec    Verb = "exec"    // a program or a shell's text
	Git     Verb = "git"     // status or diff, with nothing of the repository executed
	Share   Verb = "share"   // a copy of a file or a directory for a circle
	// Delegate opens where jobs are to work; whoever starts them is not the actor.
	Delegate Verb = "delegate"
	// Both are for the control plane to perform, with the company's records; no actor does.
	RecordsRead  Verb = "records-read"
	RecordsWrite Verb = "records-write"
)

// OfRecords reports whether the control plane performs it, with the company's records.
func (v Verb) OfRecords() bool { return v == RecordsRead || v == RecordsWrite }

// A Request is one call: what an agent asked for, by the tool's name, in the form that is
// reviewed, digested and performed.
type Request struct {
	Tool    string   `json:"tool"` // the governed tool that it came as
	Verb    Verb     `json:"verb"`
	Path    string   `json:"path,omitempty"` // as it was given; relative to the working directory
	To      string   `json:"to,omitempty"`   // of a move or a share
	Offset  int64    `json:"offset,omitempty"`
	Limit   int64    `json:"limit,omitempty"`
	Depth   int      `json:"depth,omitempty"`
	Glob    string   `json:"glob,omitempty"`
	Query   string   `json:"query,omitempty"`
	Regex   bool     `json:"regex,omitempty"`
	Content []byte   `json:"content,omitempty"` // of a write; a patch's text
	Old     string   `json:"old,omitempty"`
	New     string   `json:"new,omitempty"`
	Command string   `json:"command,omitempty"` // a shell's text; or
	Argv    []string `json:"argv,omitempty"`    // a program with its arguments
	Cwd     string   `json:"cwd,omitempty"`
	Env     []string `json:"env,omitempty"` // NAME=value, besides what the run has
	Pty     bool     `json:"pty,omitempty"`
	// Attached: what a command reads comes while it runs, and what it prints is handed out as
	// it comes and not answered with. It ends with its call, and at no time of its own. Size is
	// that of its terminal, with Pty.
	Attached bool `json:"attached,omitempty"`
	Size     Size `json:"size,omitzero"`
	// Verifies: who asks says that the command verifies the work. It changes nothing here.
	Verifies bool `json:"verifies,omitempty"`
	// Timeout ends what is executed; 0 means the actor's own limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Jobs are what is handed to children, Parallel how many of them run at once.
	Jobs     []Job `json:"jobs,omitempty"`
	Parallel int   `json:"parallel,omitempty"`
	// Input is what is done with records, as JSON in the tool's own form.
	Input json.RawMessage `json:"input,omitempty"`
}

// verbs is the one table of what each verb does to which of a request's paths. Review asks
// it on both sides, so that an operation is judged wherever it occurs.
var verbs = map[Verb]struct {
	tier bourn.Tier
	path []bourn.Operation // to Path
	to   []bourn.Operation // to To
}{
	Read:    {bourn.TierRead, []bourn.Operation{bourn.Read}, nil},
	List:    {bourn.TierRead, []bourn.Operation{bourn.Read}, nil},
	Find:    {bourn.TierRead, []bourn.Operation{bourn.Read}, nil},
	Inspect: {bourn.TierRead, []bourn.Operation{bourn.Read}, nil},
	Search:  {bourn.TierRead, []bourn.Operation{bourn.Read}, nil},
	Write:   {bourn.TierWrite, []bourn.Operation{bourn.Write}, nil},
	Edit:    {bourn.TierWrite, []bourn.Operation{bourn.Read, bourn.Write}, nil},
	Patch:   {bourn.TierWrite, nil, nil}, // its own paths, see Action
	Delete:  {bourn.TierWrite, []bourn.Operation{bourn.Delete}, nil},
	// What is moved can be read afterwards where it has come to.
	Move: {bourn.TierWrite, []bourn.Operation{bourn.Read, bourn.Delete}, []bourn.Operation{bourn.Write}},
	// What is shared is read here and written there; what is below a directory, see share.
	Share: {bourn.TierWrite, []bourn.Operation{bourn.Read}, []bourn.Operation{bourn.Write}},
	Exec:  {bourn.TierWrite, nil, nil}, // its command, see Action
	Git:   {bourn.TierRead, []bourn.Operation{bourn.Read}, nil},

	Delegate: {bourn.TierWrite, nil, nil}, // where its jobs work, see Action

	RecordsRead:  {bourn.TierRead, nil, nil}, // no path: the database decides
	RecordsWrite: {bourn.TierWrite, nil, nil},
}

// maxPatch is the longest patch, in bytes.
const maxPatch = 8 << 20

// Action returns what review judges, the same on both sides for the same request. Resolved
// paths are the actor's to add. A text that is no UTF-8 is ErrInvalid: JSON would change it
// on the way.
func (r Request) Action() (bourn.Action, error) {
	v, known := verbs[r.Verb]
	if !known {
		return bourn.Action{}, fmt.Errorf("%w: no verb %q", bourn.ErrInvalid, r.Verb)
	}
	if !r.isText() {
		return bourn.Action{}, &Problem{Code: bourn.CodeInvalid, Reason: "invalid_text", Text: "the request holds a text that is no UTF-8"}
	}
	a := bourn.Action{Tool: r.Tool, Tier: v.tier}
	for _, o := range v.path {
		a.Targets = append(a.Targets, bourn.Target{Operation: o, Path: r.Path})
	}
	for _, o := range v.to {
		a.Targets = append(a.Targets, bourn.Target{Operation: o, Path: r.To})
	}
	if r.Verb == Patch {
		files, err := parsePatch(r.Content)
		if err != nil {
			return bourn.Action{}, err
		}
		a.Targets = append(a.Targets, patchTargets(r.Path, files)...)
	}
	if r.Verb == Exec {
		a.Command = &bourn.Command{Text: r.Command, Argv: r.Argv, Cwd: r.Cwd, Env: r.variables()}
	}
	if r.Verb == Delegate {
		a.Targets = append(a.Targets, delegateTargets(r.Jobs)...)
	}
	input, err := r.digest()
	a.Input = input
	return a, err
}

// variables are the names of what a command gets besides what the run has.
func (r Request) variables() []string {
	var names []string
	for _, v := range r.Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}

// digest is that of every field, so that no two requests have the same one.
func (r Request) digest() (string, error) {
	content := digest(r.Content)
	r.Content = nil
	rest, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("%w: the request cannot be written: %w", bourn.ErrInternal, err)
	}
	return digest(append(rest, content...)), nil
}

func (r Request) isText() bool {
	for _, s := range []string{r.Tool, r.Path, r.To, r.Glob, r.Query, r.Old, r.New, r.Command, r.Cwd} {
		if !utf8.ValidString(s) {
			return false
		}
	}
	if !utf8.Valid(r.Input) {
		return false
	}
	for _, j := range r.Jobs {
		if !j.isText() {
			return false
		}
	}
	for _, s := range r.Argv {
		if !utf8.ValidString(s) {
			return false
		}
	}
	for _, s := range r.Env {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}
