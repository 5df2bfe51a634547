package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/cluster"
	"bourn/internal/store/storetest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What each person may do with each table, view and function of the record. The catalog says
// what there is: what has no line here fails the test, and so does a line of what is not
// there.
//
// Ann owns every row. Bob is in the circle with her and has tasks of hers; Eve is in no
// circle; the administrator is in none either. reading is a session of Ann's that only reads,
// agent one of the administrator's for an agent.
type right struct {
	// rows are the rows that are planted, as the columns and values of an insert.
	rows map[string]string
	// sees says who sees each row besides Ann and reading, who see all but what hidden names.
	sees map[string]string
	// change has an expression for each column that somebody may change: another value.
	change map[string]string
	// fixed are the columns that nobody changes.
	fixed string
	// changers says who changes a column of a row besides Ann; "row column" or "row".
	changers map[string]string
	// insert are what Ann may insert, refused what nobody may, Ann neither, and wrong what is
	// against a rule of the table.
	insert, refused, wrong []string
}

var persons = []string{"ann", "bob", "eve", "admin", "reading", "agent"}

const (
	annID    = "00000000-0000-4000-8000-0000000000a1"
	bobID    = "00000000-0000-4000-8000-0000000000b1"
	circleID = "00000000-0000-4000-8000-0000000000c1"
	alienID  = "00000000-0000-4000-8000-0000000000c2" // a circle that nobody is in
	recordID = "00000000-0000-4000-8000-0000000000d1" // a record that only Bob sees
)

