package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"bourn"

	"github.com/spf13/cobra"
)

// defaultLines is how much of a log is printed.
const defaultLines = 200

func (a *app) logsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what an agent has said in the background",
		Long: `Print the last lines of what an agent has said in the background. On a terminal what it
could act on is escaped; otherwise the text is as it was written. The log of the start
before is logs/previous, beside the file that bourn agent start --json names.`,
		Example: `  bourn agent logs builder
  bourn agent logs builder -f -n 20`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "go on until the agent stops")
	lines := cmd.Flags().IntP("lines", "n", defaultLines, "print the last `N` lines")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *lines < 0 {
			return usage(errors.New("--lines cannot be negative"))
		}
		if *asJSON && *follow {
			return usage(errors.New("--json and --follow contradict each other: a log that goes on has no end"))
		}
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return a.logsJSON(name, *lines)
		}
		return a.logs(name, *lines, *follow)
	}
	return cmd
}

func (a *app) logs(name bourn.AgentName, lines int, follow bool) error {
	log, err := a.home.OpenLog(name)
	if err != nil {
		return err
	}
	defer log.Close()
	w := io.Writer(a.Stdout)
	if terminal(a.Stdout) {
		escaped := &escaper{to: a.Stdout}
		defer escaped.flush()
		w = escaped
	}
	if err := log.Tail(w, lines); err != nil || !follow {
		return err
	}
	return log.Follow(context.Background(), w, func() bool {
		s, err := a.home.Service(name)
		return err == nil && s != nil
	})
}

// logsJSON prints the last lines of a log as an object; bytes that are not UTF-8 are
// replaced, since JSON has none.
func (a *app) logsJSON(name bourn.AgentName, lines int) error {
	log, err := a.home.OpenLog(name)
	if err != nil {
		return err
	}
	defer log.Close()
	var text strings.Builder
	if err := log.Tail(&text, lines); err != nil {
		return err
	}
	all := []string{}
	for line := range strings.Lines(text.String()) {
		all = append(all, strings.TrimRight(line, "\r\n"))
	}
	return printJSON(a.Stdout, struct {
		Agent bourn.AgentName `json:"agent"`
		Lines []string        `json:"lines"`
	}{name, all})
}

// An escaper writes lines with what a terminal could act on escaped, but for tabs.
type escaper struct {
	to   io.Writer
	line []byte
}

// maxEscaped bounds a line that is waited for: a longer one is broken.
const maxEscaped = 64 << 10

func (e *escaper) Write(p []byte) (int, error) {
	e.line = append(e.line, p...)
	var out strings.Builder
	for {
		i := bytes.IndexByte(e.line, '\n')
		if i < 0 && len(e.line) < maxEscaped {
			break
		}
		if i < 0 {
			i = len(e.line) - 1
		}
		out.WriteString(escape(e.line[:i+1]))
		e.line = e.line[i+1:]
	}
	_, err := io.WriteString(e.to, out.String())
	return len(p), err
}

func (e *escaper) flush() {
	if len(e.line) > 0 {
		_, _ = io.WriteString(e.to, escape(e.line))
		e.line = nil
	}
}

// escape escapes one line and ends it.
func escape(line []byte) string {
	fields := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
	for i, f := range fields {
		fields[i] = bourn.Printable(f)
	}
	return strings.Join(fields, "\t") + "\n"
}
