package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A Task is one thing to be done. Whom it is assigned to sees it and changes its status; the
// rest is its owner's to change.
type Task struct {
	ID         ID
	Record     *ID // that it is about; it stays so
	Owner      MemberID
	Assignee   *MemberID
	Circle     *ID
	Visibility Visibility
	Title      string
	Status     Status
	Due        string // a day as in 2026-12-31, "" for none
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// A Status says how a task stands.
type Status string

// The statuses.
const (
	StatusOpen    Status = "open"
	StatusDoing   Status = "doing"
	StatusDone    Status = "done"
	StatusDropped Status = "dropped"
)

const taskColumns = "id, record_id, owner_id, assignee_id, circle_id, visibility, title, status, coalesce(due::text, ''), created_at, updated_at"

func scanTask(row pgx.CollectableRow) (t Task, err error) {
	var visibility, status string
	err = row.Scan(&t.ID, &t.Record, &t.Owner, &t.Assignee, &t.Circle, &visibility, &t.Title, &status, &t.Due, &t.CreatedAt, &t.UpdatedAt)
	t.Visibility, t.Status = Visibility(visibility), Status(status)
	return t, err
}

// A TaskFilter says which tasks are wanted; its zero value means all that are seen.
type TaskFilter struct {
	Status     Status
	Assignee   *MemberID
	Record     *ID
	Circle     *ID
	Visibility Visibility
	Limit      int // 0 means PageDefault, and no page has more than PageMost
	After      Place
}

// query is the statement that finds a page and one more, the newest first.
func (f TaskFilter) query() (string, []any) {
	c := conditions{}
	if f.Record != nil {
		c.add("record_id = %s", *f.Record)
	}
	if f.Assignee != nil {
		c.add("assignee_id = %s", *f.Assignee)
	}
	if f.Status != "" {
		c.add("status = %s", string(f.Status))
	}
	c.shared(f.Circle, f.Visibility)
	c.after(f.After, true)
	return fmt.Sprintf("select %s from app.task where deleted_at is null%s order by created_at desc, id desc limit %d", taskColumns, c.where, page(f.Limit)), c.args
}

// Tasks returns a page of the tasks that the member sees, the newest first, and where the
// next page begins.
func Tasks(ctx context.Context, q Querier, f TaskFilter) ([]Task, Place, error) {
	sql, args := f.query()
	all, err := collect(ctx, q, scanTask, sql, args...)
	if err != nil {
		return nil, Place{}, fmt.Errorf("cannot list tasks: %w", err)
	}
	all, next := cut(all, f.Limit, func(t Task) Place { return Place{t.CreatedAt, t.ID} })
	return all, next, nil
}

// GetTask returns a task that the member sees. One that is hidden and one that is not there
// are the same ErrNotFound.
func GetTask(ctx context.Context, q Querier, id ID) (Task, error) {
	all, err := collect(ctx, q, scanTask, "select "+taskColumns+" from app.task where id = $1 and deleted_at is null", id)
	return one(all, err, "task", id)
}

// A NewTask is what a member wants done.
type NewTask struct {
	Record     *ID // one that they see
	Assignee   *MemberID
	Circle     *ID
	Visibility Visibility // "" means Circle with a circle, and else Private
	Title      string
	Status     Status // "" means StatusOpen
	Due        *time.Time
}

// AddTask keeps a task of the member's.
func AddTask(ctx context.Context, q Querier, n NewTask) (Task, error) {
	if n.Status == "" {
		n.Status = StatusOpen
	}
	visibility, err := seenBy(n.Visibility, n.Circle)
	if err != nil {
		return Task{}, err
	}
	all, err := collect(ctx, q, scanTask, `insert into app.task (record_id, assignee_id, circle_id, visibility, title, status, due)
		values ($1, $2, $3, $4, $5, $6, $7) returning `+taskColumns,
		n.Record, n.Assignee, n.Circle, string(visibility), n.Title, string(n.Status), day(n.Due))
	if err != nil {
		return Task{}, refused("make the task", err)
	}
	return one(all, nil, "task", ID{})
}

// day is a parameter for a day.
func day(t *time.Time) pgtype.Date {
	if t == nil {
		return pgtype.Date{}
	}
	return pgtype.Date{Time: *t, Valid: true}
}

// A TaskChange is what becomes of a task; what is nil stays. Circle and Visibility are as
// those of RecordChange.
type TaskChange struct {
	Circle     *ID
	Visibility *Visibility
	Assignee   *MemberID
	Unassign   bool
	Title      *string
	Status     *Status
	Due        *time.Time
	NotDue     bool
}

// ChangeTask changes a task of the member's own, or the status of one that is assigned to
// them. Another's that they see is ErrDenied.
func ChangeTask(ctx context.Context, q Querier, id ID, c TaskChange) (Task, error) {
	all, err := collect(ctx, q, scanTask, `update app.task set title = coalesce($4::text, title), status = coalesce($5::text, status),
		assignee_id = case when not $7::boolean then coalesce($6::uuid, assignee_id) end,
		due = case when not $9::boolean then coalesce($8::date, due) end, `+sharedAs+`
		where id = $1 and deleted_at is null returning `+taskColumns,
		id, c.Circle, (*string)(c.Visibility), c.Title, (*string)(c.Status), c.Assignee, c.Unassign, day(c.Due), c.NotDue)
	if err != nil {
		return Task{}, refused("change the task "+id.String(), err)
	}
	if len(all) == 0 {
		return Task{}, unchanged(ctx, q, "task", id)
	}
	return all[0], nil
}

// DeleteTask deletes a task of the member's own: nobody else sees it any more.
func DeleteTask(ctx context.Context, q Querier, id ID) error {
	return remove(ctx, q, "task", id)
}
