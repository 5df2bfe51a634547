package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Company says whose records these are.
type Company struct {
	Name    string    `json:"name"`
	Updated time.Time `json:"updated,omitzero"`
}

// CompanyChange is what an administrator makes of the company.
type CompanyChange struct {
	Name string `json:"name" maxLength:"200"`
}

// Member is a human as the others see them.
type Member struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	Administrator bool      `json:"administrator"`
	Created       time.Time `json:"created"`
}

// Members are a page of the members, the oldest first.
type Members struct {
	Members []Member `json:"members"`
	Next    string   `json:"next,omitempty" doc:"after of the next page; left out at the end"`
}

// Circle is some members who share records.
type Circle struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	FromHost bool      `json:"from_host" doc:"it is changed with the host's people, and not here"`
	Created  time.Time `json:"created"`
	Members  []string  `json:"members" doc:"their ids"`
}

// Circles are a page of the circles, the oldest first.
type Circles struct {
	Circles []Circle `json:"circles"`
	Next    string   `json:"next,omitempty" doc:"after of the next page; left out at the end"`
}

// PutCircle makes a circle, or gives one another name.
type PutCircle struct {
	ID   string `json:"id,omitempty" maxLength:"36" doc:"of the circle to name anew; left out: a new one"`
	Name string `json:"name" minLength:"1" maxLength:"200"`
}

// Made names what was made.
type Made struct {
	ID string `json:"id"`
}

// Record is one thing that a member keeps.
type Record struct {
	ID         string          `json:"id"`
	Collection string          `json:"collection" doc:"of records of one kind"`
	Owner      string          `json:"owner" doc:"the member who alone changes it"`
	Visibility string          `json:"visibility" enum:"private,circle,company" doc:"who sees it besides its owner"`
	Circle     string          `json:"circle,omitempty"`
	Body       json.RawMessage `json:"body"`
	Created    time.Time       `json:"created"`
	Updated    time.Time       `json:"updated"`
}

// Records are a page of the records that the member sees, the newest first.
type Records struct {
	Records []Record `json:"records"`
	Next    string   `json:"next,omitempty" doc:"after of the next page; left out at the end"`
}

// NewRecord is what is to be kept.
type NewRecord struct {
	Collection string          `json:"collection" minLength:"1" maxLength:"100"`
	Circle     string          `json:"circle,omitempty" maxLength:"36" doc:"one that the member is in"`
	Visibility string          `json:"visibility,omitempty" enum:"private,circle,company" doc:"left out: circle with a circle, and else private"`
	Body       json.RawMessage `json:"body" doc:"an object of 256 KiB at most"`
}

// RecordChange is what becomes of a record; what is left out stays.
type RecordChange struct {
	Collection *string         `json:"collection,omitempty" minLength:"1" maxLength:"100"`
	Circle     string          `json:"circle,omitempty" maxLength:"36" doc:"one that the member is in"`
	Visibility string          `json:"visibility,omitempty" enum:"private,circle,company" doc:"other than circle takes it out of its circle"`
	Body       json.RawMessage `json:"body,omitempty" doc:"in place of the whole one before"`
}

// Task is one thing to be done.
type Task struct {
	ID         string    `json:"id"`
	Record     string    `json:"record,omitempty" doc:"that it is about"`
	Owner      string    `json:"owner"`
	Assignee   string    `json:"assignee,omitempty" doc:"who sees it, and changes its status"`
	Visibility string    `json:"visibility" enum:"private,circle,company"`
	Circle     string    `json:"circle,omitempty"`
	Title      string    `json:"title"`
	Status     string    `json:"status" enum:"open,doing,done,dropped"`
	Due        string    `json:"due,omitempty" doc:"a day, as in 2026-12-31"`
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"`
}

// Tasks are a page of the tasks that the member sees, the newest first.
type Tasks struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty" doc:"after of the next page; left out at the end"`
}

// NewTask is what is to be done.
type NewTask struct {
	Title      string `json:"title" minLength:"1" maxLength:"500"`
	Record     string `json:"record,omitempty" maxLength:"36" doc:"that it is about: one that the member sees; it stays so"`
	Assignee   string `json:"assignee,omitempty" maxLength:"36" doc:"a member"`
	Circle     string `json:"circle,omitempty" maxLength:"36" doc:"one that the member is in"`
	Visibility string `json:"visibility,omitempty" enum:"private,circle,company" doc:"left out: circle with a circle, and else private"`
	Status     string `json:"status,omitempty" enum:"open,doing,done,dropped" doc:"left out: open"`
	Due        string `json:"due,omitempty" maxLength:"10" doc:"a day, as in 2026-12-31"`
}

