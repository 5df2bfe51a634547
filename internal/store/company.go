package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A CompanyRecord says whose records these are. It is zero before the company has a name.
type CompanyRecord struct {
	Name      string
	UpdatedAt time.Time
}

// GetCompany returns what every member sees of the company.
func GetCompany(ctx context.Context, q Querier) (c CompanyRecord, err error) {
	if err := q.QueryRow(ctx, "select name, updated_at from app.company").Scan(&c.Name, &c.UpdatedAt); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return c, fmt.Errorf("cannot read the company: %w", classify(err))
	}
	return c, nil
}

// ChangeCompany gives the company its name, as an administrator.
func ChangeCompany(ctx context.Context, q Querier, name string) error {
	return changeRoster(ctx, q, "change the company", "select auth.change_company($1)", name)
}

// Members returns a page of the members, without removed ones, the oldest first, and where
// the next page begins. No member sees which users of the host they are.
func Members(ctx context.Context, q Querier, limit int, after Place) ([]SeenMember, Place, error) {
	c := conditions{}
	c.after(after, false)
	all, err := collect(ctx, q, pgx.RowToStructByPos[SeenMember], fmt.Sprintf(
		"select id, name, administrator, created_at from app.member where removed_at is null%s order by created_at, id limit %d", c.where, page(limit)), c.args...)
	if err != nil {
		return nil, Place{}, fmt.Errorf("cannot list members: %w", err)
	}
	all, next := cut(all, limit, func(m SeenMember) Place { return Place{m.CreatedAt, ID(m.ID)} })
	return all, next, nil
}

// A SeenMember is a member as the others see them.
type SeenMember struct {
	ID            MemberID
	Name          string
	Administrator bool
	CreatedAt     time.Time
}
