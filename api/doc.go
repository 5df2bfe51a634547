// Package api is Bourn's HTTP interface as Go types, and its client. The server serves
// the same as OpenAPI 3.1 under /openapi.json.
package api

import (
	"encoding/json"
	"time"
)

// A Problem is an error as RFC 9457 writes it, with Bourn's code. What a caller sent is
// never in it, but for what it says of the hard blocks that somebody wants to save.
type Problem struct {
	Type     string   `json:"type"`               // always about:blank
	Title    string   `json:"title"`              // the HTTP status in words
	Status   int      `json:"status"`             // the HTTP status
	Code     string   `json:"code"`               // invalid, denied, parked, not_found, conflict, weak_host, unavailable, internal
	Reason   string   `json:"reason,omitempty"`   // one word more than the code, where there is one, as in actor_identity_missing
	Detail   string   `json:"detail,omitempty"`   // what went wrong; of an internal error only that it did
	Hint     string   `json:"hint,omitempty"`     // what to do next
	Instance string   `json:"instance,omitempty"` // the request's id, under which the log has the rest
	Errors   []Detail `json:"errors,omitempty"`   // each thing that is wrong, all at once
}

// A Detail is one thing that is wrong with what was sent.
type Detail struct {
	Location string `json:"location,omitempty"` // as in body.hardBlocks.3.pattern
	Code     string `json:"code,omitempty"`     // as in hardBlocks.3.pattern_regex_invalid
	Message  string `json:"message"`
}

// Health says whether the control plane does its work.
type Health struct {
	Status     string      `json:"status" enum:"ok,degraded,failing"`
	Version    string      `json:"version"`
	Components []Component `json:"components"`
}