// TaskChange is what becomes of a task; what is left out stays.
type TaskChange struct {
	Title      *string `json:"title,omitempty" minLength:"1" maxLength:"500"`
	Status     string  `json:"status,omitempty" enum:"open,doing,done,dropped"`
	Assignee   *string `json:"assignee,omitempty" maxLength:"36" doc:"a member; empty: nobody"`
	Circle     string  `json:"circle,omitempty" maxLength:"36" doc:"one that the member is in"`
	Visibility string  `json:"visibility,omitempty" enum:"private,circle,company" doc:"other than circle takes it out of its circle"`
	Due        *string `json:"due,omitempty" maxLength:"10" doc:"a day; empty: none"`
}

// RecordsQuery says which records or tasks are wanted; what is empty is not asked by.
type RecordsQuery struct {
	Collection, Words            string // of records
	Status, Assignee, Record     string // of tasks
	Circle, Visibility, NextPage string
	Limit                        int
}

// String is the query as it stands in an address.
func (q RecordsQuery) String() string {
	v := url.Values{}
	for name, value := range map[string]string{"collection": q.Collection, "q": q.Words, "status": q.Status, "assignee": q.Assignee, "record": q.Record, "circle": q.Circle, "visibility": q.Visibility, "after": q.NextPage} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v.Encode()
}

// Company asks whose records these are.
func (c *Client) Company(ctx context.Context) (r Company, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/company", nil, &r)
}

// ChangeCompany changes the company, as an administrator.
func (c *Client) ChangeCompany(ctx context.Context, change CompanyChange) (r Company, err error) {
	return r, c.Do(ctx, http.MethodPatch, "/v1/company", change, &r)
}

// Members asks for a page of the members.
func (c *Client) Members(ctx context.Context, q RecordsQuery) (r Members, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/members?"+q.String(), nil, &r)
}

// Circles asks for a page of the circles.
func (c *Client) Circles(ctx context.Context, q RecordsQuery) (r Circles, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/circles?"+q.String(), nil, &r)
}

// PutCircle makes a circle or names one anew, as an administrator.
func (c *Client) PutCircle(ctx context.Context, put PutCircle) (r Made, err error) {
	return r, c.Do(ctx, http.MethodPost, "/v1/circles", put, &r)
}

// RemoveCircle removes a circle, as an administrator.
func (c *Client) RemoveCircle(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/circles/"+url.PathEscape(id), nil, nil)
}

// PutCircleMember puts a member into a circle, as an administrator.
func (c *Client) PutCircleMember(ctx context.Context, circle, member string) error {
	return c.Do(ctx, http.MethodPut, "/v1/circles/"+url.PathEscape(circle)+"/members/"+url.PathEscape(member), nil, nil)
}

// RemoveCircleMember takes a member out of a circle, as an administrator.
func (c *Client) RemoveCircleMember(ctx context.Context, circle, member string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/circles/"+url.PathEscape(circle)+"/members/"+url.PathEscape(member), nil, nil)
}

// Records asks for a page of the records that the member sees.
func (c *Client) Records(ctx context.Context, q RecordsQuery) (r Records, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/records?"+q.String(), nil, &r)
}

// Record asks for one record.
func (c *Client) Record(ctx context.Context, id string) (r Record, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/records/"+url.PathEscape(id), nil, &r)
}

// NewRecord keeps a record.
func (c *Client) NewRecord(ctx context.Context, n NewRecord) (r Record, err error) {
	return r, c.Do(ctx, http.MethodPost, "/v1/records", n, &r)
}

// ChangeRecord changes a record of the member's own.
func (c *Client) ChangeRecord(ctx context.Context, id string, change RecordChange) (r Record, err error) {
	return r, c.Do(ctx, http.MethodPatch, "/v1/records/"+url.PathEscape(id), change, &r)
}

// DeleteRecord deletes a record of the member's own.
func (c *Client) DeleteRecord(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/records/"+url.PathEscape(id), nil, nil)
}

// Tasks asks for a page of the tasks that the member sees.
func (c *Client) Tasks(ctx context.Context, q RecordsQuery) (r Tasks, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/tasks?"+q.String(), nil, &r)
}

// Task asks for one task.
func (c *Client) Task(ctx context.Context, id string) (r Task, err error) {
	return r, c.Do(ctx, http.MethodGet, "/v1/tasks/"+url.PathEscape(id), nil, &r)
}

// NewTask keeps a task.
func (c *Client) NewTask(ctx context.Context, n NewTask) (r Task, err error) {
	return r, c.Do(ctx, http.MethodPost, "/v1/tasks", n, &r)
}

// ChangeTask changes a task of the member's own, or the status of one that is theirs to do.
func (c *Client) ChangeTask(ctx context.Context, id string, change TaskChange) (r Task, err error) {
	return r, c.Do(ctx, http.MethodPatch, "/v1/tasks/"+url.PathEscape(id), change, &r)
}

// DeleteTask deletes a task of the member's own.
func (c *Client) DeleteTask(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/tasks/"+url.PathEscape(id), nil, nil)
}