// everyTableOf the schema app has a line.
var everyTableOf = map[string]right{
	"app.record": {
		rows: map[string]string{
			"private": "(collection, owner_id) values ('c', '" + annID + "')",
			"circle":  "(collection, owner_id, visibility, circle_id) values ('c', '" + annID + "', 'circle', '" + circleID + "')",
			"company": "(collection, owner_id, visibility) values ('c', '" + annID + "', 'company')",
			"deleted": "(collection, owner_id, visibility, deleted_at) values ('c', '" + annID + "', 'company', now())",
			"alien":   "(collection, owner_id, visibility, circle_id) values ('c', '" + annID + "', 'circle', '" + alienID + "')",
		},
		sees:   map[string]string{"circle": "bob", "company": "bob eve admin agent"},
		change: map[string]string{"collection": "'other'", "circle_id": "'" + circleID + "', visibility = 'circle'", "visibility": "'company', circle_id = null", "body": `'{"other": 1}'`, "deleted_at": "now(), visibility = 'private', circle_id = null"},
		fixed:  "id owner_id created_at updated_at search",
		// Ann has left that circle: she may take her record out of it, and nothing else.
		changers: map[string]string{"alien collection": "-ann", "alien body": "-ann"},
		insert: []string{
			"(collection) values ('c')", "(collection, visibility, circle_id) values ('c', 'circle', '" + circleID + "')", "(collection, visibility) values ('c', 'company')"},
		refused: []string{
			"(collection, owner_id) values ('c', '" + bobID + "')", "(collection, visibility, circle_id) values ('c', 'circle', '" + alienID + "')",
			"(collection, visibility, circle_id) values ('c', 'circle', gen_random_uuid())", "(id, collection) values (gen_random_uuid(), 'c')",
			"(collection, created_at) values ('c', now())", "(collection, deleted_at) values ('c', now())"},
		wrong: []string{"(collection, body) values ('c', '[]')", "(collection, body) values ('c', '1')", "(collection, body) values ('c', 'null')", "(collection, body) values ('c', null)",
			"(collection, body) values ('c', jsonb_build_object('a', repeat('x', 262144)))", "(collection) values ('')", "(collection, visibility) values ('c', 'circle')"},
	},
	"app.task": {
		rows: map[string]string{
			"private":  "(title, owner_id) values ('t', '" + annID + "')",
			"circle":   "(title, owner_id, visibility, circle_id) values ('t', '" + annID + "', 'circle', '" + circleID + "')",
			"company":  "(title, owner_id, visibility) values ('t', '" + annID + "', 'company')",
			"deleted":  "(title, owner_id, assignee_id, visibility, deleted_at) values ('t', '" + annID + "', '" + bobID + "', 'company', now())",
			"assigned": "(title, owner_id, assignee_id) values ('t', '" + annID + "', '" + bobID + "')",
			"own":      "(title, owner_id, assignee_id, visibility, circle_id) values ('t', '" + annID + "', '" + annID + "', 'circle', '" + alienID + "')",
		},
		sees: map[string]string{"circle": "bob", "company": "bob eve admin agent", "assigned": "bob"},
		change: map[string]string{"title": "'other'", "status": "'done'", "due": "'2026-12-31'", "assignee_id": "'" + bobID + "'", "circle_id": "'" + circleID + "', visibility = 'circle'",
			"visibility": "'company', circle_id = null", "deleted_at": "now(), visibility = 'private', circle_id = null"},
		fixed: "id record_id owner_id created_at updated_at",
		changers: map[string]string{"assigned status": "bob", "assigned": "!bob", "assigned assignee_id": "bob", // who it is already
			"own title": "-ann", "own status": "-ann", "own due": "-ann", "own assignee_id": "-ann"},
		insert: []string{
			"(title) values ('t')", "(title, due) values ('t', '1900-01-01')", "(title, due) values ('t', '2999-12-31')", "(title, assignee_id) values ('t', '" + bobID + "')", "(title, visibility, circle_id) values ('t', 'circle', '" + circleID + "')"},
		refused: []string{
			"(title, owner_id) values ('t', '" + bobID + "')", "(title, visibility, circle_id) values ('t', 'circle', '" + alienID + "')",
			"(title, record_id) values ('t', '" + recordID + "')", "(title, record_id) values ('t', gen_random_uuid())",
			"(title, assignee_id) values ('t', gen_random_uuid())", "(id, title) values (gen_random_uuid(), 't')",
			"(title, owner_id, assignee_id) values ('t', '" + bobID + "', '" + annID + "')"},
		wrong: []string{"(title, due) values ('t', 'infinity')", "(title, due) values ('t', '-infinity')", "(title, due) values ('t', '1899-12-31')", "(title, due) values ('t', '3000-01-01')",
			"(title, due) values ('t', '2026-12-31 BC')", "(title) values ('')", "(title, status) values ('t', 'later')"},
	},
	"app.company": {
		rows:    map[string]string{"the": "(name) values ('x')"},
		sees:    map[string]string{"the": "bob eve admin agent"},
		fixed:   "id name updated_at",
		refused: []string{"(id) values (false)", "default values"},
	},
	"app.member": {rows: map[string]string{}, fixed: "id name administrator created_at removed_at", refused: []string{"(id, name) values (gen_random_uuid(), 'x')"}},
	"app.circle": {rows: map[string]string{}, fixed: "id name from_host created_at", refused: []string{"(id, name) values (gen_random_uuid(), 'x')"}},
	"app.circle_member": {rows: map[string]string{}, fixed: "circle_id member_id",
		refused: []string{"(circle_id, member_id) values ('" + alienID + "', '" + annID + "')"}},
}

// everyFunctionOf the schemas auth and app that a member may call has a line: "all" is what
// tells each about themselves, "admin" what only an administrator does.
var everyFunctionOf = map[string]string{
	"auth.me()": "all", "auth.my_circles()": "all", "auth.am_administrator()": "all", "auth.may_write()": "all", "auth.may_change_roster()": "all",
	"auth.seen_members()": "all", "auth.seen_circles()": "all", "auth.seen_circle_members()": "all",
	"auth.put_circle(uuid,text)":           "admin gen_random_uuid(), 'x'",
	"auth.remove_circle(uuid)":             "admin '" + alienID + "'",
	"auth.put_circle_member(uuid,uuid)":    "admin '" + alienID + "', '" + annID + "'",
	"auth.remove_circle_member(uuid,uuid)": "admin '" + circleID + "', '" + bobID + "'",
	"auth.change_company(text)":            "admin 'x'",
}

// onlyApp are the functions that a person's own role does not have: it changes no roster.
const onlyApp = "auth.put_circle(uuid,text) auth.remove_circle(uuid) auth.put_circle_member(uuid,uuid) auth.remove_circle_member(uuid,uuid) auth.change_company(text)"

// A cast is the people of a test with a session each.
type cast struct {
	db       *storetest.Database
	sessions map[string]store.Session
	members  map[string]store.MemberID
}

func parseMember(t testing.TB, text string) store.MemberID {
	t.Helper()
	id, err := store.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return store.MemberID(id)
}

