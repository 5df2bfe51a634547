package rowsec

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A schema is what the checks of policies need of the catalog.
type schema struct {
	tables    map[int64]*table
	functions map[int64]function // those that are not PostgreSQL's own
	open      map[int64]bool     // roles that members come in as, 0 for everybody

	me, circles, write, sure map[int64]bool // functions by what they tell; sure: true only with a session
	settings                 map[int64]bool // current_setting
	equal                    map[int64]bool // operators
	leakproof                map[int64]bool // functions
}

type table struct {
	Name              string
	Security          bool
	Child             bool
	Selects, Inserts  bool // a member may, at least some columns
	Updates           bool
	columns           map[int64]tableColumn
	policies          []policy
	indexes           []index
	keys              []foreignKey
	oids              int64
	owners, circleCol map[int64]bool // columns that policies compare with the session's member, its circles
}

type tableColumn struct {
	Name          string
	Given         bool // a member may insert or update it
	RandomDefault bool
}

// randomDefault is whether the default of a column, a row of pg_attrdef d, is a random uuid.
const randomDefault = `coalesce(pg_get_expr(d.adbin, d.adrelid) ~ '^(public\.)?(gen_random_uuid|uuidv4|uuidv7|uuid_generate_v4)\(\)$', false)`

type policy struct {
	Name        string
	Permissive  bool
	Command     string // of pg_policy: r, a, w, d, *
	Roles       []int64
	Qual, Check string
	qual, with  *node
	forMembers  bool
}

type function struct {
	Name       string
	Volatility string
	Args       int
}

type index struct {
	Name        string
	Columns     []int64 // 0 for an expression
	Unique      bool    // or exclusive
	Partial     bool
	Leaky       string // why its first column cannot be asked for below a policy, "" where it can
	Expressions string
}

type foreignKey struct {
	Name    string
	To      string
	Columns []int64
}

