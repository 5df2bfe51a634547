// Package worker is how the control plane has children started: what both sides say to each
// other. The worker is a process outside of seals, as the person: the launcher of a run, whose
// children get a part of that run's grants, or one that is there for a member's work alone.
//
//	control plane                                worker
//	   │ ◀───────────── hello ───────────────────  │ protocol; what its run is denied
//	   │ ── prepare R: task, root, narrowing ────▶ │ opens the root, narrows, plans; starts nothing
//	   │ ◀───────────── prepared R: problem? ────  │
//	   │ ── start R ─────────────────────────────▶ │ seals it
//	   │ ◀───────────── started R ───────────────  │ or ended, with a problem
//	   │ ◀───────────── output R: stream, bytes ─  │ 16 pieces ahead at most
//	   │ ── taken R ─────────────────────────────▶ │ one more may come
//	   │ ── end R ───────────────────────────────▶ │ TERM, KILL later; one that was not started is forgotten
//	   │ ◀───────────── ended R: status, … ──────  │ exactly one for each that was prepared
//	   ╳ either side goes away                     ╳ so does every child, with all it started
//
// R is the child's run: the control plane gives its id. A frame is a length of four bytes, big
// endian, and that many bytes of JSON, which is read strictly.
//
// # What it upholds
//
// Whoever does not read holds up the child that writes, and no memory grows. When a side
// returns, no child of the connection is left.
//
// # What it does not
//
// It judges nothing: the worker's handler does, and the control plane did before.
//
// # Needs
//
// Nothing.
package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"bourn"
	"bourn/internal/workspace"
)

// Protocol is the version of what both sides speak.
const Protocol = 1

const (
	maxFrame = 16 << 20 // bytes
	maxPiece = 32 << 10 // bytes of output in one message
	window   = 16       // pieces of a child's output that are on their way at once
)

// Problem is why something was not done.
type Problem = workspace.Problem

// A Job is a child to be: a run of its own.
type Job struct {
	Parent  string         `json:"parent"` // the run that hands it over
	Caller  string         `json:"caller,omitempty"`
	Root    workspace.Root `json:"root"` // where it works, as the caller's actor opened it
	Work    workspace.Job  `json:"work"`
	Inherit Inherited      `json:"inherit,omitzero"` // for a member under its own profile
}

// Inherited is what a run is denied, for those who do its work under another profile. What
// hard blocks close is not among it: they hold for every run.
type Inherited struct {
	Denies  []Deny   `json:"denies,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
	Records string   `json:"records,omitempty"` // all that it does with records: write, read or none
	Objects []Object `json:"objects,omitempty"` // that were found for Denies and for hard blocks
	Untold  bool     `json:"untold,omitempty"`  // these were too many: nobody else can be kept from them
}

// An Object is what a pattern denied, whatever it is called by now.
type Object struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"` // where it was
	Root    string `json:"root"` // which it has not left by a rename
	Dev     uint64 `json:"dev"`
	Ino     uint64 `json:"ino"`
	Born    int64  `json:"born"` // nanoseconds since 1970
}

// A Deny closes a path or what a pattern matches.
type Deny struct {
	Pattern string `json:"pattern"`
	Glob    bool   `json:"glob,omitempty"`
}

// A Stream is one of a command's two.
type Stream int

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// An Ended says how a child ended. With a problem it was not executed, or its end is not
// known.
type Ended struct {
	Status   int      `json:"status"`
	Signal   string   `json:"signal,omitempty"`
	TimedOut bool     `json:"timed_out,omitempty"`
	Files    []string `json:"files,omitempty"` // with the whole of what is longer than Tail
	Refusals []string `json:"refusals,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Problem  *Problem `json:"problem,omitempty"`
}

// Tail is how much of each stream's end is answered, in bytes.
const Tail = 64 << 10

// message is a frame: one of its fields is set, besides ID.
type message struct {
	ID       string    `json:"id,omitempty"`
	Hello    *hello    `json:"hello,omitempty"`
	Prepare  *Job      `json:"prepare,omitempty"`
	Prepared *prepared `json:"prepared,omitempty"`
	Start    bool      `json:"start,omitempty"`
	Started  bool      `json:"started,omitempty"`
	Output   *output   `json:"output,omitempty"`
	Taken    bool      `json:"taken,omitempty"`
	End      bool      `json:"end,omitempty"`
	Ended    *Ended    `json:"ended,omitempty"`
}

type hello struct {
	Protocol int       `json:"protocol"`
	Denied   Inherited `json:"denied,omitzero"`
}

type prepared struct {
	Problem *Problem `json:"problem,omitempty"`
}

type output struct {
	Stream Stream `json:"stream"`
	Bytes  []byte `json:"bytes"`
}

// one reports whether exactly one field is set.
func (m message) one() bool {
	n := 0
	for _, set := range []bool{m.Hello != nil, m.Prepare != nil, m.Prepared != nil, m.Start, m.Started, m.Output != nil, m.Taken, m.End, m.Ended != nil} {
		if set {
			n++
		}
	}
	return n == 1
}

// channel sends and receives frames. Sending is safe for several at once, receiving for one.
type channel struct {
	r  io.Reader
	mu sync.Mutex
	w  io.Writer
}

func (c *channel) send(m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("%w: a message of %d bytes; %d fit", bourn.ErrInvalid, len(body), maxFrame)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.w.Write(append(frame, body...))
	return err
}

// receive returns the next frame; io.EOF where the other side has gone between two.
func (c *channel) receive() (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return message{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return message{}, fmt.Errorf("%w: a message of %d bytes; %d fit", bourn.ErrInvalid, n, maxFrame)
	}
	// What has not come takes no room: the length is only said.
	body, err := io.ReadAll(io.LimitReader(c.r, int64(n)))
	if err != nil {
		return message{}, err
	}
	if len(body) < int(n) {
		return message{}, io.ErrUnexpectedEOF
	}
	var m message
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return message{}, fmt.Errorf("%w: a message that cannot be read: %w", bourn.ErrInvalid, err)
	}
	if _, err := dec.Token(); err != io.EOF || !m.one() { //nolint:errorlint // Token returns it as it is
		return message{}, fmt.Errorf("%w: a message that is none, or more than one", bourn.ErrInvalid)
	}
	return m, nil
}

// problemOf is an error as the other side gets it.
func problemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	return workspace.ProblemOf(err)
}

// giveUp is how long a worker has to answer what was to end before it is given up whole: more
// than a command has between TERM and KILL, see package launch.
const giveUp = 20 * time.Second
