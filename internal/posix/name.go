package posix

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"bourn"
)

// A Kind says what an account stands for.
type Kind string

// Kinds of accounts.
const (
	KindPerson Kind = "person"
	KindCircle Kind = "circle"
)

// Account names begin with their kind. A Linux user name has at most 32 bytes with its NUL
// (utmp(5), useradd(8)), so 31 characters, of which a short id may fill the rest.
const (
	personPrefix = "bc_person_"
	circlePrefix = "bc_circle_"
	minShort     = 10
	maxShort     = 31 - len(personPrefix)
)

// prefix returns how account names of the kind begin.
func (k Kind) prefix() string {
	switch k {
	case KindPerson:
		return personPrefix
	case KindCircle:
		return circlePrefix
	}
	return ""
}

// A ShortID is what tells one account name from another: 10 to 21 lower-case base32
// characters (RFC 4648, no padding), the beginning of SHA-256 over the id. It is lengthened
// where two ids begin alike, and never changes once given.
type ShortID string

// ParseShortID returns s as a short id; anything but its alphabet and length is ErrInvalid.
func ParseShortID(s string) (ShortID, error) {
	if len(s) < minShort || len(s) > maxShort {
		return "", fmt.Errorf("%w short id %q: must have %d to %d characters", bourn.ErrInvalid, s, minShort, maxShort)
	}
	for _, r := range s {
		if !('a' <= r && r <= 'z' || '2' <= r && r <= '7') {
			return "", fmt.Errorf("%w short id %q: use a-z and 2-7", bourn.ErrInvalid, s)
		}
	}
	return ShortID(s), nil
}

// ParseUserName returns the short id in a person's user name, bc_person_<short id>; anything
// else is ErrInvalid.
func ParseUserName(s string) (ShortID, error) { return parseName(KindPerson, s) }

// ParseGroupName returns the short id in a circle's group name, bc_circle_<short id>;
// anything else is ErrInvalid.
func ParseGroupName(s string) (ShortID, error) { return parseName(KindCircle, s) }

func parseName(kind Kind, s string) (ShortID, error) {
	short, found := strings.CutPrefix(s, kind.prefix())
	if !found {
		return "", fmt.Errorf("%w name of a %s %q: it does not begin with %s", bourn.ErrInvalid, kind, s, kind.prefix())
	}
	id, err := ParseShortID(short)
	if err != nil {
		return "", fmt.Errorf("%w name of a %s %q: %s must be followed by %d to %d characters of a-z and 2-7", bourn.ErrInvalid, kind, s, kind.prefix(), minShort, maxShort)
	}
	return id, nil
}

var shortEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// digest returns the characters that short ids of id are the beginning of.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return shortEncoding.EncodeToString(sum[:])
}

// shortID returns the shortest short id of a digest that taken does not hold. A name that
// cannot be lengthened further is ErrConflict.
func shortID(digest string, taken func(ShortID) bool) (ShortID, error) {
	for n := minShort; n <= maxShort; n++ {
		if short := ShortID(digest[:n]); !taken(short) {
			return short, nil
		}
	}
	return "", fmt.Errorf("%w: every name of this id is taken", bourn.ErrConflict)
}

// checkID holds ids of people and circles to what can be one element of a path.
func checkID(id string) error {
	if id == "" || len(id) > 64 {
		return fmt.Errorf("%w id %q: must have 1 to 64 characters", bourn.ErrInvalid, id)
	}
	for i, r := range id {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || i > 0 && (r == '-' || r == '_' || r == '.') {
			continue
		}
		return fmt.Errorf("%w id %q: use a-z, 0-9, '-', '_' and '.', beginning with a letter or a digit", bourn.ErrInvalid, id)
	}
	return nil
}
