package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"

	"github.com/spf13/cobra"
)

func (a *app) auditCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "audit",
		Short: "Read, verify and export the signed log",
		Long: `Read, verify and export the signed log: every start of an agent, every refusal, every change
of what is allowed, in the order in which they came. The control plane keeps it; what runs
do while none runs is taken in when one starts.`,
		Example: `  bourn audit tail --agent builder
  bourn audit verify --checkpoint kept.json
  bourn audit export log.jsonl`,
	}, a.auditTailCommand(), a.auditVerifyCommand(), a.auditExportCommand())
}

// logFlags choose lines of the log.
type logFlags struct {
	agent, run, kind, outcome string
	since                     time.Duration
}

func (f *logFlags) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.agent, "agent", "", "only entries about the agent `NAME`")
	cmd.Flags().StringVar(&f.run, "run", "", "only entries about the run `ID`")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only entries of a kind: action, outcome, change, session, run, service")
	cmd.Flags().StringVar(&f.outcome, "outcome", "", "only entries of an outcome: allowed, denied, asked, done, failed")
	cmd.Flags().DurationVar(&f.since, "since", 0, "only entries of the last `TIME`, as in 24h")
	a.completeAgentFlag(cmd)
}

func (f *logFlags) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"agent": f.agent, "run": f.run, "kind": f.kind, "outcome": f.outcome} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.since > 0 {
		q.Set("since", time.Now().Add(-f.since).UTC().Format(time.RFC3339Nano))
	}
	return q
}

// followEvery is the pause between two looks at a log that goes on.
const followEvery = 500 * time.Millisecond

func (a *app) auditTailCommand() *cobra.Command {
	var f logFlags
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest entries of the log",
		Example: `  bourn audit tail
  bourn audit tail -f --agent builder
  bourn audit tail --outcome denied --since 24h --json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.add(a, cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added")
	cmd.Flags().IntVarP(&lines, "lines", "n", 20, "print the last `N` entries")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case lines < 1 || lines > 10_000:
			return usage(fmt.Errorf("--lines is %d, and must be 1 to 10000", lines))
		case *asJSON && follow:
			return usage(errors.New("--json and --follow contradict each other: a log that goes on has no end"))
		}
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		q := f.query()
		q.Set("most", strconv.Itoa(lines))
		q.Set("newest", "true")
		return a.tail(client, q, follow, *asJSON)
	}
	return cmd
}

func (a *app) tail(client *api.Client, q url.Values, follow, asJSON bool) error {
	for last := int64(0); ; time.Sleep(followEvery) {
		ctx, cancel := answering()
		got, err := client.Log(ctx, q)
		cancel()
		switch {
		case err != nil:
			return err
		case asJSON:
			return printJSON(a.Stdout, got)
		}
		for _, line := range got.Lines {
			a.printf("%s\n", logLine(line.Entry))
			last = max(last, line.Seq)
		}
		if !follow {
			return nil
		}
		q.Set("after", strconv.FormatInt(last, 10))
		q.Set("most", "10000")
		q.Del("newest")
	}
}

// logLine is an entry in one line.
func logLine(body json.RawMessage) string {
	var e audit.Entry
	if err := json.Unmarshal(body, &e); err != nil {
		return "an entry that cannot be read: " + bourn.Printable(string(body))
	}
	parts := []string{e.At.UTC().Format("2006-01-02T15:04:05.000Z"), string(e.Outcome), e.Who}
	if e.Agent != "" && e.Who != "agent:"+e.Agent {
		parts = append(parts, "agent:"+e.Agent)
	}
	parts = append(parts, e.What)
	if e.Target != "" {
		parts = append(parts, e.Target)
	}
	text := strings.Join(parts, "  ")
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.By != "" {
		text += " (" + e.By + ")"
	}
	if e.Repeated > 0 {
		text += fmt.Sprintf(" (and %d more like it)", e.Repeated)
	}
	return bourn.Printable(text)
}

func (a *app) auditExportCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write the log as JSON lines",
		Long: `Write the log as JSON lines, to FILE or standard output: a line for each entry, with its
place in the chain and the exact bytes that are chained. FILE is there once it is whole.`,
		Example: `  bourn audit export log.jsonl
  bourn audit export --agent builder --since 24h`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("bourn audit export [FILE]: %q is one argument too many", args[1]))
			}
			return nil
		},
	}
	f.add(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return a.export(client, f.query(), a.Stdout)
		}
		return writeWhole(args[0], func(w io.Writer) error { return a.export(client, f.query(), w) })
	}
	return cmd
}

func (a *app) export(client *api.Client, q url.Values, w io.Writer) error {
	// No end by the clock: a long log takes long, and the control plane bounds each part.
	lines, err := client.Stream(context.Background(), "GET", "/v1/log/export?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer lines.Close()
	if _, err := io.Copy(w, lines); err != nil {
		return bourn.WithHint(fmt.Errorf("%w: cannot export all of the log: %w", bourn.ErrUnavailable, err), "what was written is not the whole: export it again")
	}
	return nil
}

// writeWhole makes a file that nobody else can read and that is there once it is whole.
func writeWhole(name string, write func(io.Writer) error) error {
	failed := func(err error) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot write %s: %w", bourn.ErrInvalid, bourn.Printable(name), err), "name a file in a directory that you can write")
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return failed(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it has been moved, or is of no use
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), os.Rename(f.Name(), name)); err != nil {
		return failed(err)
	}
	return nil
}
