package operation

import (
	"strings"

	"github.com/spf13/cobra"
)

// Records are the flags of the commands of records that need the database's administrator.
type Records struct {
	Database
	Owner, Circle, Visibility, Created, OwnedBy string
	Parents, Update, Schemas                    []string
	Undo                                        bool
}

// RecordsVerbs do what the commands of records say.
type RecordsVerbs struct {
	Guard, Lint func(*cobra.Command, Records, []string) error
}

// RecordsCommand returns the command records. The caller says what it does without a command,
// and adds what needs no administrator.
func RecordsCommand(v RecordsVerbs) *cobra.Command {
	cmd := &cobra.Command{
		Use: "records", Short: "Query the company's records, and guard and check tables of your own",
		Long: `Work on the company's records. Row security keeps them per member, and the database decides who
sees what. query is SQL as yourself; guard and lint are for tables of your own beside Bourn's, and
need the database's administrator.`,
		Example: "  bourn records guard app.invoice --owner member_id --circle circle_id\n" +
			"  bourn records lint",
	}
	cmd.AddCommand(guard(v), lint(v))
	return cmd
}

func guard(v RecordsVerbs) *cobra.Command {
	var f Records
	cmd := &cobra.Command{
		Use: "guard TABLE", Short: "Print the migration that puts a table of your own under row security",
		Long: `Print the migration that puts the policies of Bourn's own records on a table of the database
records, for its administrator to read and to run. Nothing is changed. The table is read first,
and what is not there is refused. Run twice the migration changes nothing the second time; what was
before stands in it, and --undo prints the way back.

Names are written as in SQL: "Name" keeps its capitals. The owner's column names the member whose a
row is, the circle's column the circle that it is shared with, both as uuid. Where a column for
visibility is named, a row says private, circle or company. What a member may change are the
columns of --grant-update alone, and rows are not deleted.`,
		Example: "  bourn records guard app.invoice --owner member_id --circle circle_id\n" +
			"  bourn records guard app.invoice --owner member_id --visibility visibility --grant-update paid_at,note\n" +
			"  bourn records guard app.line --owner member_id --parent app.invoice:invoice_id >line.sql\n" +
			"  bourn records guard app.invoice --owner member_id --undo",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Update = columns(f.Update)
			return v.Guard(cmd, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Owner, "owner", "", "the `COLUMN` that names the member whose a row is")
	flags.StringVar(&f.Circle, "circle", "", "the `COLUMN` that names the circle that a row is shared with")
	flags.StringVar(&f.Visibility, "visibility", "", "the `COLUMN` that says private, circle or company")
	flags.StringVar(&f.Created, "created", "", "the `COLUMN` that rows are listed by (default: created_at or created, where the table has it)")
	flags.StringArrayVar(&f.Parents, "parent", nil, "`TABLE:COLUMN`: a row may name only what its member sees there")
	flags.StringArrayVar(&f.Update, "grant-update", nil, "`COLUMNS` that members may change, separated by commas")
	flags.StringVar(&f.OwnedBy, "owned-by", "bourn_records", "the `ROLE` that owns the table then; it cannot log in")
	flags.BoolVar(&f.Undo, "undo", false, "print the migration that takes it back instead")
	administrator(cmd, &f)
	return cmd
}

// columns splits lists of names at their commas. Those between double quotes are a name's own, as in SQL.
func columns(lists []string) (all []string) {
	for _, list := range lists {
		quoted := false
		all = append(all, strings.FieldsFunc(list, func(c rune) bool {
			if c == '"' {
				quoted = !quoted
			}
			return c == ',' && !quoted
		})...)
	}
	return all
}

func lint(v RecordsVerbs) *cobra.Command {
	var f Records
	cmd := &cobra.Command{
		Use: "lint", Short: "Name every mistake by which row security does not keep what it should",
		Long: `Walk the catalog of the database records and name every mistake that opens rows to others, lets
rows be written that should not be, tells what is hidden, or makes the right answer slow: one in a
line, with a code and its mend. Nothing is changed. The exit status is 0 without a finding, 1 with
one.`,
		Example: "  bourn records lint\n" +
			"  bourn records lint --schema app --schema sales --json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return v.Lint(cmd, f, args) },
	}
	cmd.Flags().StringArrayVar(&f.Schemas, "schema", nil, "look at what is in the schema `NAME` only; roles and the database itself are always looked at")
	administrator(cmd, &f)
	return cmd
}

// administrator adds what says how the database's administrator is reached.
func administrator(cmd *cobra.Command, f *Records) {
	databaseUser(cmd, &f.DatabaseUser)
	admin(cmd, &f.Database)
	json(cmd, &f.Database)
}
