package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"

	"bourn"
)

// ExecProtocol is what a connection is taken over for at /v1/people/{person}/exec: a command
// that is executed as a person.
//
//	client                                   control plane
//	   │ ── start: Exec ─────────────────────▶ │ it is reviewed, logged, and started
//	   │ ── input, end ──────────────────────▶ │ ExecWindow of them ahead at most
//	   │ ◀──────────────────────────── taken ─ │ one more may come
//	   │ ── size: ExecSize ──────────────────▶ │ of the terminal
//	   │ ◀────────────────── output, errors ── │ as fast as they are taken
//	   │ ◀──────────────────── done: Executed ─│ once, and the connection ends
//
// A frame is its kind, one byte, a length of four, big endian, and that many bytes. A client
// that goes ends the command.
const ExecProtocol = "bourn-exec"

// Limits of the protocol.
const (
	ExecWindow = 16       // frames of input that are on their way at once
	ExecPiece  = 32 << 10 // bytes of such a frame
	maxExec    = 1 << 20  // bytes of any frame
)

// An ExecKind is what a frame holds.
type ExecKind byte

// The kinds of frames.
const (
	ExecStart  ExecKind = 's' // an Exec
	ExecInput  ExecKind = 'i' // what the command reads
	ExecEnd    ExecKind = 'e' // nothing more comes of that
	ExecTaken  ExecKind = 't' // one of these two has been taken
	ExecResize ExecKind = 'r' // an ExecSize
	ExecOutput ExecKind = 'o' // what the command prints
	ExecErrors ExecKind = 'x' // and what it prints to standard error
	ExecDone   ExecKind = 'd' // an Executed
)

// An Exec is a command that is to be executed.
type Exec struct {
	Command  []string `json:"command"`
	Dir      string   `json:"dir,omitempty"` // relative to the person's home; empty for that
	Terminal bool     `json:"terminal,omitempty"`
	Term     string   `json:"term,omitempty"` // which kind it is: TERM
	Size     ExecSize `json:"size,omitzero"`
}

// An ExecSize is that of a terminal, in characters.
type ExecSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Executed is how a command has ended, or why there was none.
type Executed struct {
	Status  int      `json:"status"` // 128 and the signal's number where one ended it
	Signal  string   `json:"signal,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Err is the problem as an error.
func (e Executed) Err() error {
	if e.Problem == nil {
		return nil
	}
	return &Error{Problem: *e.Problem}
}

// Exec asks for a connection on which a command is executed as a person, for an agent or, with
// "", under the base seal. The command is sent then: see ExecProtocol.
func (c *Client) Exec(ctx context.Context, person, agent string) (net.Conn, error) {
	path := "/v1/people/" + url.PathEscape(person) + "/exec"
	if agent != "" {
		path += "?agent=" + url.QueryEscape(agent)
	}
	return c.Upgrade(ctx, path, ExecProtocol)
}

// WriteExec sends a frame of bytes.
func WriteExec(w io.Writer, kind ExecKind, b []byte) error {
	frame := make([]byte, 5, 5+len(b))
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(b)))
	_, err := w.Write(append(frame, b...))
	return err
}

// WriteExecOf sends a frame of a value.
func WriteExecOf(w io.Writer, kind ExecKind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxExec {
		return fmt.Errorf("%w: a command of %d bytes; %d fit", bourn.ErrInvalid, len(b), maxExec)
	}
	return WriteExec(w, kind, b)
}

// ReadExec returns the next frame; io.EOF where the other side has gone between two.
func ReadExec(r io.Reader) (ExecKind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxExec {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes; %d fit", bourn.ErrInvalid, n, maxExec)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return ExecKind(head[0]), b, err
}

// DecodeExec reads the value of a frame, which has no field that is not known.
func DecodeExec(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: a frame that cannot be read: %w", bourn.ErrInvalid, err)
	}
	return nil
}
