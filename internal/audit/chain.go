package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"bourn"
)

// A Hash is one link's.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String wrote.
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("%w hash %q: want %d hexadecimal digits", bourn.ErrInvalid, bourn.Printable(s), 2*len(h))
	}
	return Hash(b), nil
}

// Genesis is the hash before the first link of the log with that id, so that one log's
// entries are none of another's.
func Genesis(log string) Hash {
	return sha256.Sum256([]byte("bourn log 1\x00" + log))
}

// Next is the hash of the link at a place (the first is 1) after the link before.
func Next(before Hash, position int64, body []byte) Hash {
	h := sha256.New()
	h.Write([]byte("bourn link 1\x00"))
	h.Write(before[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(position)))
	h.Write(body)
	return Hash(h.Sum(nil))
}

// A Statement is what a checkpoint signs, or the closing of a segment that was pruned.
type Statement struct {
	Version  int       `json:"version"`
	Type     string    `json:"type"` // checkpoint, closing
	Log      string    `json:"log"`
	First    int64     `json:"first,omitempty"` // of a closing: the first place of the segment
	Position int64     `json:"position"`        // the last place covered
	Hash     string    `json:"hash"`            // of the link there
	At       time.Time `json:"at"`
	Key      string    `json:"key"` // the signing key's name
}

// The types of statements.
const (
	TypeCheckpoint = "checkpoint"
	TypeClosing    = "closing"
)

// Signed is a statement with its signature: the exact bytes, as they can be sent away.
type Signed struct {
	Bytes     []byte `json:"statement"`
	Signature []byte `json:"signature"`
}

// KeyName names a public key in statements: the first 16 hexadecimal digits of its
// SHA-256.
func KeyName(key ed25519.PublicKey) string {
	h := sha256.Sum256(key)
	return hex.EncodeToString(h[:8])
}

const signContext = "bourn statement 1\x00"

// Sign signs a statement.
func Sign(key ed25519.PrivateKey, s Statement) (Signed, error) {
	s.Version = 1
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Signed{}, fmt.Errorf("%w: the log's key is no Ed25519 key", bourn.ErrInternal)
	}
	s.Key = KeyName(public)
	s.At = s.At.UTC().Truncate(time.Microsecond)
	text, err := json.Marshal(s)
	if err != nil {
		return Signed{}, err
	}
	return Signed{text, ed25519.Sign(key, append([]byte(signContext), text...))}, nil
}

// claimed is the name of the key that s says it is signed by, which nothing vouches for.
func (s Signed) claimed() string {
	var st Statement
	if json.Unmarshal(s.Bytes, &st) != nil {
		return ""
	}
	if name, err := hex.DecodeString(st.Key); err != nil || len(name) != 8 {
		return "" // no name of a key
	}
	return st.Key
}

// OpenBy is Open with the first of several keys that fits.
func (s Signed) OpenBy(keys ...ed25519.PublicKey) (st Statement, err error) {
	err = fmt.Errorf("%w: no key to open a statement with", bourn.ErrInternal)
	for _, key := range keys {
		if st, err = s.Open(key); err == nil {
			return st, nil
		}
	}
	return st, err
}

// Open returns the statement of s if key signed it, and ErrDenied otherwise.
func (s Signed) Open(key ed25519.PublicKey) (Statement, error) {
	if !ed25519.Verify(key, append([]byte(signContext), s.Bytes...), s.Signature) {
		return Statement{}, fmt.Errorf("%w: the signature is not that of the key %s", bourn.ErrDenied, KeyName(key))
	}
	var st Statement
	if err := json.Unmarshal(s.Bytes, &st); err != nil || st.Version != 1 {
		return Statement{}, fmt.Errorf("%w: a signed statement that this version cannot read", bourn.ErrInvalid)
	}
	return st, nil
}
