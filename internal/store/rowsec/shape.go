package rowsec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bourn"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A shape is a table as it is, and the request with the names that it has there. Names are as SQL
// writes them but where it says otherwise.
type shape struct {
	oid                                int64
	schema, relation                   string // as they are, unquoted
	name, table                        string // with its schema, and without
	owner, circle, visibility, created string // "" for none
	insert, update                     []string
	parents                            []parent
	listed                             bool // created is timestamptz, which an index is asked for below policies
	columns                            []shapeColumn
	major                              int // of the server
	ownedBy                            string
	before                             before
	grantees                           []string // that have something now, or had before
	needIndexes                        []indexWanted
	warnings                           []string
}

type shapeColumn struct {
	Name, Plain, Type               string
	NotNull, HasDefault, Key        bool
	Generated, Identity, FromSerial bool
	Random                          bool
}

type parent struct {
	table, key, column string
	nullable           bool
}

type indexWanted struct{ Name, Columns, Where string }

// before is what a table was like before it was guarded. It is kept as the comment of a policy of
// the table, so that it can be taken back. Names in it are unquoted.
type before struct {
	Version   int              `json:"version"`
	Relations []relationBefore `json:"relations"` // the table first, then its parts
	Usage     []string         `json:"usage"`     // roles that could not use the schema
	Indexes   []string         `json:"indexes"`   // that were made
}

type relationBefore struct {
	Schema   string        `json:"schema"`
	Name     string        `json:"name"`
	Owner    string        `json:"owner"`
	Security bool          `json:"security"`
	Forced   bool          `json:"forced"`
	Grants   []grantBefore `json:"grants"`
}

type grantBefore struct {
	To        string `json:"to"` // "public" for everybody
	Privilege string `json:"privilege"`
	Column    string `json:"column"` // "" for the table
	Option    bool   `json:"option"` // to grant it on
}

// reader reads a shape. The first error stays.
type reader struct {
	ctx context.Context
	tx  pgx.Tx
	err error
}

func (r *reader) row(sql string, args []any, to ...any) {
	if r.err == nil {
		r.err = r.tx.QueryRow(r.ctx, sql, args...).Scan(to...)
	}
}

// identifier splits a name as SQL is written, by the server's own rules.
func (r *reader) identifier(text, what string) []string {
	var parts []string
	r.row("select parse_ident($1)", []any{text}, &parts)
	var said *pgconn.PgError
	if errors.As(r.err, &said) && said.Code == "22023" {
		r.err = bourn.WithHint(fmt.Errorf("%w: %q is no name of %s", bourn.ErrInvalid, text, what), `write it as in SQL: app.invoice, or "Name" where it has capitals or other characters`)
	}
	for _, p := range parts {
		r.shown(p)
	}
	return parts
}

// shown refuses names that a terminal would act on: what is printed is to be read before it is run.
func (r *reader) shown(name string) {
	if r.err == nil && bourn.Printable(name) != name {
		r.err = bourn.WithHint(fmt.Errorf("%w: the name %s cannot be shown as it is", bourn.ErrInvalid, bourn.Printable(name)), "rename it first")
	}
}

func (r *reader) quoted(name string) string {
	r.shown(name)
	var q string
	r.row("select quote_ident($1)", []any{name}, &q)
	return q
}

// relation finds a table.
func (r *reader) relation(text string) (oid int64, schema, name string) {
	parts := r.identifier(text, "a table")
	if r.err == nil && len(parts) != 2 {
		r.err = bourn.WithHint(fmt.Errorf("%w: %q does not name a table with its schema", bourn.ErrInvalid, text), "name it as in app.invoice")
	}
	if r.err != nil {
		return 0, "", ""
	}
	var kind string
	r.row(`select c.oid::int8, c.relkind::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2`, []any{parts[0], parts[1]}, &oid, &kind)
	switch {
	case errors.Is(r.err, pgx.ErrNoRows):
		r.err = bourn.WithHint(fmt.Errorf("%w: there is no table %s in the database records", bourn.ErrNotFound, text), `bourn db psql records -- -c '\dt *.*' lists the tables; "Name" keeps capitals`)
	case r.err == nil && kind != "r" && kind != "p":
		r.err = bourn.WithHint(fmt.Errorf("%w: %s is no table, and has no row security", bourn.ErrInvalid, text), "guard the tables that it reads, and make a view security_invoker")
	}
	return oid, parts[0], parts[1]
}