// readSchema reads the tables that have row security, with their policies.
func readSchema(ctx context.Context, tx pgx.Tx, schemas []string) (*schema, error) {
	s := &schema{tables: map[int64]*table{}, functions: map[int64]function{}, open: map[int64]bool{0: true}, leakproof: map[int64]bool{}, equal: map[int64]bool{}}
	for _, read := range []struct {
		what string
		sql  string
		scan func(pgx.Rows) error
	}{
		{"roles", `select oid::int8 from pg_roles where oid not in (select oid from closed)`, ids(s.open)},
		{"tables", `select oid::int8, name, relrowsecurity, child,
			exists (select from opened g where g.oid = rel.oid and g.privilege_type = 'SELECT'),
			exists (select from opened g where g.oid = rel.oid and g.privilege_type = 'INSERT'),
			exists (select from opened g where g.oid = rel.oid and g.privilege_type = 'UPDATE') from rel where relkind in ('r', 'p')`, s.scanTable},
		{"columns", `select t.attrelid::int8, t.attnum::int8, quote_ident(t.attname),
			exists (select from opened g where g.oid = t.attrelid and g.attnum in (0, t.attnum) and g.privilege_type in ('INSERT', 'UPDATE')) and t.attgenerated = '' and t.attidentity <> 'a',
			` + randomDefault + `
			from pg_attribute t join rel on rel.oid = t.attrelid left join pg_attrdef d on d.adrelid = t.attrelid and d.adnum = t.attnum
			where t.attnum > 0 and not t.attisdropped and rel.relkind in ('r', 'p')`, s.scanColumn},
		{"policies", `select p.polrelid::int8, quote_ident(p.polname), p.polpermissive, p.polcmd::text, p.polroles::int8[], coalesce(p.polqual::text, ''), coalesce(p.polwithcheck::text, '')
			from pg_policy p join rel on rel.oid = p.polrelid order by p.polname`, s.scanPolicy},
		{"functions", `select p.oid::int8, format('%I.%I', n.nspname, p.proname), p.provolatile::text, p.pronargs::int4 from pg_proc p join pg_namespace n on n.oid = p.pronamespace
			where n.nspname <> 'pg_catalog' or p.proname = 'current_setting'`, s.scanFunction},
		{"indexes", `select i.indrelid::int8, quote_ident(c.relname), (i.indkey::int2[])[0:i.indnkeyatts - 1]::int8[], i.indisunique or i.indisexclusion, i.indpred is not null, coalesce(i.indexprs::text, ''),
			case when op.opcname ~ 'pattern_ops$' then 'LIKE is not leakproof'
			  when not exists (select from pg_amop a join pg_operator o on o.oid = a.amopopr join pg_proc f on f.oid = o.oprcode
			    where a.amopfamily = op.opcfamily and a.amoppurpose = 's' and a.amoplefttype = op.opcintype and f.proleakproof)
			  then 'no operator of '||op.opcintype::regtype::text||' that it serves is leakproof' else '' end
			from pg_index i join rel on rel.oid = i.indrelid join pg_class c on c.oid = i.indexrelid join pg_opclass op on op.oid = i.indclass[0] where i.indislive and i.indisvalid`, s.scanIndex},
		{"foreign keys", `select k.conrelid::int8, quote_ident(k.conname), (select format('%I.%I', n.nspname, f.relname) from pg_class f join pg_namespace n on n.oid = f.relnamespace where f.oid = k.confrelid), k.conkey::int8[]
			from pg_constraint k join rel on rel.oid = k.conrelid join pg_class f on f.oid = k.confrelid where k.contype = 'f' and f.relrowsecurity and k.conparentid = 0`, s.scanKey},
		{"leakproof functions", `select p.oid::int8 from pg_proc p where p.proleakproof`, ids(s.leakproof)},
		{"operators", `select oid::int8 from pg_operator where oprname = '='`, ids(s.equal)},
	} {
		rows, err := tx.Query(ctx, prelude+read.sql+" -- "+read.what, schemas, trusted)
		if err != nil {
			return nil, fmt.Errorf("cannot read the catalog's %s: %w", read.what, err)
		}
		for rows.Next() && err == nil {
			err = read.scan(rows)
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the catalog's %s: %w", read.what, err)
		}
	}
	s.understand()
	return s, nil
}

// ids reads rows of one oid each into a set.
func ids(into map[int64]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var oid int64
		err := rows.Scan(&oid)
		into[oid] = true
		return err
	}
}

func (s *schema) scanTable(rows pgx.Rows) error {
	t := &table{columns: map[int64]tableColumn{}, owners: map[int64]bool{}, circleCol: map[int64]bool{}}
	err := rows.Scan(&t.oids, &t.Name, &t.Security, &t.Child, &t.Selects, &t.Inserts, &t.Updates)
	s.tables[t.oids] = t
	return err
}

func (s *schema) scanColumn(rows pgx.Rows) error {
	var of, number int64
	var c tableColumn
	if err := rows.Scan(&of, &number, &c.Name, &c.Given, &c.RandomDefault); err != nil {
		return err
	}
	s.tables[of].columns[number] = c
	return nil
}

func (s *schema) scanPolicy(rows pgx.Rows) (err error) {
	var of int64
	var p policy
	if err := rows.Scan(&of, &p.Name, &p.Permissive, &p.Command, &p.Roles, &p.Qual, &p.Check); err != nil {
		return err
	}
	if p.qual, err = parseTree(p.Qual); err != nil {
		return err
	}
	if p.with, err = parseTree(p.Check); err != nil {
		return err
	}
	p.forMembers = slices.ContainsFunc(p.Roles, func(r int64) bool { return s.open[r] })
	t := s.tables[of]
	t.policies = append(t.policies, p)
	return nil
}

func (s *schema) scanFunction(rows pgx.Rows) error {
	var oid int64
	var f function
	if err := rows.Scan(&oid, &f.Name, &f.Volatility, &f.Args); err != nil {
		return err
	}
	s.functions[oid] = f
	return nil
}

