package rowsec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// A Request says which table is to be guarded, and what its columns mean. Names are written as
// in SQL.
type Request struct {
	Table      string   // with its schema
	Owner      string   // the column of the member whose a row is
	Circle     string   // of the circle that it is shared with, "" for none
	Visibility string   // that says private, circle or company, "" for none
	Created    string   // that rows are listed by, "" for created_at or created
	Parents    []string // TABLE:COLUMN, of which a row names only what its member sees
	Update     []string // the columns that members may change
	OwnedBy    string   // the role that owns the table then, "" for bourn_records
}

// A Migration is SQL that an administrator reads and runs.
type Migration struct {
	Table    string   `json:"table"`
	SQL      string   `json:"sql"`
	Warnings []string `json:"warnings"` // what nobody but its reader can know; they stand in the SQL too
}

// The policies that Guard writes. The comment of the first is what was before.
var policyNames = []string{"bourn_session", "bourn_may_insert", "bourn_may_update", "bourn_visible", "bourn_own_new", "bourn_own_changed"}

// Guard returns the migration that guards a table. It is ErrNotFound for a table or a column that
// is not there, ErrInvalid for one that cannot be what was said, and ErrConflict for a table that
// has policies of its own.
func Guard(ctx context.Context, conn *pgx.Conn, q Request) (Migration, error) {
	return write(ctx, conn, q, (*reader).guard)
}

// Undo returns the migration that takes back what Guard's did. Of a table that is not guarded it
// is about what the table is now.
func Undo(ctx context.Context, conn *pgx.Conn, q Request) (Migration, error) {
	return write(ctx, conn, q, (*reader).undo)
}

func write(ctx context.Context, conn *pgx.Conn, q Request, what func(*reader, *shape) string) (Migration, error) {
	tx, err := begin(ctx, conn)
	if err != nil {
		return Migration{}, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
	r := &reader{ctx: ctx, tx: tx}
	s := r.read(q)
	var sql string
	if r.err == nil {
		sql = what(r, s)
	}
	if r.err != nil {
		if bourn.CodeOf(r.err) == bourn.CodeInternal {
			return Migration{}, fmt.Errorf("cannot read the table %s: %w", q.Table, r.err)
		}
		return Migration{}, r.err
	}
	return Migration{Table: s.name, SQL: sql, Warnings: slices.Concat([]string{}, s.warnings)}, nil
}

func (s *shape) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// comment is text as lines of SQL comments: nothing in it ends one.
func comment(b *strings.Builder, text string) {
	fmt.Fprintf(b, "-- %s\n", bourn.Printable(text))
}

const (
	isMe      = " = (select auth.me())"
	isCircle  = " = any ((select auth.my_circles())::uuid[])"
	inSession = "((select auth.me()) is not null)"
	mayWrite  = "((select auth.may_write()))"
)

// visible is the condition under which a row is seen.
func (s *shape) visible() string {
	any := []string{s.owner + isMe}
	if s.visibility != "" {
		any = append(any, s.visibility+" = 'company'")
	}
	switch {
	case s.circle != "" && s.visibility != "":
		any = append(any, s.visibility+" = 'circle' and "+s.circle+isCircle)
	case s.circle != "":
		any = append(any, s.circle+isCircle)
	}
	return strings.Join(any, "\n  or ")
}

// allowed is the condition for what a row may become.
func (s *shape) allowed() string {
	all := []string{s.owner + isMe}
	if s.circle != "" {
		all = append(all, "("+s.circle+" is null or "+s.circle+isCircle+")")
	}
	for _, p := range s.parents {
		alias := "p"
		if s.table == alias {
			alias = "parent"
		}
		exists := "exists (select from " + p.table + " " + alias + " where " + alias + "." + p.key + " = " + s.table + "." + p.column + ")"
		if p.nullable {
			exists = "(" + p.column + " is null or " + exists + ")"
		}
		all = append(all, exists)
	}
	return strings.Join(all, "\n  and ")
}

// guard writes the migration.
func (r *reader) guard(s *shape) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	comment(&b, "Puts "+s.name+" under row security, as Bourn's own records are: a row is seen by its owner and by")
	comment(&b, "whom it is shared with, and by nobody without a session. Run it as the database's administrator.")
	comment(&b, "Run twice it changes nothing. The table is locked meanwhile.")
	for _, w := range s.warnings {
		comment(&b, "WARNING: "+w)
	}
	line("begin;\nset local search_path = pg_catalog, pg_temp;\n")
	line("alter table %s owner to %s;", s.name, s.ownedBy)
	line("alter table %s enable row level security;\nalter table %s force row level security;\n", s.name, s.name)
	r.parts(s, &b)
	r.grants(s, &b)
	for _, p := range s.policies() {
		line("drop policy if exists %s on %s;\ncreate policy %s on %s%s;", p[0], s.name, p[0], s.name, p[1])
	}
	note, err := json.Marshal(s.before)
	if err != nil {
		r.err = err
		return ""
	}
	var literal string
	r.row("select quote_literal($1)", []any{string(note)}, &literal)
	comment(&b, "What was before, for --undo.")
	line("comment on policy %s on %s is %s;\n", policyNames[0], s.name, literal)
	for _, i := range s.needIndexes {
		line("create index if not exists %s on %s (%s)%s;", r.quoted(i.Name), s.name, i.Columns, i.Where)
	}
	line("commit;")
	return b.String()
}

