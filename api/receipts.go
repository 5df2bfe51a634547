package api

import (
	"context"
	"net/url"
	"time"
)

// Receipts are what a run's performed actions left, in the order of the log.
type Receipts struct {
	Run      string    `json:"run"`
	Receipts []Receipt `json:"receipts"`
}

// A Receipt says of one action that was let through what it was and what became of it. It is
// made of the log's entries of it, and holds nothing that they do not.
type Receipt struct {
	Seq     int64     `json:"seq"` // of its entry: the place in the log
	ID      string    `json:"id"`  // of its entry
	At      time.Time `json:"at"`
	Run     string    `json:"run"`
	Agent   string    `json:"agent,omitempty"`
	For     string    `json:"for,omitempty"` // the member that the agent acts for
	Tool    string    `json:"tool"`
	Target  string    `json:"target,omitempty"`
	Digest  string    `json:"digest,omitempty"`       // of the action, SHA-256
	Verdict string    `json:"verdict" enum:"allowed"` // what is refused is not performed
	By      string    `json:"by,omitempty"`           // what decided, where one thing did
	// State is unknown while the log has no outcome: it is performed now, or the control plane
	// ended meanwhile, and nobody knows.
	State    string        `json:"state" enum:"done,failed,denied,asked,unknown"`
	Reason   string        `json:"reason,omitempty"`      // why it failed
	Outcome  string        `json:"outcome,omitempty"`     // the id of the outcome's entry
	Duration int64         `json:"duration_us,omitempty"` // microseconds
	Status   *int          `json:"status,omitempty"`      // of a command
	Signal   string        `json:"signal,omitempty"`      // that ended it
	TimedOut bool          `json:"timed_out,omitempty"`
	Files    []ChangedFile `json:"files,omitempty"` // that the tool itself changed; a command's are not known
	// LeftOut is how many bytes the log left out of what became of it: of a patch to many files,
	// for one.
	LeftOut      int64    `json:"left_out_bytes,omitempty"`
	Verification bool     `json:"verification,omitempty"` // a command that verifies, and has passed
	Children     []string `json:"children,omitempty"`     // the runs that it started
}

// A ChangedFile is a file with the SHA-256 of what was in it before and after. One that was
// made has none before, one that was deleted none after.
type ChangedFile struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Capabilities say what a run's workflow may do next, and of what it may not, why. They are a
// safeguard of workflows and no boundary.
type Capabilities struct {
	Run     string    `json:"run"`
	Agent   string    `json:"agent,omitempty"`
	Action  string    `json:"action,omitempty"` // of the step: commit, or none
	Mutate  bool      `json:"mutate"`
	Commit  bool      `json:"commit"`
	Reasons []Missing `json:"reasons"`
}

// A Missing is one reason why a workflow may not do something.
type Missing struct {
	Of   string `json:"of" enum:"mutate,commit"`
	Code string `json:"code"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Receipts asks for receipts of a run. Its query has the keys after, most and newest, as that
// of Log.
func (c *Client) Receipts(ctx context.Context, run string, query url.Values) (r Receipts, err error) {
	return r, c.Do(ctx, "GET", "/v1/runs/"+url.PathEscape(run)+"/receipts?"+query.Encode(), nil, &r)
}

// Capabilities asks what a run's workflow may do next. Action is what its next step is, commit
// or "". Where path is given, it is judged whether that may be written.
func (c *Client) Capabilities(ctx context.Context, run, action, path string) (k Capabilities, err error) {
	query := url.Values{}
	for key, value := range map[string]string{"action": action, "path": path} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return k, c.Do(ctx, "GET", "/v1/runs/"+url.PathEscape(run)+"/capabilities?"+query.Encode(), nil, &k)
}
