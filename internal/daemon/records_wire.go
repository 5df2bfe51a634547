package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
)

// What HTTP and the typed tools do with records, as whoever the transaction acts as.

// ids reads ids. The first error stays.
type ids struct{ err error }

// one reads an id; "" is none.
func (r *ids) one(text string) *store.ID {
	if text == "" || r.err != nil {
		return nil
	}
	id, err := store.ParseID(text)
	r.err = err
	return &id
}

// member reads a member's; "" is nobody's.
func (r *ids) member(text string) *store.MemberID { return (*store.MemberID)(r.one(text)) }

func recordFilter(q api.RecordsQuery) (f store.RecordFilter, err error) {
	f = store.RecordFilter{Collection: q.Collection, Words: q.Words, Visibility: store.Visibility(q.Visibility), Limit: q.Limit}
	r := ids{}
	f.After, r.err = store.ParsePlace(q.NextPage)
	f.Circle = r.one(q.Circle)
	return f, r.err
}

func taskFilter(q api.RecordsQuery) (f store.TaskFilter, err error) {
	f = store.TaskFilter{Status: store.Status(q.Status), Visibility: store.Visibility(q.Visibility), Limit: q.Limit}
	r := ids{}
	f.After, r.err = store.ParsePlace(q.NextPage)
	f.Circle, f.Record, f.Assignee = r.one(q.Circle), r.one(q.Record), r.member(q.Assignee)
	return f, r.err
}

func listRecords(ctx context.Context, q store.Querier, f store.RecordFilter) (api.Records, error) {
	all, next, err := store.Records(ctx, q, f)
	list := api.Records{Records: []api.Record{}, Next: next.String()}
	for _, r := range all {
		list.Records = append(list.Records, wireRecord(r))
	}
	return list, err
}

// maxNesting is how deep encoding/json writes; each level has two bytes at least. What others
// have written is in a member's lists: it is not to be so deep that there is no list.
const maxNesting = 10_000

func getRecord(ctx context.Context, q store.Querier, id string) (api.Record, error) {
	at, err := store.ParseID(id)
	if err != nil {
		return api.Record{}, err
	}
	r, err := store.GetRecord(ctx, q, at)
	return wireRecord(r), err
}

func newRecord(ctx context.Context, q store.Querier, n api.NewRecord) (api.Record, error) {
	var read ids
	circle := read.one(n.Circle)
	if err := cmp.Or(read.err, isObject(n.Body)); err != nil {
		return api.Record{}, err
	}
	r, err := store.AddRecord(ctx, q, store.NewRecord{Collection: n.Collection, Circle: circle, Visibility: store.Visibility(n.Visibility), Body: n.Body})
	return wireRecord(r), err
}

// isObject refuses a body that is no object.
func isObject(body json.RawMessage) error {
	if b := bytes.TrimSpace(body); len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("%w: body is a JSON object", bourn.ErrInvalid)
	}
	return nil
}

// given is nil for what was left out.
func given[T ~string](value string) *T {
	if value == "" {
		return nil
	}
	v := T(value)
	return &v
}

func changeRecord(ctx context.Context, q store.Querier, id string, c api.RecordChange) (api.Record, error) {
	at, err := store.ParseID(id)
	read := ids{err}
	change := store.RecordChange{Collection: c.Collection, Circle: read.one(c.Circle), Visibility: given[store.Visibility](c.Visibility), Body: c.Body}
	if err = read.err; err == nil && c.Body != nil {
		err = isObject(c.Body)
	}
	if err != nil {
		return api.Record{}, err
	}
	r, err := store.ChangeRecord(ctx, q, at, change)
	return wireRecord(r), err
}

func listTasks(ctx context.Context, q store.Querier, f store.TaskFilter) (api.Tasks, error) {
	all, next, err := store.Tasks(ctx, q, f)
	list := api.Tasks{Tasks: []api.Task{}, Next: next.String()}
	for _, t := range all {
		list.Tasks = append(list.Tasks, wireTask(t))
	}
	return list, err
}

func newTask(ctx context.Context, q store.Querier, n api.NewTask) (api.Task, error) {
	var read ids
	task := store.NewTask{Record: read.one(n.Record), Circle: read.one(n.Circle), Assignee: read.member(n.Assignee),
		Visibility: store.Visibility(n.Visibility), Title: n.Title, Status: store.Status(n.Status)}
	err := read.err
	if err == nil {
		task.Due, err = parseDay(n.Due)
	}
	if err != nil {
		return api.Task{}, err
	}
	t, err := store.AddTask(ctx, q, task)
	return wireTask(t), err
}

func changeTask(ctx context.Context, q store.Querier, id string, c api.TaskChange) (api.Task, error) {
	at, err := store.ParseID(id)
	read := ids{err}
	change := store.TaskChange{Title: c.Title, Status: given[store.Status](c.Status), Visibility: given[store.Visibility](c.Visibility), Circle: read.one(c.Circle)}
	if c.Assignee != nil {
		change.Unassign, change.Assignee = *c.Assignee == "", read.member(*c.Assignee)
	}
	if err = read.err; err == nil && c.Due != nil {
		change.NotDue = *c.Due == ""
		change.Due, err = parseDay(*c.Due)
	}
	if err != nil {
		return api.Task{}, err
	}
	t, err := store.ChangeTask(ctx, q, at, change)
	return wireTask(t), err
}

func wireRecord(r store.Record) api.Record {
	if len(r.Body) > 2*maxNesting && !json.Valid(r.Body) { // SQL nests deeper
		r.Body = json.RawMessage("null")
	}
	return api.Record{ID: r.ID.String(), Collection: r.Collection, Owner: r.Owner.String(), Visibility: string(r.Visibility), Circle: named(r.Circle), Body: r.Body, Created: r.CreatedAt, Updated: r.UpdatedAt}
}

func wireTask(t store.Task) api.Task {
	return api.Task{ID: t.ID.String(), Record: named(t.Record), Owner: t.Owner.String(), Assignee: named((*store.ID)(t.Assignee)), Visibility: string(t.Visibility), Circle: named(t.Circle),
		Title: t.Title, Status: string(t.Status), Due: t.Due, Created: t.CreatedAt, Updated: t.UpdatedAt}
}

// named is an id as it travels; none is "".
func named(id *store.ID) string {
	if id == nil {
		return ""
	}
	return id.String()
}
