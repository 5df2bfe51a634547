package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
)

// What HTTP and the typed tools do with records, as whoever the transaction acts as.

// optionalID reads an id; "" is none.
func optionalID(text string) (*store.ID, error) {
	if text == "" {
		return nil, nil
	}
	id, err := store.ParseID(text)
	return &id, err
}

// ids reads several at once.
func ids(into map[**store.ID]string) error {
	for at, text := range into {
		id, err := optionalID(text)
		if err != nil {
			return err
		}
		*at = id
	}
	return nil
}

func recordFilter(q api.RecordsQuery) (f store.RecordFilter, err error) {
	f = store.RecordFilter{Collection: q.Collection, Words: q.Words, Visibility: store.Visibility(q.Visibility), Limit: q.Limit}
	if f.After, err = store.ParsePlace(q.NextPage); err == nil {
		f.Circle, err = optionalID(q.Circle)
	}
	return f, err
}

func taskFilter(q api.RecordsQuery) (f store.TaskFilter, err error) {
	f = store.TaskFilter{Status: store.Status(q.Status), Visibility: store.Visibility(q.Visibility), Limit: q.Limit}
	var assignee *store.ID
	if f.After, err = store.ParsePlace(q.NextPage); err == nil {
		err = ids(map[**store.ID]string{&f.Circle: q.Circle, &f.Record: q.Record, &assignee: q.Assignee})
	}
	f.Assignee = (*store.MemberID)(assignee)
	return f, err
}

func listRecords(ctx context.Context, q store.Querier, f store.RecordFilter) (api.Records, error) {
	all, next, err := store.Records(ctx, q, f)
	list := api.Records{Records: []api.Record{}, Next: next.String()}
	for _, r := range all {
		list.Records = append(list.Records, wireRecord(r))
	}
	return list, err
}

func getRecord(ctx context.Context, q store.Querier, id string) (api.Record, error) {
	at, err := store.ParseID(id)
	if err != nil {
		return api.Record{}, err
	}
	r, err := store.GetRecord(ctx, q, at)
	return wireRecord(r), err
}

func newRecord(ctx context.Context, q store.Querier, n api.NewRecord) (api.Record, error) {
	circle, err := optionalID(n.Circle)
	if err == nil {
		err = isObject(n.Body)
	}
	if err != nil {
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
	change := store.RecordChange{Collection: c.Collection, Visibility: given[store.Visibility](c.Visibility), Body: c.Body}
	if err == nil {
		change.Circle, err = optionalID(c.Circle)
	}
	if err == nil && c.Body != nil {
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
	task := store.NewTask{Visibility: store.Visibility(n.Visibility), Title: n.Title, Status: store.Status(n.Status)}
	var assignee *store.ID
	err := ids(map[**store.ID]string{&task.Record: n.Record, &task.Circle: n.Circle, &assignee: n.Assignee})
	if err == nil {
		task.Due, err = parseDay(n.Due)
	}
	if err != nil {
		return api.Task{}, err
	}
	task.Assignee = (*store.MemberID)(assignee)
	t, err := store.AddTask(ctx, q, task)
	return wireTask(t), err
}

func changeTask(ctx context.Context, q store.Querier, id string, c api.TaskChange) (api.Task, error) {
	at, err := store.ParseID(id)
	change := store.TaskChange{Title: c.Title, Status: given[store.Status](c.Status), Visibility: given[store.Visibility](c.Visibility)}
	var assignee *store.ID
	if c.Assignee != nil && err == nil {
		change.Unassign = *c.Assignee == ""
		assignee, err = optionalID(*c.Assignee)
	}
	if c.Due != nil && err == nil {
		change.NotDue = *c.Due == ""
		change.Due, err = parseDay(*c.Due)
	}
	if err == nil {
		change.Circle, err = optionalID(c.Circle)
	}
	if err != nil {
		return api.Task{}, err
	}
	change.Assignee = (*store.MemberID)(assignee)
	t, err := store.ChangeTask(ctx, q, at, change)
	return wireTask(t), err
}

func wireRecord(r store.Record) api.Record {
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