// A Component is one part of the control plane.
type Component struct {
	Name   string `json:"name" enum:"database,log,boundaries"`
	Status string `json:"status" enum:"ok,degraded,failing"`
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Status says what the control plane is and what it is doing.
type Status struct {
	Health
	Home       string     `json:"home"`
	Pid        int        `json:"pid"`
	Started    time.Time  `json:"started"`
	Listens    []string   `json:"listens"`
	Database   Database   `json:"database"`
	Log        LogStatus  `json:"log"`
	Boundaries Boundaries `json:"boundaries"`
}

// Database says where records are kept.
type Database struct {
	Embedded bool   `json:"embedded"`
	Version  string `json:"version,omitempty"`
	Socket   string `json:"socket,omitempty"`
	Data     string `json:"data,omitempty"`
	User     string `json:"user,omitempty"` // the OS user that it runs as
}

// LogStatus says how far the log is written, chained and signed.
type LogStatus struct {
	ID       string    `json:"id"`
	Key      string    `json:"key"`      // the name of the signing key
	Position int64     `json:"position"` // the last place that is signed
	Signed   time.Time `json:"signed,omitzero"`
}

// Boundaries are the hard blocks in force.
type Boundaries struct {
	Version  int64           `json:"version"` // 0 while none was ever saved
	State    string          `json:"state" enum:"ok,invalid,none"`
	Rules    int             `json:"rules"`
	SavedAt  time.Time       `json:"saved_at,omitzero"`
	SavedBy  string          `json:"saved_by,omitempty"`
	Document json.RawMessage `json:"document,omitempty"`
	Problems []Detail        `json:"problems,omitempty"` // why the stored document is invalid
}

// SaveBoundaries asks for a new version after the one that the caller has seen.
type SaveBoundaries struct {
	After    int64           `json:"after" minimum:"0" maximum:"9007199254740991" doc:"the version that this one follows; 0 for the first"`
	Document json.RawMessage `json:"document" doc:"{\"version\":1,\"hardBlocks\":[…]}"`
}

// BoundariesHistory are the versions, the newest first.
type BoundariesHistory struct {
	Versions []Boundaries `json:"versions"`
}

// TestBoundaries asks which rules an action meets: one of Command, Argv and Path.
type TestBoundaries struct {
	Command   string   `json:"command,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Path      string   `json:"path,omitempty"`
	Operation string   `json:"operation,omitempty" enum:"read,write,delete,execute,delegate"`
	Dir       string   `json:"dir,omitempty" doc:"what relative paths are relative to"`
	// Document is tried in place of the rules in force, and nothing is saved.
	Document json.RawMessage `json:"document,omitempty"`
}

// TestedBoundaries says what the rules make of an action, and why.
type TestedBoundaries struct {
	Verdict string  `json:"verdict" enum:"allow,ask,deny"`
	Reason  string  `json:"reason,omitempty"`
	Matches []Match `json:"matches"`
}

// A Match is one rule that an action meets.
type Match struct {
	Rule   string `json:"rule"`
	On     string `json:"on"` // what of the action it matched, in its normal form
	Reason string `json:"reason,omitempty"`
}

// LogLine is an entry of the log with its place, which is 0 until it is chained.
type LogLine struct {
	Seq      int64           `json:"seq"`
	Position int64           `json:"position"`
	Entry    json.RawMessage `json:"entry"`
}

// LogLines are entries in the order they were written.
type LogLines struct {
	Lines []LogLine `json:"lines"`
}

// SignedStatement is a checkpoint of the log, as it can be kept elsewhere.
type SignedStatement struct {
	Statement []byte `json:"statement"`
	Signature []byte `json:"signature"`
}

// VerifyLog asks for a verification that also holds checkpoints kept elsewhere against
// the log.
type VerifyLog struct {
	Checkpoints []SignedStatement `json:"checkpoints,omitempty" maxItems:"10000"`
}

// VerifiedLog says what a verification found.
type VerifiedLog struct {
	Log        string          `json:"log"`
	Key        string          `json:"key"`
	Entries    int64           `json:"entries"`
	First      int64           `json:"first"`
	Last       int64           `json:"last"`
	Covered    int64           `json:"covered"`
	Pruned     int64           `json:"pruned"`
	Unchained  int64           `json:"unchained"`
	Problems   []LogProblem    `json:"problems"`
	Checkpoint SignedStatement `json:"checkpoint,omitzero"` // the newest, to be kept elsewhere

	Older map[string]int64 `json:"older,omitempty" doc:"statements that keys which are in keys/ signed, by the key's name"`
}

// A LogProblem is one thing in the log that does not fit.
type LogProblem struct {
	Position int64  `json:"position"`
	What     string `json:"what"`
}

// NewDiagnosticsToken asks for a token that may read health, status, metrics and traces.
type NewDiagnosticsToken struct {
	Name    string    `json:"name" minLength:"1" maxLength:"200"`
	Expires time.Time `json:"expires,omitzero" doc:"left out: never"`
}

// DiagnosticsToken is what is kept of a token; Token is there once, when it is made.
type DiagnosticsToken struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	Expires   *time.Time `json:"expires,omitempty"`
	Revoked   *time.Time `json:"revoked,omitempty"`
	Token     string     `json:"token,omitempty"`
}

// DiagnosticsTokens are all tokens, the newest first.
type DiagnosticsTokens struct {
	Tokens []DiagnosticsToken `json:"tokens"`
}

// Share asks for a copy of a person's file or directory in the directory of a circle.
type Share struct {
	From   string `json:"from" minLength:"1" maxLength:"4096" doc:"relative to the person's home, or absolute"`
	Circle string `json:"circle" minLength:"1" maxLength:"64" doc:"by its id"`
	To     string `json:"to,omitempty" maxLength:"4096" doc:"in the circle's directory; without it, the name that it has"`
	Agent  string `json:"agent,omitempty" maxLength:"64" doc:"the person's agent that does it; without one, the person"`
}

// Shared is what was copied into a circle.
type Shared struct {
	Path        string `json:"path"` // of the copy
	Files       int    `json:"files"`
	Directories int    `json:"directories"`
	Bytes       int64  `json:"bytes"`
}

// NewAgentToken asks for a token with which a client asks for an agent's tools at /mcp.
type NewAgentToken struct {
	Name    string    `json:"name" minLength:"1" maxLength:"200"`
	Agent   string    `json:"agent" minLength:"1" maxLength:"64"`
	Dir     string    `json:"dir" minLength:"1" maxLength:"4096" doc:"absolute: what relative paths begin in"`
	Expires time.Time `json:"expires"`
}

// AgentToken is what is kept of a token; Token is there once, when it is made.
type AgentToken struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Agent     string     `json:"agent"`
	Dir       string     `json:"dir"`
	CreatedAt time.Time  `json:"created_at"`
	Expires   time.Time  `json:"expires"`
	Revoked   *time.Time `json:"revoked,omitempty"`
	Token     string     `json:"token,omitempty"`
}

// AgentTokens are the tokens of who asks, the newest first.
type AgentTokens struct {
	Tokens []AgentToken `json:"tokens"`
}

// A Span is one finished piece of work of a trace.
type Span struct {
	Trace        string    `json:"trace"`
	ID           string    `json:"id"`
	Parent       string    `json:"parent,omitempty"`
	Name         string    `json:"name"`
	Start        time.Time `json:"start"`
	Microseconds int64     `json:"microseconds"`
	Failed       bool      `json:"failed,omitempty"`
}

// Traces are the newest spans, the oldest first.
type Traces struct {
	Spans []Span `json:"spans"`
}
