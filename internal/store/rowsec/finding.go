package rowsec

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// A Finding is one mistake.
type Finding struct {
	Code   string `json:"code"`   // one of Codes
	Object string `json:"object"` // as SQL names it
	What   string `json:"what"`   // is wrong with it
	Mend   string `json:"mend"`   // a statement, or what to do
}

// String is the finding in a line.
func (f Finding) String() string {
	return bourn.Printable(fmt.Sprintf("%s  %s: %s; mend: %s", f.Code, f.Object, f.What, f.Mend))
}

// Options say what Lint looks at. The zero value is all of the database.
type Options struct {
	Schemas []string // those alone, nil for all; roles and the database are always looked at
}

// trusted are Bourn's roles that no member and no agent comes in as.
var trusted = []string{"bourn_owner", "bourn_records", "bourn_auth", "bourn_control", "bourn_signal"}

// meant is what Bourn's own schemas do and another should not, with the reason.
var meant = map[string]string{
	"circle_unchecked app.task assigned_changed": "its trigger refuses a change of the circle",
	"leaky_index log.entry entry_by_agent":       forControl,
	"leaky_index log.entry entry_by_kind":        forControl,
	"leaky_index log.entry entry_by_outcome":     forControl,
	"leaky_index log.entry entry_by_run":         forControl,
}

const forControl = "the control plane reads the log, whose policy for it is always true"

// A Code is what findings of one kind have in common.
type Code struct {
	Name string
	Why  string // it is a mistake
}

// Codes are the kinds of findings, in the order in which they are printed. A name is never
// given another meaning.
var Codes = []Code{
	{"row_security_off", "whoever may read the table reads all of it"},
	{"row_security_not_forced", "what runs as the table's owner, such as a definer function, sees every row"},
	{"table_owner", "who logs in as the owner, or bypasses row security, can turn it off"},
	{"no_policy", "nobody sees a row: a table that was half made"},
	{"no_session_gate", "a condition such as company visibility holds without a session too"},
	{"public_policy", "the policy is for every role, and the gate is not"},
	{"no_write_gate", "a session that may only read can write"},
	{"policy_true", "every member sees, or writes, every row"},
	{"policy_forgeable", "what decides is a setting or role that any SQL can change"},
	{"policy_per_row", "a function is called for each row of the table: 30 to 1000 times slower"},
	{"policy_in_subselect", "slower by two to four times than an array that is computed once"},
	{"no_with_check", "a row may be changed into what its member may not write"},
	{"owner_unchecked", "a row can be written in another member's name"},
	{"circle_unchecked", "a row can be pushed into a circle that its member is not in"},
	{"foreign_key_tells", "whether a reference is taken tells whether a hidden row exists"},
	{"unique_unscoped", "a refused value tells that a hidden row has it"},
	{"serial_key", "gaps in the numbers count the rows of others"},
	{"sequence_grant", "the next number counts the rows of others"},
	{"no_index", "each statement reads the whole table"},
	{"leaky_index", "below a policy only leakproof operators are asked of an index: no condition of a member's uses this one"},
	{"definer_view", "the view reads with its owner's rights, past row security where that bypasses it"},
	{"materialized_view", "a copy of rows that no policy is about"},
	{"foreign_table", "rows elsewhere, that no policy is about"},
	{"partition_open", "policies of the parent do not hold for who names the partition"},
	{"rule", "a rule acts with the rights of the table's owner"},
	{"publication", "replication sends every row, whatever the policies say"},
	{"definer_search_path", "a name in the function can be made to mean another's object"},
	{"definer_owner", "the function runs past row security"},
	{"identity_volatility", "IMMUTABLE makes the first caller's identity everybody's; VOLATILE is asked again and again"},
	{"function_public", "everybody may call it, members' agents too"},
	{"table_grant", "DELETE takes locks that stop all others, TRUNCATE and REFERENCES pass row security by, TRIGGER runs code as others, UPDATE of a whole table reaches columns that were not meant"},
	{"public_grant", "every role that ever comes has it"},
	{"auth_grant", "who are members and which sessions live is for the functions of auth alone"},
	{"schema_create", "a planted object can stand in for another"},
	{"default_privileges", "what is made later is granted before anybody looks"},
	{"role_power", "the role gets past row security, or can make one that does"},
	{"role_member", "the role can become one that owns the rows, or reads past them"},
	{"database_public", "TEMP lets objects be planted in a connection, CONNECT lets every role in"},
	{"extension", "it reaches out of the database, or runs what is not bound by it"},
	{"side_door", "others' statements can be seen, ended, blocked, or talked through"},
	{"leakproof_operator", "a condition with it is asked of hidden rows first, and EXPLAIN ANALYZE tells the answer"},
	{"event_trigger", "code that runs as whoever changes the schema, the administrator too"},
}

