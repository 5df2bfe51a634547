package audit

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"bourn"
)

// A Kind says what an entry is about. The list is closed.
type Kind string

// The kinds of entries.
const (
	KindAction  Kind = "action"  // something was asked for, and judged; before its effect
	KindOutcome Kind = "outcome" // what became of the entry that Of names
	KindChange  Kind = "change"  // of boundaries, grants, members, tokens; before it holds
	KindSession Kind = "session" // a sign-in, a session issued or revoked
	KindRun     Kind = "run"     // a seal was installed, a run ended
	KindService Kind = "service" // the control plane itself: started, stopped, pruned
)

// An Outcome says how an entry's subject was decided or how it ended.
type Outcome string

// The outcomes.
const (
	Allowed Outcome = "allowed"
	Denied  Outcome = "denied"
	Asked   Outcome = "asked"
	Done    Outcome = "done"
	Failed  Outcome = "failed"
)

// known are the closed lists; an entry may have no outcome.
var (
	kinds    = map[Kind]bool{KindAction: true, KindOutcome: true, KindChange: true, KindSession: true, KindRun: true, KindService: true}
	outcomes = map[Outcome]bool{"": true, Allowed: true, Denied: true, Asked: true, Done: true, Failed: true}
)

// Limits of an entry, so that no writer fills the log with one line.
const (
	maxText   = 1 << 10  // bytes of one text
	maxDetail = 16 << 10 // bytes of the detail
)

// An Entry is one line of the log. It never changes. What is longer than a line can hold
// is cut and marked so; a secret is never part of one: its writer has redacted it.
type Entry struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Kind   Kind      `json:"kind"`
	Who    string    `json:"who"`              // the principal that asked, as in member:…, agent:…, host
	For    string    `json:"for,omitempty"`    // the member that it acted for
	Agent  string    `json:"agent,omitempty"`  // the agent, by name
	Run    string    `json:"run,omitempty"`    // the run, by id
	What   string    `json:"what"`             // the tool or verb
	Target string    `json:"target,omitempty"` // what it was about, redacted
	Digest string    `json:"digest,omitempty"` // of the exact bytes, SHA-256
	By     string    `json:"by,omitempty"`     // the item or rule that decided
	Reason string    `json:"reason,omitempty"`

	Outcome  Outcome         `json:"outcome,omitempty"`
	Of       string          `json:"of,omitempty"`          // the entry that this is the outcome of
	Duration int64           `json:"duration_us,omitempty"` // microseconds
	Repeated int             `json:"repeated,omitempty"`    // how many like it are not written
	Trace    string          `json:"trace,omitempty"`       // the trace's id, hexadecimal
	Detail   json.RawMessage `json:"detail,omitempty"`
}

// NewID returns a random id (RFC 9562 version 4).
func NewID() string {
	var id [16]byte
	rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// validID reports whether s is an id as NewID writes one, of any version.
func validID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (s[i] == '-') || !hyphen && strings.IndexByte("0123456789abcdef", s[i]) < 0 {
			return false
		}
	}
	return true
}

// Encode returns the bytes of an entry as they are kept and chained. Missing id and
// time are given; texts are cut to their limits. What comes back can be stored: an entry
// that one database refused would keep back all that are committed with it.
func (e *Entry) Encode(now time.Time) ([]byte, error) {
	if e.ID == "" {
		e.ID = NewID()
	}
	if e.At.IsZero() {
		e.At = now
	}
	// PostgreSQL keeps microseconds.
	e.At = e.At.UTC().Truncate(time.Microsecond)
	if e.Who == "" || e.What == "" {
		return nil, fmt.Errorf("%w: an entry of the log says who did what", bourn.ErrInternal)
	}
	if !kinds[e.Kind] || !outcomes[e.Outcome] || !validID(e.ID) || e.At.Year() < 1 || e.At.Year() > 9999 {
		return nil, fmt.Errorf("%w: an entry of the log has a kind, an outcome, an id or a time that there is not", bourn.ErrInternal)
	}
	for _, text := range []*string{&e.Who, &e.For, &e.Agent, &e.Run, &e.What, &e.Target, &e.Digest, &e.By, &e.Reason, &e.Of, &e.Trace} {
		*text = cut(*text)
	}
	e.Detail = storable(e.Detail)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("%w: cannot write an entry of the log: %w", bourn.ErrInternal, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// storable returns a detail that PostgreSQL can hold and look into: it knows no NUL, not
// even as an escape, and no half of a surrogate pair. What cannot be kept is counted.
func storable(detail json.RawMessage) json.RawMessage {
	if len(detail) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(detail))
	d.UseNumber()
	var v any
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if len(detail) > maxDetail || d.Decode(&v) != nil || d.More() || enc.Encode(v) != nil || b.Len() > maxDetail || bytes.Contains(b.Bytes(), []byte(`\u0000`)) {
		return json.RawMessage(fmt.Sprintf(`{"left_out_bytes":%d}`, len(detail)))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// cut shortens a text to its limit, at a character's end, and takes out what a
// terminal or PostgreSQL (NUL) would trip over.
func cut(s string) string {
	// No more than can be kept is looked at, and something is over. Printable never shortens.
	s = bourn.Printable(s[:min(len(s), maxText+utf8.UTFMax)])
	if len(s) <= maxText {
		return s
	}
	const mark = " …cut"
	n := maxText - len(mark)
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + mark
}