// read reads the table of a request, and refuses what cannot be guarded.
func (r *reader) read(q Request) *shape {
	s := &shape{}
	s.oid, s.schema, s.relation = r.relation(q.Table)
	if r.err == nil && (slices.Contains([]string{"pg_catalog", "information_schema", "auth", "control", "log"}, s.schema) || strings.HasPrefix(s.schema, "pg_")) {
		r.err = bourn.WithHint(fmt.Errorf("%w: the schema %s is not for tables of your own", bourn.ErrInvalid, s.schema), "make them in app, or in a schema of your own")
	}
	s.name, s.table = r.quoted(s.schema)+"."+r.quoted(s.relation), r.quoted(s.relation)
	var version int
	r.row("select current_setting('server_version_num')::int", nil, &version)
	s.major = version / 10000
	r.policies(s)
	r.columns(s)
	r.choose(s, q)
	r.role(s, q.OwnedBy)
	r.past(s)
	for _, p := range q.Parents {
		r.parent(s, p)
	}
	if r.err == nil {
		s.indexes()
		r.warn(s)
	}
	return s
}

// policies refuses a table that has others than those that Guard writes: permissive ones
// would widen them, and which of them are meant is not for a program to guess.
func (r *reader) policies(s *shape) {
	var others []string
	r.row("select coalesce(array_agg(quote_ident(polname) order by polname), '{}') from pg_policy where polrelid = $1 and polname <> all ($2)", []any{s.oid, policyNames}, &others)
	if r.err == nil && len(others) > 0 {
		r.err = bourn.WithHint(fmt.Errorf("%w: %s has policies of its own: %s", bourn.ErrConflict, s.name, strings.Join(others, ", ")),
			"see what they are for, then drop policy "+others[0]+" on "+s.name+"; bourn records lint judges them as they are")
	}
}

func (r *reader) columns(s *shape) {
	if r.err != nil {
		return
	}
	rows, err := r.tx.Query(r.ctx, `
		select quote_ident(t.attname), t.attname::text, format_type(t.atttypid, null), t.attnotnull, t.atthasdef and t.attgenerated = '',
		  exists (select from pg_index i where i.indrelid = t.attrelid and i.indisprimary and t.attnum = any (i.indkey)),
		  t.attgenerated <> '', t.attidentity <> '', pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), t.attname) is not null or coalesce(pg_get_expr(d.adbin, d.adrelid) ~ '^nextval', false),
		  `+randomDefault+`
		from pg_attribute t join pg_class c on c.oid = t.attrelid join pg_namespace n on n.oid = c.relnamespace left join pg_attrdef d on d.adrelid = t.attrelid and d.adnum = t.attnum
		where t.attrelid = $1 and t.attnum > 0 and not t.attisdropped order by t.attnum`, s.oid)
	if err == nil {
		s.columns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[shapeColumn])
	}
	r.err = err
	for _, c := range s.columns {
		r.shown(c.Plain)
	}
}

// column finds one of the table's, of one of the types.
func (r *reader) column(s *shape, text, flag string, types ...string) (shapeColumn, bool) {
	if r.err != nil || text == "" {
		return shapeColumn{}, false
	}
	parts := r.identifier(text, "a column")
	if r.err != nil {
		return shapeColumn{}, false
	}
	i := slices.IndexFunc(s.columns, func(c shapeColumn) bool { return len(parts) == 1 && c.Plain == parts[0] })
	if i < 0 {
		var all []string
		for _, c := range s.columns {
			all = append(all, c.Name)
		}
		r.err = bourn.WithHint(fmt.Errorf("%w: %s has no column %s for --%s", bourn.ErrNotFound, s.name, text, flag), "it has "+strings.Join(all, ", "))
		return shapeColumn{}, false
	}
	c := s.columns[i]
	if len(types) > 0 && !slices.Contains(types, c.Type) {
		r.err = bourn.WithHint(fmt.Errorf("%w: %s.%s is %s, and --%s takes %s", bourn.ErrInvalid, s.name, c.Name, c.Type, flag, strings.Join(types, " or ")),
			"members and circles have ids of type uuid; alter table "+s.name+" alter column "+c.Name+" type …")
	}
	return c, r.err == nil
}

