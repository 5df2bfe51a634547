package daemon

import (
	"context"
	"fmt"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"
	"bourn/internal/store"
)

// Records over HTTP: each request acts as the member who asks, with a session of theirs, and
// the database alone says what they see and change.

// recordsQuery says which records are wanted.
type recordsQuery struct {
	Collection string `query:"collection" maxLength:"100"`
	Words      string `query:"q" maxLength:"1000" doc:"words that are in the values of the body, as in a web search"`
	SharedQuery
}

// tasksQuery says which tasks are wanted.
type tasksQuery struct {
	Status   string `query:"status" enum:"open,doing,done,dropped"`
	Assignee string `query:"assignee" maxLength:"36"`
	Record   string `query:"record" maxLength:"36"`
	SharedQuery
}

// SharedQuery is what records and tasks are asked by alike.
type SharedQuery struct {
	Circle     string `query:"circle" maxLength:"36"`
	Visibility string `query:"visibility" enum:"private,circle,company"`
	PageQuery
}

// PageQuery says which page of a list is wanted.
type PageQuery struct {
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	After string `query:"after" maxLength:"64" doc:"what next of the page before says"`
}

// changing is a change of one thing.
type changing[T any] struct {
	ID   string `path:"id" maxLength:"64"`
	Body T
}

// ofCircle names a member of a circle.
type ofCircle struct {
	ID     string `path:"id" maxLength:"64"`
	Member string `path:"member" maxLength:"64"`
}

// An acting runs f as a member, in one transaction.
type acting func(ctx context.Context, f func(context.Context, store.Querier) error) error

// A changer makes an acting for what changes something: the log has what and target first.
type changer func(what, target string) acting

// asMember runs f as the member who asks.
func (s *server) asMember(ctx context.Context, f func(context.Context, store.Querier) error) error {
	p := principalOf(ctx)
	if p.member == nil {
		return errNobody
	}
	return s.members.of(p.member.ID).as(ctx, s.control, p.member.ID, store.Socket, false, f)
}

// change is asMember for what changes something: the log has it first, without what is in it.
// Who may read the log does not see others' records.
func (s *server) change(what, target string) acting {
	return func(ctx context.Context, f func(context.Context, store.Querier) error) error {
		p := principalOf(ctx)
		if p.member == nil {
			return errNobody
		}
		e := audit.Entry{Kind: audit.KindChange, Who: p.name(), For: p.member.ID.String(), What: what, Target: target, Outcome: audit.Allowed, Trace: traceID(ctx)}
		return s.control.log.Effect(ctx, e, func() error { return s.asMember(ctx, f) })
	}
}

// changeCircles is change for what changes a circle: who leaves it loses the SQL that runs, and
// the other database has it right after. Where that cannot be, the next start of the control
// plane mends it.
func (s *server) changeCircles(what, target string) acting {
	return func(ctx context.Context, f func(context.Context, store.Querier) error) error {
		err := s.control.changeCircles(ctx, func([]store.RosterCircle) error { return s.change(what, target)(ctx, f) })
		if err != nil {
			return err
		}
		if err := s.control.store.SyncRoster(context.WithoutCancel(ctx)); err != nil {
			s.log.WarnContext(ctx, "the database control does not have the circles yet", "error", err)
		}
		return nil
	}
}

