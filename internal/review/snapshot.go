package review

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strconv"

	"bourn"
)

// SnapshotName is the file in $BOURN_HOME that holds the published boundaries, and
// ConfiguredName the one beside it that says that there are some: with it, a snapshot
// that is missing refuses.
const (
	SnapshotName   = "boundaries.json"
	ConfiguredName = "boundaries.configured"
)

const snapshotContext = "bourn boundaries 1\x00"

// published is a snapshot's outer form: the exact bytes that were signed.
type published struct {
	Snapshot  []byte `json:"snapshot"`
	Signature []byte `json:"signature"`
}

// snapshot is its inner form.
type snapshot struct {
	Version    int             `json:"version"`
	Boundaries int64           `json:"boundaries"` // their version
	Valid      bool            `json:"valid"`
	Document   json.RawMessage `json:"document,omitempty"`
}

// Publish returns the boundaries of a version as a signed text, for readers without a
// daemon. Boundaries that are not valid are published as that.
func Publish(key ed25519.PrivateKey, boundaries int64, b Boundaries, valid bool) ([]byte, error) {
	s := snapshot{Version: 1, Boundaries: boundaries, Valid: valid}
	if valid {
		s.Document = b.Encode()
	}
	inner, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	signature := ed25519.Sign(key, append([]byte(snapshotContext), inner...))
	text, err := json.MarshalIndent(published{inner, signature}, "", "  ")
	return append(text, '\n'), err
}

// Published reads what Publish wrote, and returns the boundaries with their version. A
// text that key did not sign, that cannot be read, or that says the boundaries are not
// valid, is an error.
func Published(key ed25519.PublicKey, text []byte, base Base) (Boundaries, int64, error) {
	b, at, err := Signed(key, text)
	if err != nil {
		return b, at, err
	}
	p := &parser{base: base}
	for i, r := range b.HardBlocks {
		p.pattern(r, "hardBlocks."+strconv.Itoa(i))
	}
	if len(p.problems) == 0 {
		p.examples(b)
	}
	if len(p.problems) > 0 {
		return Boundaries{}, at, fmt.Errorf("%w: the published boundaries (version %d) are not valid: %s", bourn.ErrInvalid, at, p.problems[0])
	}
	return b, at, nil
}

// Signed is Published for who judges nothing by the patterns: that each can be compiled, and
// does what its examples say, was for the signer to see and is not looked at again, since
// a start does not wait for it.
func Signed(key ed25519.PublicKey, text []byte) (Boundaries, int64, error) {
	var p published
	if err := json.Unmarshal(text, &p); err != nil {
		return Boundaries{}, 0, fmt.Errorf("%w: the published boundaries cannot be read", bourn.ErrInvalid)
	}
	if !ed25519.Verify(key, append([]byte(snapshotContext), p.Snapshot...), p.Signature) {
		return Boundaries{}, 0, fmt.Errorf("%w: the published boundaries are not signed by this host's key", bourn.ErrDenied)
	}
	var s snapshot
	if err := json.Unmarshal(p.Snapshot, &s); err != nil || s.Version != 1 {
		return Boundaries{}, 0, fmt.Errorf("%w: the published boundaries are of another version of bourn", bourn.ErrInvalid)
	}
	if !s.Valid {
		return Boundaries{}, s.Boundaries, fmt.Errorf("%w: the stored boundaries (version %d) are not valid", bourn.ErrInvalid, s.Boundaries)
	}
	b, err := readCanonical(s.Document)
	if err != nil {
		return Boundaries{}, s.Boundaries, fmt.Errorf("%w: the published boundaries (version %d) are not valid: %w", bourn.ErrInvalid, s.Boundaries, err)
	}
	return b, s.Boundaries, nil
}
