package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"bourn"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A MemberID names a member. Its zero value names none.
type MemberID [16]byte

// NewMemberID returns a random id (RFC 9562 version 4).
func NewMemberID() MemberID {
	var id MemberID
	rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (id MemberID) String() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText writes the id as PostgreSQL does.
func (id MemberID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ScanUUID and UUIDValue are pgx's way to an uuid.
func (id *MemberID) ScanUUID(v pgtype.UUID) error {
	if !v.Valid {
		return errors.New("cannot read a member's id: null")
	}
	*id = v.Bytes
	return nil
}

// UUIDValue implements pgtype.UUIDValuer.
func (id MemberID) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: id, Valid: true}, nil }

// A Member is a human as both databases know them.
type Member struct {
	ID            MemberID
	Name          string
	Administrator bool
	// UID is the OS user that is this member at the local socket; nil for none.
	UID     *uint32
	Removed bool
}

// PutMember writes a member to both databases. Removing one ends all of its sessions.
// The record comes first: what was cut short between the two is mended by SyncRoster.
func (s *Store) PutMember(ctx context.Context, m Member) error {
	for _, pool := range []*pgxpool.Pool{s.issuer, s.control} {
		if err := putMember(ctx, pool, m); err != nil {
			return fmt.Errorf("cannot write the member %q: %w", bourn.Printable(m.Name), err)
		}
	}
	return nil
}

func putMember(ctx context.Context, pool *pgxpool.Pool, m Member) error {
	var uid *int64
	if m.UID != nil {
		n := int64(*m.UID)
		uid = &n
	}
	_, err := pool.Exec(ctx, "select auth.put_member($1, $2, $3, $4, $5)", m.ID, m.Name, m.Administrator, uid, m.Removed)
	return classify(err)
}

// Roster returns the members, removed ones too, oldest first.
func (s *Store) Roster(ctx context.Context) ([]Member, error) { return roster(ctx, s.issuer) }

func roster(ctx context.Context, pool *pgxpool.Pool) ([]Member, error) {
	rows, err := pool.Query(ctx, "select id, name, administrator, os_uid, removed from auth.roster()")
	if err != nil {
		return nil, classify(err)
	}
	members, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Member, error) {
		var m Member
		var uid *int64
		err := row.Scan(&m.ID, &m.Name, &m.Administrator, &uid, &m.Removed)
		if uid != nil {
			n := uint32(*uid)
			m.UID = &n
		}
		return m, err
	})
	return members, classify(err)
}

// SyncRoster writes to control what the record says of its members and circles, where they
// differ.
func (s *Store) SyncRoster(ctx context.Context) error {
	want, err := s.Roster(ctx)
	if err != nil {
		return err
	}
	has, err := roster(ctx, s.control)
	if err != nil {
		return err
	}
	known := map[MemberID]Member{}
	for _, m := range has {
		known[m.ID] = m
	}
	for _, m := range want {
		if same(known[m.ID], m) {
			continue
		}
		if err := putMember(ctx, s.control, m); err != nil {
			return err
		}
	}
	return s.syncCircles(ctx)
}

func same(a, b Member) bool {
	if (a.UID == nil) != (b.UID == nil) || a.UID != nil && *a.UID != *b.UID {
		return false
	}
	return a.ID == b.ID && a.Name == b.Name && a.Administrator == b.Administrator && a.Removed == b.Removed
}