// policies are the names and the rest of each policy.
func (s *shape) policies() [][2]string {
	own := "(" + s.allowed() + ")"
	return [][2]string{
		{policyNames[0], " as restrictive\n  using " + inSession + " with check " + inSession},
		{policyNames[1], " as restrictive for insert\n  with check " + mayWrite},
		{policyNames[2], " as restrictive for update\n  using " + mayWrite + " with check " + mayWrite},
		{policyNames[3], " for select using (\n  " + s.visible() + ")"},
		{policyNames[4], " for insert with check " + own},
		{policyNames[5], " for update\n  using (" + s.owner + isMe + ") with check " + own},
	}
}

// parts closes partitions and tables that inherit: who names one is not bound by the
// policies of the whole.
func (r *reader) parts(s *shape, b *strings.Builder) {
	for _, rel := range s.before.Relations[1:] {
		name := r.quoted(rel.Schema) + "." + r.quoted(rel.Name)
		comment(b, name+" is a part of it, and is reached through it alone.")
		fmt.Fprintf(b, "alter table %s owner to %s;\nalter table %s enable row level security;\nalter table %s force row level security;\n", name, s.ownedBy, name, name)
		fmt.Fprintf(b, "revoke all on %s from public, bourn_app, bc_person;\n\n", name)
	}
}

// grants takes what nobody should have, and gives members what they need.
func (r *reader) grants(s *shape, b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	line("revoke all on %s from public, bourn_app, bc_person;", s.name)
	beyond := "update, delete, truncate, references, trigger"
	if s.major >= 17 {
		beyond += ", maintain"
	}
	for _, who := range s.grantees {
		if who != "public" && who != "bourn_app" && who != "bc_person" && who != s.ownedBy {
			line("revoke %s on %s from %s;", beyond, s.name, who)
		}
	}
	for _, role := range s.before.Usage {
		line("grant usage on schema %s to %s;", r.quoted(s.schema), r.quoted(role))
	}
	line("grant select on %s to bourn_app, bc_person;", s.name)
	if len(s.insert) > 0 {
		line("grant insert (%s) on %s to bourn_app, bc_person;", strings.Join(s.insert, ", "), s.name)
	}
	if len(s.update) > 0 {
		line("grant update (%s) on %s to bourn_app, bc_person;", strings.Join(s.update, ", "), s.name)
	}
	line("")
}

// undo writes the way back.
func (r *reader) undo(s *shape) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	comment(&b, "Takes the row security that bourn records guard put on "+s.name+" off again. Whoever has rights on it")
	comment(&b, "then sees every row, if that was so before. Run it as the database's administrator.")
	line("begin;\nset local search_path = pg_catalog, pg_temp;\n")
	for _, p := range policyNames {
		line("drop policy if exists %s on %s;", p, s.name)
	}
	for _, i := range s.before.Indexes {
		line("drop index if exists %s.%s;", r.quoted(s.schema), r.quoted(i))
	}
	for _, rel := range s.before.Relations {
		r.undoRelation(s, rel, &b)
	}
	for _, role := range s.before.Usage {
		line("revoke usage on schema %s from %s;", r.quoted(s.schema), r.quoted(role))
	}
	line("commit;")
	return b.String()
}

// privileges are those that a note may name.
var privileges = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN"}

func (r *reader) undoRelation(s *shape, rel relationBefore, b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	name := r.quoted(rel.Schema) + "." + r.quoted(rel.Name)
	line("\nalter table %s owner to %s;", name, r.quoted(rel.Owner))
	line("alter table %s %s row level security;", name, map[bool]string{true: "enable", false: "disable"}[rel.Security])
	line("alter table %s %s row level security;", name, map[bool]string{true: "force", false: "no force"}[rel.Forced])
	from := []string{"public", "bourn_app", "bc_person"}
	for _, who := range s.grantees {
		if !slices.Contains(from, who) {
			from = append(from, who)
		}
	}
	line("revoke all on %s from %s;", name, strings.Join(from, ", "))
	for _, g := range rel.Grants {
		if !slices.Contains(privileges, g.Privilege) {
			r.err = bourn.WithHint(fmt.Errorf("%w: the note of what the table was before names a right %q", bourn.ErrConflict, g.Privilege), "take the comment off its policy "+policyNames[0])
			return
		}
		what, option := strings.ToLower(g.Privilege), ""
		if g.Column != "" {
			what += " (" + r.quoted(g.Column) + ")"
		}
		if g.Option {
			option = " with grant option"
		}
		line("grant %s on %s to %s%s;", what, name, r.quoted(g.To), option)
	}
}