func newCast(t *testing.T, db *storetest.Database) *cast {
	t.Helper()
	c := &cast{db: db, sessions: map[string]store.Session{}, members: map[string]store.MemberID{"ann": parseMember(t, annID), "bob": parseMember(t, bobID), "eve": store.NewMemberID(), "admin": store.NewMemberID()}}
	for name, id := range c.members {
		if err := db.PutMember(t.Context(), store.Member{ID: id, Name: name, Administrator: name == "admin"}); err != nil {
			t.Fatal(err)
		}
		c.sessions[name] = issue(t, db.Records, id, time.Hour)
	}
	var err error
	if c.sessions["reading"], err = db.Records.IssueReading(t.Context(), c.members["ann"], store.Agent, time.Hour); err != nil {
		t.Fatal(err)
	}
	if c.sessions["agent"], err = db.Records.Issue(t.Context(), c.members["admin"], store.Agent, time.Hour); err != nil {
		t.Fatal(err)
	}
	db.Admin(t, "records",
		"insert into auth.circles (id, name) values ('"+circleID+"', 'sales'), ('"+alienID+"', 'alien')",
		"insert into auth.circle_members values ('"+circleID+"', '"+annID+"'), ('"+circleID+"', '"+bobID+"')",
		"insert into app.record (id, collection, owner_id) values ('"+recordID+"', 'bobs', '"+bobID+"')")
	return c
}

var errUndo = errors.New("undo")

// try runs a statement as somebody and undoes it. It returns how many rows it met.
func (c *cast) try(t *testing.T, who, sql string, args ...any) (n int64, err error) {
	t.Helper()
	err = c.db.Records.As(t.Context(), c.sessions[who], func(ctx context.Context, q store.Querier) error {
		tag, err := q.Exec(ctx, sql, args...)
		if err != nil {
			return err
		}
		n = tag.RowsAffected()
		return errUndo
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return n, err
}

func has(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// TestRights walks every table, view and function of the record as every person.
func TestRights(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		c := newCast(t, db)
		admin := db.Connect(t, cluster.Admin, "records")
		tables := rows(t, admin, "select n.nspname||'.'||c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'app' and c.relkind in ('r', 'p', 'v', 'm', 'f')")
		for _, table := range tables {
			right, known := everyTableOf[table]
			if !known {
				t.Errorf("%s has no line in everyTableOf: say who may do what", table)
				continue
			}
			t.Run(table, func(t *testing.T) { c.table(t, admin, table, right) })
		}
		for table := range everyTableOf {
			if !slices.Contains(tables, table) {
				t.Errorf("%s has a line and is not there", table)
			}
		}
		t.Run("functions", func(t *testing.T) { c.functions(t, admin) })
	})
}

func (c *cast) table(t *testing.T, admin *pgx.Conn, table string, right right) {
	columns := rows(t, admin, "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped", table)
	for _, column := range columns {
		if _, changed := right.change[column]; changed == has(right.fixed, column) {
			t.Errorf("%s.%s has no line: say who may change it", table, column)
		}
	}
	for _, who := range persons {
		for _, sql := range []string{"delete from " + table, "truncate " + table, "lock table " + table + " in access exclusive mode"} {
			if _, err := c.try(t, who, sql); err == nil {
				t.Errorf("%s: %s is not refused", who, sql)
			}
		}
		for _, column := range strings.Fields(right.fixed) {
			if n, err := c.try(t, who, fmt.Sprintf("update %s set %s = %[2]s", table, column)); !isRefused(err) {
				t.Errorf("%s changes %s.%s: %d rows, %v", who, table, column, n, err)
			}
		}
		for _, values := range right.refused {
			if _, err := c.try(t, who, "insert into "+table+" "+values); !isRefused(err) && (who != "bob" || !strings.Contains(values, bobID) && !strings.Contains(values, recordID)) {
				t.Errorf("%s inserts into %s %s: %v", who, table, values, err)
			}
		}
	}
	for _, values := range right.insert {
		if _, err := c.try(t, "ann", "insert into "+table+" "+values); err != nil {
			t.Errorf("Ann does not insert %s: %v", values, err)
		}
		if _, err := c.try(t, "reading", "insert into "+table+" "+values); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("a session that only reads inserts %s: %v", values, err)
		}
	}
	for _, values := range right.wrong {
		if _, err := c.try(t, "ann", "insert into "+table+" "+values); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("Ann inserts into %s %s: %v", table, values, err)
		}
	}
	for name, values := range right.rows {
		c.row(t, admin, table, name, values, right)
	}
}