// answered makes what f finds as the member into an answer.
func answered[T any](ctx context.Context, as acting, f func(context.Context, store.Querier) (T, error)) (*out[T], error) {
	var o out[T]
	err := as(ctx, func(ctx context.Context, q store.Querier) (err error) {
		o.Body, err = f(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &o, nil
}

func (s *server) recordsRoutes() {
	handle(s, s.large(operation("list-records", "GET", "/v1/records", "The records that you see, the newest first")), func(ctx context.Context, in *recordsQuery) (*out[api.Records], error) {
		f, err := recordFilter(api.RecordsQuery{Collection: in.Collection, Words: in.Words, Circle: in.Circle, Visibility: in.Visibility, Limit: in.Limit, NextPage: in.After})
		if err != nil {
			return nil, err
		}
		return answered(ctx, s.asMember, func(ctx context.Context, q store.Querier) (api.Records, error) { return listRecords(ctx, q, f) })
	})
	handle(s, operation("get-record", "GET", "/v1/records/{id}", "One record that you see"), func(ctx context.Context, in *byID) (*out[api.Record], error) {
		return answered(ctx, s.asMember, func(ctx context.Context, q store.Querier) (api.Record, error) { return getRecord(ctx, q, in.ID) })
	})
	handle(s, operation("new-record", "POST", "/v1/records", "Keep a record"), func(ctx context.Context, in *in[api.NewRecord]) (*out[api.Record], error) {
		return answered(ctx, s.change("record made", ""), func(ctx context.Context, q store.Querier) (api.Record, error) { return newRecord(ctx, q, in.Body) })
	})
	handle(s, operation("change-record", "PATCH", "/v1/records/{id}", "Change a record of yours"), func(ctx context.Context, in *changing[api.RecordChange]) (*out[api.Record], error) {
		return answered(ctx, s.change("record changed", in.ID), func(ctx context.Context, q store.Querier) (api.Record, error) {
			return changeRecord(ctx, q, in.ID, in.Body)
		})
	})
	s.remove("delete-record", "/v1/records/{id}", "Delete a record of yours: nobody else sees it any more", "record deleted", s.change, store.DeleteRecord)
	s.tasksRoutes()
	s.companyRoutes()
}

// remove registers what deletes one thing.
func (s *server) remove(id, path, summary, what string, change changer, f func(context.Context, store.Querier, store.ID) error) {
	handle(s, operation(id, "DELETE", path, summary), func(ctx context.Context, in *byID) (*none, error) {
		id, err := store.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return nil, change(what, in.ID)(ctx, func(ctx context.Context, q store.Querier) error { return f(ctx, q, id) })
	})
}

func (s *server) tasksRoutes() {
	handle(s, operation("list-tasks", "GET", "/v1/tasks", "The tasks that you see, the newest first"), func(ctx context.Context, in *tasksQuery) (*out[api.Tasks], error) {
		f, err := taskFilter(api.RecordsQuery{Status: in.Status, Assignee: in.Assignee, Record: in.Record, Circle: in.Circle, Visibility: in.Visibility, Limit: in.Limit, NextPage: in.After})
		if err != nil {
			return nil, err
		}
		return answered(ctx, s.asMember, func(ctx context.Context, q store.Querier) (api.Tasks, error) { return listTasks(ctx, q, f) })
	})
	handle(s, operation("get-task", "GET", "/v1/tasks/{id}", "One task that you see"), func(ctx context.Context, in *byID) (*out[api.Task], error) {
		return answered(ctx, s.asMember, func(ctx context.Context, q store.Querier) (api.Task, error) {
			id, err := store.ParseID(in.ID)
			if err != nil {
				return api.Task{}, err
			}
			t, err := store.GetTask(ctx, q, id)
			return wireTask(t), err
		})
	})
	handle(s, operation("new-task", "POST", "/v1/tasks", "Keep a task"), func(ctx context.Context, in *in[api.NewTask]) (*out[api.Task], error) {
		return answered(ctx, s.change("task made", ""), func(ctx context.Context, q store.Querier) (api.Task, error) { return newTask(ctx, q, in.Body) })
	})
	handle(s, operation("change-task", "PATCH", "/v1/tasks/{id}", "Change a task of yours, or the status of one that is assigned to you"), func(ctx context.Context, in *changing[api.TaskChange]) (*out[api.Task], error) {
		return answered(ctx, s.change("task changed", in.ID), func(ctx context.Context, q store.Querier) (api.Task, error) {
			return changeTask(ctx, q, in.ID, in.Body)
		})
	})
	s.remove("delete-task", "/v1/tasks/{id}", "Delete a task of yours: nobody else sees it any more", "task deleted", s.change, store.DeleteTask)
}

func (s *server) companyRoutes() {
	company := func(ctx context.Context, q store.Querier) (api.Company, error) {
		c, err := store.GetCompany(ctx, q)
		return api.Company{Name: c.Name, Updated: c.UpdatedAt}, err
	}
	handle(s, operation("get-company", "GET", "/v1/company", "Whose records these are"), func(ctx context.Context, _ *none) (*out[api.Company], error) {
		return answered(ctx, s.asMember, company)
	})
	handle(s, operation("change-company", "PATCH", "/v1/company", "Change the company, as an administrator"), func(ctx context.Context, in *in[api.CompanyChange]) (*out[api.Company], error) {
		if err := printable("the company's name", in.Body.Name); err != nil {
			return nil, err
		}
		return answered(ctx, s.change("company changed", in.Body.Name), func(ctx context.Context, q store.Querier) (api.Company, error) {
			if err := store.ChangeCompany(ctx, q, in.Body.Name); err != nil {
				return api.Company{}, err
			}
			return company(ctx, q)
		})
	})
	handle(s, operation("list-members", "GET", "/v1/members", "The members, the oldest first"), func(ctx context.Context, in *PageQuery) (*out[api.Members], error) {
		after, err := store.ParsePlace(in.After)
		if err != nil {
			return nil, err
		}
		return answered(ctx, s.asMember, func(ctx context.Context, q store.Querier) (api.Members, error) {
			all, next, err := store.Members(ctx, q, in.Limit, after)
			list := api.Members{Members: []api.Member{}, Next: next.String()}
			for _, m := range all {
				list.Members = append(list.Members, api.Member{ID: m.ID.String(), Name: m.Name, Administrator: m.Administrator, Created: m.CreatedAt})
			}
			return list, err
		})
	})
	s.circleRoutes()
}

func (s *server) circleRoutes() {
	handle(s, operation("list-circles", "GET", "/v1/circles", "The circles with who is in each, the oldest first"), func(ctx context.Context, in *PageQuery) (*out[api.Circles], error) {
		after, err := store.ParsePlace(in.After)
		if err != nil {
			return nil, err
		}
		return answered(ctx, s.asMember, func(ctx context.Context, q store.Querier) (api.Circles, error) {
			all, next, err := store.Circles(ctx, q, in.Limit, after)
			list := api.Circles{Circles: []api.Circle{}, Next: next.String()}
			for _, c := range all {
				w := api.Circle{ID: c.ID.String(), Name: c.Name, FromHost: c.FromHost, Created: c.CreatedAt, Members: []string{}}
				for _, m := range c.Members {
					w.Members = append(w.Members, m.String())
				}
				list.Circles = append(list.Circles, w)
			}
			return list, err
		})
	})
	handle(s, operation("put-circle", "POST", "/v1/circles", "Make a circle or name one anew, as an administrator"), func(ctx context.Context, in *in[api.PutCircle]) (*out[api.Made], error) {
		id, err := store.ID(store.NewMemberID()), printable("the circle's name", in.Body.Name)
		if in.Body.ID != "" && err == nil {
			id, err = store.ParseID(in.Body.ID)
		}
		if err != nil {
			return nil, err
		}
		return answered(ctx, s.changeCircles("circle written", id.String()), func(ctx context.Context, q store.Querier) (api.Made, error) {
			return api.Made{ID: id.String()}, store.PutCircle(ctx, q, id, in.Body.Name)
		})
	})
	s.remove("remove-circle", "/v1/circles/{id}", "Remove a circle, as an administrator", "circle removed", s.changeCircles, store.RemoveCircle)
	for _, of := range []struct {
		id, method, summary, what string
		f                         func(context.Context, store.Querier, store.ID, store.MemberID) error
	}{
		{"put-circle-member", "PUT", "Put a member into a circle, as an administrator", "member put into a circle", store.PutCircleMember},
		{"remove-circle-member", "DELETE", "Take a member out of a circle, as an administrator", "member taken out of a circle", store.RemoveCircleMember},
	} {
		handle(s, operation(of.id, of.method, "/v1/circles/{id}/members/{member}", of.summary), func(ctx context.Context, in *ofCircle) (*none, error) {
			circle, err := store.ParseID(in.ID)
			if err != nil {
				return nil, err
			}
			member, err := store.ParseID(in.Member)
			if err != nil {
				return nil, err
			}
			return nil, s.changeCircles(of.what, in.ID+" "+in.Member)(ctx, func(ctx context.Context, q store.Querier) error {
				return of.f(ctx, q, circle, store.MemberID(member))
			})
		})
	}
}

// printable refuses a name that would be shown as something else.
func printable(what, text string) error {
	if bourn.Printable(text) != text {
		return fmt.Errorf("%w: %s holds characters that cannot be printed", bourn.ErrInvalid, what)
	}
	return nil
}

// parseDay reads a day; "" is none.
func parseDay(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1900 || t.Year() > 2999 {
		return nil, fmt.Errorf("%w: due is a day of the years 1900 to 2999, as in 2026-12-31", bourn.ErrInvalid)
	}
	return &t, nil
}