// choose finds the columns of a request, and those that members may give and change.
func (r *reader) choose(s *shape, q Request) {
	owner, has := r.column(s, q.Owner, "owner", "uuid")
	if r.err == nil && !has {
		r.err = bourn.WithHint(fmt.Errorf("%w: nothing says whose a row is", bourn.ErrInvalid), "name the owner's column with --owner")
		return
	}
	s.owner = owner.Name
	if owner.Name != "" && !owner.NotNull {
		s.warn("%s may be null: rows without an owner are seen by nobody", owner.Name)
	}
	if owner.Name != "" && !owner.HasDefault {
		s.warn("%s has no default: default auth.me() makes a new row its writer's", owner.Name)
	}
	if c, has := r.column(s, q.Circle, "circle", "uuid"); has {
		s.circle = c.Name
	}
	if c, has := r.column(s, q.Visibility, "visibility", "text", "character varying"); has {
		s.visibility = c.Name
		s.warn("%s is taken to say private, circle or company: a check (%s in ('private', 'circle', 'company')) keeps it so", c.Name, c.Name)
	}
	if c, has := r.column(s, q.Created, "created"); has {
		s.created = c.Name
	}
	for _, c := range s.columns {
		if q.Created == "" && s.created == "" && (c.Plain == "created_at" || c.Plain == "created") && (strings.HasPrefix(c.Type, "timestamp") || c.Type == "date") {
			s.created = c.Name
		}
		if c.Generated || c.Identity || c.FromSerial || c.Key && c.HasDefault {
			continue
		}
		s.insert = append(s.insert, c.Name)
	}
	for _, c := range s.columns {
		s.listed = s.listed || c.Name == s.created && c.Type == "timestamp with time zone"
	}
	if s.created != "" && !s.listed {
		s.warn("%s is no timestamptz: below policies no index is asked for it", s.created)
	}
	for _, name := range q.Update {
		c, has := r.column(s, name, "grant-update")
		if has && (c.Generated || c.Identity) {
			r.err = bourn.WithHint(fmt.Errorf("%w: %s.%s is computed, and cannot be changed", bourn.ErrInvalid, s.name, c.Name), "leave it out of --grant-update")
		}
		if has {
			s.update = append(s.update, c.Name)
		}
	}
}

// role sees that the owner-to-be cannot log in and does not get past row security.
func (r *reader) role(s *shape, role string) {
	if role == "" {
		role = "bourn_records"
	}
	var fit bool
	parts := r.identifier(role, "a role")
	if r.err != nil {
		return
	}
	r.row("select not (rolcanlogin or rolsuper or rolbypassrls) from pg_roles where rolname = $1", []any{parts[0]}, &fit)
	switch {
	case errors.Is(r.err, pgx.ErrNoRows):
		r.err = bourn.WithHint(fmt.Errorf("%w: there is no role %s", bourn.ErrNotFound, role), "create role "+role+" nologin")
	case r.err == nil && !fit:
		r.err = bourn.WithHint(fmt.Errorf("%w: the role %s can log in or gets past row security, and owns no table of members", bourn.ErrDenied, role), "leave out --owned-by: bourn_records owns it then")
	}
	s.ownedBy = r.quoted(parts[0])
}

// past reads what the table was before it was guarded: from the note that the migration left,
// else what it is now.
func (r *reader) past(s *shape) {
	var now before
	var text string
	r.row(`select json_build_object('version', 1, 'usage', '[]'::json, 'indexes', '[]'::json, 'relations', (
		  with recursive t(oid, depth) as (select $1::oid, 0 union all select i.inhrelid, t.depth + 1 from t join pg_inherits i on i.inhparent = t.oid)
		  select json_agg(json_build_object('schema', n.nspname, 'name', c.relname, 'owner', r.rolname, 'security', c.relrowsecurity, 'forced', c.relforcerowsecurity,
		    'grants', (select coalesce(json_agg(json_build_object('to', coalesce(g.rolname, 'public'), 'privilege', a.privilege_type, 'column', a.col, 'option', a.is_grantable)), '[]') from (
		        select x.*, '' as col from aclexplode(c.relacl) x where x.grantee <> c.relowner
		        union all select x.*, a.attname from pg_attribute a, aclexplode(a.attacl) x where a.attrelid = c.oid and not a.attisdropped and x.grantee <> c.relowner) a
		      left join pg_roles g on g.oid = a.grantee)) order by t.depth, n.nspname, c.relname)
		  from (select distinct on (oid) * from t) t join pg_class c on c.oid = t.oid join pg_namespace n on n.oid = c.relnamespace join pg_roles r on r.oid = c.relowner))::text`, []any{s.oid}, &text)
	r.json(text, &now)
	s.before = now
	var note string
	r.row("select coalesce((select obj_description(oid, 'pg_policy') from pg_policy where polrelid = $1 and polname = $2), '')", []any{s.oid, policyNames[0]}, &note)
	if r.err == nil && note != "" {
		s.before = before{}
		r.json(note, &s.before)
		r.keepNote(s, now)
	}
	for _, role := range []string{"bourn_app", "bc_person", "bourn_records"} {
		var may bool
		r.row("select has_schema_privilege($1, $2, 'usage')", []any{role, s.schema}, &may)
		if !may && !slices.Contains(s.before.Usage, role) {
			s.before.Usage = append(s.before.Usage, role)
		}
	}
	for _, rel := range slices.Concat(s.before.Relations, now.Relations) {
		for _, g := range rel.Grants {
			if who := r.quoted(g.To); !slices.Contains(s.grantees, who) {
				s.grantees = append(s.grantees, who)
			}
		}
	}
	slices.Sort(s.grantees)
}

