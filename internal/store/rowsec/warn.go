package rowsec

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// longestName is NAMEDATALEN - 1: PostgreSQL cuts longer names off.
const longestName = 63

// indexes are those that the policies need, but for what is there already.
func (s *shape) indexes() {
	wanted := func(suffix, columns, where string) {
		name := s.relation
		for len(name)+len(suffix) > longestName {
			name = strings.ToValidUTF8(name[:len(name)-1], "")
		}
		name += suffix
		s.needIndexes = append(s.needIndexes, indexWanted{name, columns, where})
		if !slices.Contains(s.before.Indexes, name) {
			s.before.Indexes = append(s.before.Indexes, name)
		}
	}
	then := ""
	if s.created != "" {
		then = ", " + s.created + " desc"
	} else {
		s.warn("no column is named that rows are listed by: --created gives the indexes one")
	}
	wanted("_bourn_owner", s.owner+then, "")
	if s.circle != "" {
		wanted("_bourn_circle", s.circle+then, "")
	}
	if s.visibility != "" && s.listed {
		wanted("_bourn_company", s.created+" desc", " where "+s.visibility+" = 'company'")
	}
}

// warn says what a program cannot know of the table, or cannot mend.
func (r *reader) warn(s *shape) {
	if len(s.update) == 0 {
		s.warn("members may change no column of a row that is there: --grant-update names those that they may")
	}
	for _, who := range s.grantees {
		if who != "bourn_app" && who != "bc_person" && who != "public" && who != s.ownedBy {
			s.warn("%s has rights on it: the policies bind it too, and without a session it sees nothing", who)
		}
	}
	s.warn("rows are not deleted by members: a column such as deleted_at, that they may change, stands for it")
	for _, c := range s.columns {
		if c.Identity || c.FromSerial {
			s.warn("%s is numbered by a sequence: gaps tell members how many rows others add; take a uuid with default gen_random_uuid()", c.Name)
		}
	}
	r.each(`select quote_ident(c.relname)||' ('||(select string_agg(quote_ident(a.attname), ', ' order by k.n) from unnest(i.indkey::int2[]) with ordinality k(attnum, n) join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum)||')'
		from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = $1 and i.indisunique and not exists (select from unnest(i.indkey::int2[]) k(attnum) join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
		  where quote_ident(a.attname) = any ($2)) order by 1`,
		[]any{s.oid, s.scoped()}, func(name string) {
			s.warn("the unique index %s does not include the owner: a refused value tells a member that another has it", name)
		})
	var asked []string
	for _, p := range s.parents {
		asked = append(asked, p.column)
	}
	r.each(`select quote_ident(k.conname)||' to '||format('%I.%I', n.nspname, f.relname) from pg_constraint k join pg_class f on f.oid = k.confrelid join pg_namespace n on n.oid = f.relnamespace
		where k.conrelid = $1 and k.contype = 'f' and not exists (select from pg_attribute a where a.attrelid = $1 and a.attnum = k.conkey[1] and quote_ident(a.attname) = any ($2)) order by 1`,
		[]any{s.oid, slices.Concat(asked, []string{s.owner, s.circle})}, func(name string) {
			s.warn("the foreign key %s tells whether a row exists there: --parent TABLE:COLUMN lets a row name only what its member sees", name)
		})
	r.each(`select quote_ident(tgname) from pg_trigger where tgrelid = $1 and not tgisinternal order by 1`, []any{s.oid}, func(name string) {
		s.warn("the trigger %s runs at each change: see that its function does not show rows of others", name)
	})
	r.each(`select distinct format('%I.%I', n.nspname, v.relname) from pg_depend d join pg_rewrite w on w.oid = d.objid join pg_class v on v.oid = w.ev_class join pg_namespace n on n.oid = v.relnamespace
		where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = $1 and v.oid <> $1
		  and not exists (select from unnest(v.reloptions) o where o ~* '^security_invoker=(true|on|yes|1)$') order by 1`, []any{s.oid}, func(name string) {
		s.warn("%s reads the table with its owner's rights: make it a view with security_invoker", name)
	})
}

// scoped are the columns that keep members' values apart, or that nobody guesses.
func (s *shape) scoped() []string {
	all := []string{s.owner}
	if s.circle != "" {
		all = append(all, s.circle)
	}
	for _, c := range s.columns {
		if c.Random || c.Identity || c.FromSerial {
			all = append(all, c.Name)
		}
	}
	return all
}

func (r *reader) each(sql string, args []any, f func(string)) {
	if r.err != nil {
		return
	}
	rows, err := r.tx.Query(r.ctx, sql, args...)
	if err != nil {
		r.err = err
		return
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.err = err
	}
	for _, name := range names {
		f(name)
	}
}
