package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/table"

	"github.com/spf13/cobra"
)

// queryWithin is how long SQL may take, with the way to the database and back.
const queryWithin = 75 * time.Second

// maxQuery is the longest SQL that is read from standard input, in bytes.
const maxQuery = 1 << 20

func (a *app) recordsQueryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "query SQL",
		Short: "Run SQL on the company's records, as yourself",
		Long: `Run SQL on the company's records, as yourself: the database shows and changes what you may see
and change. The tables are in the schema app, which is searched. Several statements are one
transaction unless the text says otherwise; one that is left open is rolled back. With - the SQL
comes from standard input.

A value belongs into --param, which stands for $1, the next for $2: it is then no part of the SQL.
What is shown is for people; --json has every value as the database writes it.`,
		Example: `  bourn records query 'select collection, count(*) from record group by 1'
  bourn records query 'select id, body from record where collection = $1' --param note --json
  cat report.sql | bourn records query -`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := jsonFlag(cmd)
	params := cmd.Flags().StringArray("param", nil, "the `VALUE` of $1; may be repeated for the next ones")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := a.sqlText(args[0])
		if err != nil {
			return err
		}
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), queryWithin)
		defer cancel()
		got, err := client.QueryRecords(ctx, api.QueryRecords{SQL: text, Parameters: *params})
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, got)
		}
		_, err = io.WriteString(a.Stdout, table.Text(got))
		return err
	}
	return cmd
}

// sqlText is the SQL of an argument, or of standard input.
func (a *app) sqlText(arg string) (string, error) {
	if arg != "-" {
		if strings.TrimSpace(arg) == "" {
			return "", usage(errors.New("there is no SQL"))
		}
		return arg, nil
	}
	text, err := io.ReadAll(io.LimitReader(a.Stdin, maxQuery+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read the SQL: %w", err)
	case len(text) > maxQuery:
		return "", bourn.WithHint(fmt.Errorf("%w: the SQL has more than %d bytes", bourn.ErrInvalid, maxQuery), "run it in parts")
	case strings.TrimSpace(string(text)) == "":
		return "", usage(errors.New("there is no SQL on standard input"))
	}
	return string(text), nil
}