func (s *schema) scanIndex(rows pgx.Rows) error {
	var of int64
	var i index
	if err := rows.Scan(&of, &i.Name, &i.Columns, &i.Unique, &i.Partial, &i.Expressions, &i.Leaky); err != nil {
		return err
	}
	t := s.tables[of]
	t.indexes = append(t.indexes, i)
	return nil
}

func (s *schema) scanKey(rows pgx.Rows) error {
	var of int64
	var k foreignKey
	if err := rows.Scan(&of, &k.Name, &k.To, &k.Columns); err != nil {
		return err
	}
	t := s.tables[of]
	t.keys = append(t.keys, k)
	return nil
}

// understand finds the functions that tell who asks, and the columns that policies compare with
// what they tell.
func (s *schema) understand() {
	named := func(names ...string) map[int64]bool {
		all := map[int64]bool{}
		for oid, f := range s.functions {
			if slices.Contains(names, f.Name) {
				all[oid] = true
			}
		}
		return all
	}
	s.me, s.circles, s.write = named("auth.me"), named("auth.my_circles"), named("auth.may_write")
	s.sure = named("auth.may_write", "auth.may_change_roster", "auth.am_administrator")
	s.settings = named("pg_catalog.current_setting")
	for oid := range s.settings {
		delete(s.functions, oid)
	}
	for _, t := range s.tables {
		for _, p := range t.policies {
			if !p.forMembers {
				continue
			}
			for _, tree := range []*node{p.qual, p.with} {
				s.compared(tree, s.me, t.owners)
				s.compared(tree, s.circles, t.circleCol)
			}
		}
	}
}

// compared adds to columns those of the table itself that an expression holds equal to what one of
// the functions tells.
func (s *schema) compared(tree *node, functions, columns map[int64]bool) {
	tree.each(0, func(n *node, depth int) bool {
		if c := s.equals(n, functions); depth == 0 && c != 0 {
			columns[c] = true
		}
		return depth == 0
	})
}

// equals returns the column that a comparison holds equal to what one of the functions tells, or to
// one of what it tells; 0 for none.
func (s *schema) equals(n *node, functions map[int64]bool) int64 {
	args := n.in("args")
	if n.label != operator && n.label != arrayTest || len(args) != 2 || !s.equal[n.number("opno")] {
		return 0
	}
	for i, arg := range args {
		if arg = arg.plain(); arg.label == column && args[1-i].plain().tells(functions) {
			return arg.number("varattno")
		}
	}
	return 0
}

// tells reports whether an expression is what a function tells and nothing else: the call, or
// (select …) of it. What stands around a call, such as coalesce, may make another thing of it.
func (n *node) tells(functions map[int64]bool) bool {
	n = n.plain()
	switch {
	case n == nil:
		return false
	case n.label == funcCall:
		f := n.number("funcid")
		return functions[f] || f == unnest && len(n.in("args")) == 1 && n.in("args")[0].tells(functions)
	case n.label != sublink || n.word("subLinkType") == anySublink:
		return false
	}
	for _, q := range n.in("subselect") {
		if list := q.in("targetList"); len(list) == 1 && len(list[0].in("expr")) == 1 {
			return list[0].in("expr")[0].tells(functions)
		}
	}
	return false
}

const unnest = 2331 // of pg_proc, fixed: unnest(anyarray)

// ties reports whether a condition is true only where one that holds returns true for is: a part
// that must hold, each of whose alternatives does.
func (n *node) ties(holds func(*node) bool) bool {
	for _, part := range n.conjuncts() {
		tied := true
		for _, one := range part.alternatives() {
			tied = tied && (holds(one) || one.label == boolean && one.word("boolop") == "and" && one.ties(holds))
		}
		if tied {
			return true
		}
	}
	return false
}

// isNull returns the column of which a condition asks whether it is null, 0 for none.
func (n *node) isNull() int64 {
	if n.label != nullTest || n.word("nulltesttype") != "0" {
		return 0
	}
	for _, arg := range n.in("arg") {
		if arg = arg.plain(); arg.label == column {
			return arg.number("varattno")
		}
	}
	return 0
}