// keepNote takes a note for what it is about: the table itself, and parts of it that are there.
func (r *reader) keepNote(s *shape, now before) {
	if r.err != nil {
		return
	}
	same := func(a, b relationBefore) bool { return a.Schema == b.Schema && a.Name == b.Name }
	if s.before.Version != 1 || len(s.before.Relations) == 0 {
		r.err = bourn.WithHint(fmt.Errorf("%w: the comment of the policy %s on %s is not what bourn wrote", bourn.ErrConflict, policyNames[0], s.name), "comment on policy "+policyNames[0]+" on "+s.name+" is null; what was before is not known then")
		return
	}
	// A table that was renamed is the same one.
	s.before.Relations[0].Schema, s.before.Relations[0].Name = s.schema, s.relation
	for _, rel := range now.Relations {
		if !slices.ContainsFunc(s.before.Relations, func(b relationBefore) bool { return same(b, rel) }) {
			s.before.Relations = append(s.before.Relations, rel)
		}
	}
	s.before.Relations = slices.DeleteFunc(s.before.Relations, func(b relationBefore) bool {
		return !slices.ContainsFunc(now.Relations, func(n relationBefore) bool { return same(n, b) })
	})
}

func (r *reader) json(text string, to any) {
	if r.err == nil && text != "" {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			r.err = bourn.WithHint(fmt.Errorf("%w: the note of what the table was before cannot be read: %w", bourn.ErrConflict, err), "take the comment off its policy "+policyNames[0])
		}
	}
}

// parent reads one TABLE:COLUMN.
func (r *reader) parent(s *shape, text string) {
	at := strings.LastIndex(text, ":")
	if r.err != nil {
		return
	}
	if at < 0 {
		r.err = bourn.WithHint(fmt.Errorf("%w: --parent is %q, and must be TABLE:COLUMN", bourn.ErrInvalid, text), "as in --parent app.order:order_id")
		return
	}
	oid, schema, name := r.relation(text[:at])
	c, has := r.column(s, text[at+1:], "parent")
	if !has {
		return
	}
	p := parent{table: r.quoted(schema) + "." + r.quoted(name), column: c.Name, nullable: !c.NotNull}
	var key, kind string
	var secure, readable bool
	r.row(`select quote_ident(a.attname), format_type(a.atttypid, null), p.relrowsecurity,
		  has_column_privilege('bourn_app', p.oid, a.attnum, 'select') and has_column_privilege('bc_person', p.oid, a.attnum, 'select')
		from pg_class p, lateral (
		    select k.confkey[1] as n, 0 as rank from pg_constraint k where k.contype = 'f' and k.conrelid = $1 and k.confrelid = p.oid and cardinality(k.conkey) = 1
		      and k.conkey[1] = (select attnum from pg_attribute where attrelid = $1 and attname = $3)
		    union all select i.indkey[0], 1 from pg_index i where i.indrelid = p.oid and i.indisprimary and i.indnkeyatts = 1) key
		  join pg_attribute a on a.attnum = key.n where a.attrelid = p.oid and p.oid = $2 order by rank limit 1`, []any{s.oid, oid, c.Plain}, &key, &kind, &secure, &readable)
	switch {
	case errors.Is(r.err, pgx.ErrNoRows):
		r.err = bourn.WithHint(fmt.Errorf("%w: nothing says which row of %s a row of %s names: there is no foreign key, and no primary key of one column", bourn.ErrInvalid, p.table, s.name), "add the foreign key first")
	case r.err == nil && kind != c.Type:
		r.err = bourn.WithHint(fmt.Errorf("%w: %s.%s is %s, and %s.%s is %s", bourn.ErrInvalid, s.name, c.Name, c.Type, p.table, key, kind), "give both one type")
	}
	p.key = key
	if r.err == nil && !secure {
		s.warn("%s has no row security: whoever may read it sees each of its rows; guard it first", p.table)
	}
	if r.err == nil && !readable {
		s.warn("members may not read %s of %s: until it is guarded, no row here can be written", key, p.table)
	}
	s.parents = append(s.parents, p)
}
