package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/store"
	"bourn/internal/workspace"
)

// A recordsTool is what a typed tool does with records: the same as over HTTP, as the member
// whose agent it is.
type recordsTool func(ctx context.Context, q store.Querier, input []byte) (any, error)

// recordsTools are the typed tools. What each takes was read strictly before; see package tool.
var recordsTools = map[string]recordsTool{
	"records_list": typed(func(ctx context.Context, q store.Querier, in recordsListed) (api.Records, error) {
		f, err := recordFilter(in.query())
		if err != nil {
			return api.Records{}, err
		}
		return listRecords(ctx, q, f)
	}),
	"records_get": typed(func(ctx context.Context, q store.Querier, in api.Made) (api.Record, error) {
		return getRecord(ctx, q, in.ID)
	}),
	"records_create": typed(newRecord),
	"records_update": typed(func(ctx context.Context, q store.Querier, in withID[api.RecordChange]) (api.Record, error) {
		return changeRecord(ctx, q, in.id, in.change)
	}),
	"records_delete": typed(func(ctx context.Context, q store.Querier, in api.Made) (api.Made, error) {
		id, err := store.ParseID(in.ID)
		if err != nil {
			return in, err
		}
		return in, store.DeleteRecord(ctx, q, id)
	}),
	"tasks_list": typed(func(ctx context.Context, q store.Querier, in recordsListed) (api.Tasks, error) {
		f, err := taskFilter(in.query())
		if err != nil {
			return api.Tasks{}, err
		}
		return listTasks(ctx, q, f)
	}),
	"tasks_create": typed(newTask),
	"tasks_update": typed(func(ctx context.Context, q store.Querier, in withID[api.TaskChange]) (api.Task, error) {
		return changeTask(ctx, q, in.id, in.change)
	}),
}

// recordsListed is what the tools that list take.
type recordsListed struct {
	Collection, Q, Status, Assignee, Record, Circle, Visibility, After string
	Limit                                                              int
}

func (l recordsListed) query() api.RecordsQuery {
	return api.RecordsQuery{Collection: l.Collection, Words: l.Q, Status: l.Status, Assignee: l.Assignee, Record: l.Record, Circle: l.Circle, Visibility: l.Visibility, NextPage: l.After, Limit: l.Limit}
}

// withID is a change with the id of what it is of beside it.
type withID[T any] struct {
	id     string
	change T
}

func (w *withID[T]) UnmarshalJSON(data []byte) error {
	var of api.Made
	if err := json.Unmarshal(data, &of); err != nil {
		return err
	}
	w.id = of.ID
	return json.Unmarshal(data, &w.change)
}

// typed makes a tool of a function with an input and a result.
func typed[I, R any](f func(context.Context, store.Querier, I) (R, error)) recordsTool {
	return func(ctx context.Context, q store.Querier, input []byte) (any, error) {
		var in I
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, fmt.Errorf("%w: a request of records cannot be read", bourn.ErrInternal)
		}
		return f(ctx, q, in)
	}
}

// runRecords does what a typed tool asks for, as the member whose agent it is, with the run's
// own session.
func (g *gate) runRecords(ctx context.Context, run *gatedRun, readOnly bool, request workspace.Request, result *workspace.Raw) error {
	do := recordsTools[request.Tool]
	if do == nil {
		return fmt.Errorf("%w: no tool %q works on records", bourn.ErrInternal, request.Tool)
	}
	var answer any
	err := run.session.as(ctx, g.control, run.member, store.Agent, readOnly, func(ctx context.Context, q store.Querier) (err error) {
		answer, err = do(ctx, q, request.Input)
		return err
	})
	if err != nil {
		return err
	}
	result.JSON, err = json.Marshal(answer)
	return err
}

// revokeWithin is how long revoking a run's session may take; one that was not revoked ends by
// itself.
const revokeWithin = 5 * time.Second

// endSession revokes the session of a run that has ended.
func (g *gate) endSession(run *gatedRun) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), revokeWithin)
	defer cancel()
	if err := run.session.close(ctx, g.control); err != nil {
		g.control.config.Log.Warn("a run's session is not revoked, and ends by itself", "run", run.run, "error", err)
	}
}

// recordsReceipt is what an outcome keeps of a typed tool's result: which record or task it was
// about, or how many, and no content.
func recordsReceipt(result json.RawMessage) json.RawMessage {
	var r struct {
		ID      string     `json:"id,omitempty"`
		Records []struct{} `json:"records,omitempty"`
		Tasks   []struct{} `json:"tasks,omitempty"`
	}
	if len(result) == 0 || json.Unmarshal(result, &r) != nil {
		return nil
	}
	kept, err := json.Marshal(struct {
		ID    string `json:"id,omitempty"`
		Found *int   `json:"found,omitempty"`
	}{r.ID, found(r.ID, len(r.Records)+len(r.Tasks))})
	if err != nil {
		return nil
	}
	return kept
}

func found(id string, n int) *int {
	if id != "" {
		return nil
	}
	return &n
}
