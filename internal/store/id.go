package store

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5/pgtype"
)

// An ID names a circle, a record or a task. Its zero value names none.
type ID [16]byte

// ParseID reads an id as PostgreSQL writes it; ErrInvalid for anything else.
func ParseID(text string) (id ID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err == nil && len(b) == len(id) {
		id = ID(b)
	}
	if err != nil || id.String() != text {
		return ID{}, fmt.Errorf("%w: an id is a lower-case uuid", bourn.ErrInvalid)
	}
	return id, nil
}

func (id ID) String() string { return MemberID(id).String() }

// MarshalText writes the id as PostgreSQL does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ScanUUID and UUIDValue are pgx's way to an uuid.
func (id *ID) ScanUUID(v pgtype.UUID) error {
	if !v.Valid {
		return errors.New("cannot read an id: null")
	}
	*id = v.Bytes
	return nil
}

// UUIDValue implements pgtype.UUIDValuer.
func (id ID) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: id, Valid: true}, nil }

// A Place is where a page of a list ends and the next begins. Its zero value is the beginning.
type Place struct {
	at time.Time
	id ID
}

// ParsePlace reads what String wrote; "" is the beginning.
func ParsePlace(text string) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 8+len(ID{}) {
		return Place{}, bourn.WithHint(fmt.Errorf("%w: the list has no such place", bourn.ErrInvalid), "give the place that the page before ended with, or none")
	}
	return Place{time.UnixMicro(int64(binary.BigEndian.Uint64(b))), ID(b[8:])}, nil
}

// String writes the place for who asks for the next page.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(p.at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(b, p.id[:]...))
}

// The pages of lists.
const (
	PageMost    = 200 // on one page
	PageDefault = 50
)

// page returns how many are asked for: one more than are wanted, which tells that there are more.
func page(limit int) int {
	if limit <= 0 {
		limit = PageDefault
	}
	return min(limit, PageMost) + 1
}

// cut returns what belongs on the page, and where the next one begins.
func cut[T any](all []T, limit int, at func(T) Place) ([]T, Place) {
	if n := page(limit) - 1; len(all) > n {
		return all[:n], at(all[n-1])
	}
	return all, Place{}
}

// conditions makes the where clause of a list: only what was asked for is in it, so that each
// finds its index.
type conditions struct {
	where string
	args  []any
}

// add adds a condition whose one %s is the value's parameter.
func (c *conditions) add(condition string, value any) {
	c.args = append(c.args, value)
	c.where += " and " + fmt.Sprintf(condition, fmt.Sprintf("$%d", len(c.args)))
}

// after adds that a row comes after a place, the newest first or the oldest.
func (c *conditions) after(p Place, newest bool) {
	if p == (Place{}) {
		return
	}
	sign := map[bool]string{true: "<", false: ">"}[newest]
	c.args = append(c.args, p.at, p.id)
	c.where += fmt.Sprintf(" and (created_at, id) %s ($%d, $%d)", sign, len(c.args)-1, len(c.args))
}