// isRefused reports whether the server refused a statement: for want of a right, or as one
// that nobody can run, on a view or a generated column.
func isRefused(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && slices.Contains([]string{"42501", "55000", "428C9"}, said.Code)
}

// row plants a row and tries to see and to change it as everybody.
func (c *cast) row(t *testing.T, admin *pgx.Conn, table, name, values string, right right) {
	at := ""
	if values != "" {
		var id string
		if err := admin.QueryRow(t.Context(), "insert into "+table+" "+values+" returning id::text").Scan(&id); err != nil {
			t.Fatal(err)
		}
		at = " where id = '" + id + "'"
	}
	for _, who := range persons {
		sees := who == "ann" || who == "reading" || has(right.sees[name], who)
		if n, err := c.try(t, who, "select from "+table+at); err != nil || n == 1 != sees {
			t.Errorf("%s sees %d rows (%v) of %s, %s; want %t", who, n, err, table, name, sees)
		}
		for column, value := range right.change {
			n, err := c.try(t, who, "update "+table+" set "+column+" = "+value+at)
			want := c.changes(right, who, name, column)
			got := map[bool]string{true: "done", false: "none"}[n == 1]
			if bourn.CodeOf(err) == bourn.CodeDenied {
				got = "refused"
			} else if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s changes %s.%s of %s: %s, want %s", who, table, column, name, got, want)
			}
		}
		if n, err := c.try(t, who, "select from "+table+at+" for update"); err == nil && n == 1 && (who == "reading" || !sees) {
			t.Errorf("%s locks the row %s of %s", who, name, table)
		}
	}
}

// changes is what comes of a change: none where the row is not met, refused where it is met
// and may not become so.
func (c *cast) changes(right right, who, row, column string) string {
	line, exact := right.changers[row+" "+column]
	if !exact {
		line = right.changers[row]
	}
	switch {
	case has(line, "-"+who), has(line, "!"+who):
		return "refused"
	case who == "ann", has(line, who):
		return "done"
	}
	return "none"
}

func (c *cast) functions(t *testing.T, admin *pgx.Conn) {
	const callable = `select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
		where n.nspname in ('auth', 'app') and has_function_privilege($1, p.oid, 'execute')`
	app := rows(t, admin, callable, "bourn_app")
	for _, f := range app {
		line, known := everyFunctionOf[f]
		if !known {
			t.Errorf("%s has no line in everyFunctionOf: say who may call it", f)
			continue
		}
		who, args, _ := strings.Cut(line, " ")
		call := "select " + strings.TrimSuffix(f[:strings.Index(f, "(")], " ") + "(" + args + ")"
		for _, person := range persons {
			_, err := c.try(t, person, call)
			if allowed := who == "all" || who == person; allowed && err != nil || !allowed && bourn.CodeOf(err) != bourn.CodeDenied {
				t.Errorf("%s as %s: %v", call, person, err)
			}
		}
	}
	for f := range everyFunctionOf {
		if !slices.Contains(app, f) {
			t.Errorf("%s has a line and cannot be called", f)
		}
	}
	person := rows(t, admin, callable, "bc_person")
	for _, f := range app {
		if slices.Contains(person, f) == has(onlyApp, f) {
			t.Errorf("a person's own role may call %s: %t", f, slices.Contains(person, f))
		}
	}
	for _, f := range person {
		if !slices.Contains(app, f) {
			t.Errorf("a person's own role may call %s, and the app may not", f)
		}
	}
	// A person's own role has the same columns.
	if different := rows(t, admin, `select c.oid::regclass||'.'||a.attname||' '||r.right from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid,
		(values ('select'), ('insert'), ('update'), ('references')) as r("right")
		where n.nspname in ('app', 'auth') and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
		and has_column_privilege('bourn_app', c.oid, a.attnum, r.right) <> has_column_privilege('bc_person', c.oid, a.attnum, r.right)`); len(different) > 0 {
		t.Errorf("a person's own role and the app differ in %v", different)
	}
}
