package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bourn"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A SeenCircle is a circle as members see it.
type SeenCircle struct {
	ID        ID
	Name      string
	FromHost  bool // it is changed with the host's people, and not here
	CreatedAt time.Time
	Members   []MemberID
}

// Circles returns a page of the circles with who is in each, the oldest first, and where the
// next page begins.
func Circles(ctx context.Context, q Querier, limit int, after Place) ([]SeenCircle, Place, error) {
	c := conditions{}
	c.after(after, false)
	all, err := collect(ctx, q, pgx.RowToStructByPos[SeenCircle], fmt.Sprintf(`
		with page as (select id, name, from_host, created_at from app.circle where true%s order by created_at, id limit %d),
			inside as (select circle_id, array_agg(member_id order by member_id) as members from app.circle_member group by circle_id)
		select p.id, p.name, p.from_host, p.created_at, coalesce(i.members, '{}') from page p left join inside i on i.circle_id = p.id
		order by p.created_at, p.id`, c.where, page(limit)), c.args...)
	if err != nil {
		return nil, Place{}, fmt.Errorf("cannot list circles: %w", err)
	}
	all, next := cut(all, limit, func(c SeenCircle) Place { return Place{c.CreatedAt, c.ID} })
	return all, next, nil
}

// PutCircle makes a circle or names one anew, as an administrator.
func PutCircle(ctx context.Context, q Querier, id ID, name string) error {
	return changeRoster(ctx, q, "write the circle", "select auth.put_circle($1, $2)", id, name)
}

// RemoveCircle removes a circle, as an administrator: who was in it sees its records no more,
// but for their own.
func RemoveCircle(ctx context.Context, q Querier, id ID) error {
	return changeRoster(ctx, q, "remove the circle "+id.String(), "select auth.remove_circle($1)", id)
}

// PutCircleMember puts a member into a circle, as an administrator.
func PutCircleMember(ctx context.Context, q Querier, circle ID, member MemberID) error {
	return changeRoster(ctx, q, "put a member into the circle "+circle.String(), "select auth.put_circle_member($1, $2)", circle, member)
}

// RemoveCircleMember takes a member out of a circle, as an administrator.
func RemoveCircleMember(ctx context.Context, q Querier, circle ID, member MemberID) error {
	return changeRoster(ctx, q, "take a member out of the circle "+circle.String(), "select auth.remove_circle_member($1, $2)", circle, member)
}

// changeRoster runs one of the functions that change the roster for administrators.
func changeRoster(ctx context.Context, q Querier, what, sql string, args ...any) error {
	_, err := q.Exec(ctx, sql, args...)
	err = classify(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bourn.ErrDenied):
		return bourn.WithHint(fmt.Errorf("%w: only administrators may %s, and no agent", bourn.ErrDenied, what), "ask an administrator")
	case errors.Is(err, bourn.ErrNotFound):
		return bourn.WithHint(fmt.Errorf("cannot %s: %w: there is no such circle or member", what, err), "GET /v1/circles and /v1/members list them")
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// A RosterCircle is a circle as both databases know it.
type RosterCircle struct {
	ID   ID
	Name string
	// Host is the circle's id in the host's registry; nil where administrators keep it.
	Host    *string
	Removed bool
	Members []MemberID // sorted, without removed ones
}

// RosterCircles returns the circles, removed ones too, the oldest first.
func (s *Store) RosterCircles(ctx context.Context) ([]RosterCircle, error) {
	return rosterCircles(ctx, s.issuer)
}

func rosterCircles(ctx context.Context, pool *pgxpool.Pool) ([]RosterCircle, error) {
	rows, err := pool.Query(ctx, "select id, name, host_id, removed, members from auth.circle_roster()")
	if err != nil {
		return nil, classify(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[RosterCircle])
	return all, classify(err)
}

// WriteCircle writes a circle with exactly these members to both databases: who left sees
// its records no more from their next statement on.
func (s *Store) WriteCircle(ctx context.Context, c RosterCircle) error {
	for _, pool := range []*pgxpool.Pool{s.issuer, s.control} {
		if err := writeCircle(ctx, pool, c); err != nil {
			return fmt.Errorf("cannot write the circle %q: %w", bourn.Printable(c.Name), err)
		}
	}
	return nil
}

func writeCircle(ctx context.Context, pool *pgxpool.Pool, c RosterCircle) error {
	_, err := pool.Exec(ctx, "select auth.write_circle($1, $2, $3, $4, $5)", c.ID, c.Name, c.Host, c.Removed, c.Members)
	return classify(err)
}

// syncCircles writes to control what the record says of its circles, where they differ.
func (s *Store) syncCircles(ctx context.Context) error {
	want, err := s.RosterCircles(ctx)
	if err != nil {
		return err
	}
	has, err := rosterCircles(ctx, s.control)
	if err != nil {
		return err
	}
	known := map[ID]RosterCircle{}
	for _, c := range has {
		known[c.ID] = c
	}
	for _, c := range want {
		if c.Same(known[c.ID]) {
			continue
		}
		if err := writeCircle(ctx, s.control, c); err != nil {
			return err
		}
	}
	return nil
}

// Same reports whether two are one circle as it stands.
func (c RosterCircle) Same(d RosterCircle) bool {
	sameHost := (c.Host == nil) == (d.Host == nil) && (c.Host == nil || *c.Host == *d.Host)
	return c.ID == d.ID && c.Name == d.Name && sameHost && c.Removed == d.Removed && slices.Equal(c.Members, d.Members)
}
