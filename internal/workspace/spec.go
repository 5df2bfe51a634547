package workspace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"bourn"
)

// A Spec is what the control plane of a shared host hands to the launcher of a person's
// actor, which has already become that person, on the connection that the actor speaks on
// from then on:
//
//	control plane ── spec ──▶ launcher (the person) ── seals ──▶ actor
//	              ◀──────────── hello, or why there is none ─────┘
//
// All that the launcher needs comes with it: what the service keeps is nothing that a person
// could read.
type Spec struct {
	Protocol int             `json:"protocol"`
	Version  string          `json:"version"` // of the control plane
	Person   string          `json:"person"`  // the user name: whom the launcher must be
	Agent    bourn.AgentName `json:"agent,omitempty"`
	Profile  []byte          `json:"profile,omitempty"` // the agent's; without an agent there is none
	Rules    []byte          `json:"rules,omitempty"`   // the published hard blocks, signed; none: the host never had any
	Key      []byte          `json:"key,omitempty"`     // what they are signed by: identity.pub
	Dir      string          `json:"dir"`               // the working directory
	Run      string          `json:"run"`               // the id that the run gets
	// Read and Write are the places of the base seal, that of a person's actor without an agent.
	// For an agent they say what others than the person may have written.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
}

// maxSpec is the longest spec, in bytes: a profile and the host's hard blocks fit.
const maxSpec = 32 << 20

// WriteSpec sends a spec.
func WriteSpec(w io.Writer, s Spec) error {
	s.Protocol = Protocol
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(body) > maxSpec {
		return fmt.Errorf("%w: a spec of %d bytes; %d fit", bourn.ErrInvalid, len(body), maxSpec)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	_, err = w.Write(append(frame, body...))
	return err
}

// ReadSpec takes exactly a spec's bytes from r: what follows is the actor's. version is the
// launcher's own; a control plane of another one is refused.
func ReadSpec(r io.Reader, version string) (Spec, error) {
	var s Spec
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return s, fmt.Errorf("%w: nothing says what to start: %w", bourn.ErrInvalid, err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxSpec {
		return s, fmt.Errorf("%w: a spec of %d bytes; %d fit", bourn.ErrInvalid, n, maxSpec)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return s, fmt.Errorf("%w: what to start is cut short: %w", bourn.ErrInvalid, err)
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("%w: what to start cannot be read", bourn.ErrInvalid)
	}
	if s.Protocol != Protocol || s.Version != version {
		return s, otherVersion
	}
	return s, nil
}

// otherVersion is the answer to programs that were not installed together.
var otherVersion = &Problem{Code: bourn.CodeConflict, Reason: "actor_runtime_unavailable", Text: "the actor is of another version of bourn",
	Hint: "install bourn and bournd of one version, and start both again"}

// Refuse says on the connection of an actor why there is none.
func Refuse(w io.Writer, why error) error {
	return newChannel(readWriter{w}).send(message{Done: &done{Problem: problemOf(why)}})
}

// readWriter is a writer from which nothing is read.
type readWriter struct{ io.Writer }

func (readWriter) Read([]byte) (int, error) { return 0, errors.New("nothing is read here") }