// Lint names the mistakes in the database that conn is connected to, sorted by code and
// object. It reads one snapshot and changes nothing.
func Lint(ctx context.Context, conn *pgx.Conn, o Options) ([]Finding, error) {
	tx, err := begin(ctx, conn)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
	return lint(ctx, tx, o)
}

func lint(ctx context.Context, tx pgx.Tx, o Options) ([]Finding, error) {
	if o.Schemas == nil {
		o.Schemas = []string{}
	}
	var found []Finding
	for _, c := range catalogChecks {
		rows, err := tx.Query(ctx, prelude+c.sql, o.Schemas, trusted)
		if err != nil {
			return nil, fmt.Errorf("cannot look for %s: %w", c.code, err)
		}
		some, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Finding, error) {
			f := Finding{Code: c.code}
			return f, row.Scan(&f.Object, &f.What, &f.Mend)
		})
		if err != nil {
			return nil, fmt.Errorf("cannot look for %s: %w", c.code, err)
		}
		found = append(found, some...)
	}
	s, err := readSchema(ctx, tx, o.Schemas)
	if err != nil {
		return nil, err
	}
	found = append(found, s.findings()...)
	found = slices.DeleteFunc(found, func(f Finding) bool { return meant[f.Code+" "+f.Object] != "" })
	sortFindings(found)
	return slices.Compact(found), nil
}

func sortFindings(found []Finding) {
	order := map[string]int{}
	for i, c := range Codes {
		order[c.Name] = i
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Code != b.Code {
			return order[a.Code] - order[b.Code]
		}
		return strings.Compare(a.Object+"\x00"+a.What, b.Object+"\x00"+b.What)
	})
}

// inTransaction are the settings of what is asked: names mean what the catalog says, and many
// short statements are not compiled.
const inTransaction = "set local search_path = pg_catalog, pg_temp; set local jit = off"

// begin opens a transaction that only reads, one snapshot, in which names mean what the
// catalog says.
func begin(ctx context.Context, conn *pgx.Conn) (pgx.Tx, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("cannot read the catalog: %w", err)
	}
	var super bool
	err = tx.QueryRow(ctx, "select rolsuper from pg_catalog.pg_roles where rolname = current_user").Scan(&super)
	switch {
	case err != nil:
	case !super:
		err = bourn.WithHint(fmt.Errorf("%w: the database role %s is not a superuser, and sees only a part of the catalog", bourn.ErrDenied, conn.Config().User),
			"give the URL of a superuser; bourn does not keep it")
	default:
		_, err = tx.Exec(ctx, inTransaction)
	}
	if err == nil {
		err = prepared(ctx, tx)
	}
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // it has changed nothing
		return nil, err
	}
	return tx, nil
}

// prepared refuses a database without what policies ask: whose session it is.
func prepared(ctx context.Context, tx pgx.Tx) error {
	for _, f := range []string{"auth.me()", "auth.my_circles()", "auth.may_write()"} {
		var there bool
		if err := tx.QueryRow(ctx, "select to_regprocedure($1) is not null", f).Scan(&there); err != nil {
			return fmt.Errorf("cannot read the catalog: %w", err)
		}
		if !there {
			return bourn.WithHint(fmt.Errorf("%w: this database has no function %s: no bourn has prepared it, or an older one", bourn.ErrConflict, f),
				"start the control plane once, or run bourn db migrate for a server that others run")
		}
	}
	return nil
}
