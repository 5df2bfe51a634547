package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/audit"

	"github.com/spf13/cobra"
)

func (a *app) receiptsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipts NAME",
		Short: "Print what an agent's governed tools did in a run, the newest first",
		Long: `Print the receipts of a run: for each call of a governed tool that was let through, what
became of it, which files the tool changed, and how a command ended. They are a view of the
signed log. What is unknown has no outcome in it: it is performed now, or the control plane
ended meanwhile.`,
		Example: `  bourn agent receipts builder
  bourn agent receipts builder --run 20260102T150405.000-0123abcd --limit 200 --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	id := runFlag(cmd)
	limit := cmd.Flags().IntP("limit", "n", 50, "print the newest `N` receipts")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 || *limit > 1000 {
			return usage(fmt.Errorf("--limit is %d, and must be 1 to 1000", *limit))
		}
		client, name, err := a.ofRun(cmd, args[0], id)
		if err != nil {
			return err
		}
		ctx, cancel := answering()
		defer cancel()
		got, err := client.Receipts(ctx, *id, url.Values{"most": {strconv.Itoa(*limit)}, "newest": {"true"}})
		if err != nil {
			return err
		}
		slices.Reverse(got.Receipts)
		if *asJSON {
			return printJSON(a.Stdout, got)
		}
		a.printf("%s, run %s: %s, the newest first\n", title(name), bourn.Printable(got.Run), receiptsOf(got.Receipts, *limit))
		for _, r := range got.Receipts {
			a.printf("\n%s\n", receiptLines(r))
		}
		return nil
	}
	return cmd
}

func receiptsOf(all []api.Receipt, limit int) string {
	text := fmt.Sprintf("%d receipts", len(all))
	if len(all) == 1 {
		text = "1 receipt"
	}
	if len(all) == limit {
		text += " (--limit has more, if there are any)"
	}
	return text
}

// receiptLines is a receipt in a few lines.
func receiptLines(r api.Receipt) string {
	head := []string{r.At.UTC().Format("2006-01-02T15:04:05.000Z"), r.State, r.Tool}
	if r.Target != "" {
		head = append(head, r.Target)
	}
	lines := []string{strings.Join(head, "  ")}
	if how := howItEnded(r); how != "" {
		lines = append(lines, "  "+how)
	}
	for _, f := range r.Files {
		lines = append(lines, "  "+f.Path+"  "+changed(f))
	}
	if r.LeftOut > 0 {
		lines = append(lines, fmt.Sprintf("  what it changed is too long for the log (%d bytes)", r.LeftOut))
	}
	for _, child := range r.Children {
		lines = append(lines, "  started run "+child)
	}
	for i := range lines {
		lines[i] = bourn.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func howItEnded(r api.Receipt) string {
	var parts []string
	switch {
	case r.State == "unknown":
		return "no outcome: it is performed now, or the control plane ended meanwhile"
	case r.TimedOut:
		parts = append(parts, "took too long and was ended")
	case r.Signal != "":
		parts = append(parts, "ended by "+r.Signal)
	case r.Status != nil:
		parts = append(parts, fmt.Sprintf("exit status %d", *r.Status))
	}
	if r.Reason != "" {
		parts = append(parts, r.Reason)
	}
	if r.Verification {
		parts = append(parts, "a verification that passed")
	}
	if r.Duration > 0 {
		parts = append(parts, "in "+(time.Duration(r.Duration)*time.Microsecond).Round(100*time.Microsecond).String())
	}
	return strings.Join(parts, ", ")
}

// changed says what became of a file, by the first digits of its digests.
func changed(f api.ChangedFile) string {
	short := func(digest string) string { return digest[:min(12, len(digest))] }
	switch {
	case f.Before == "" && f.After == "":
		return "changed"
	case f.Before == "":
		return "made " + short(f.After)
	case f.After == "":
		return "gone " + short(f.Before)
	case f.Before == f.After:
		return "the same " + short(f.After)
	}
	return short(f.Before) + " → " + short(f.After)
}

func runFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("run", "", "of the run `ID` (default: the agent's newest)")
}

// ofRun returns a client and the agent's name, and finds the agent's newest run where none is
// named.
func (a *app) ofRun(cmd *cobra.Command, arg string, id *string) (*api.Client, bourn.AgentName, error) {
	name, err := bourn.ParseAgentName(arg)
	if err != nil {
		return nil, "", err
	}
	client, err := a.control(cmd)
	if err == nil && *id == "" {
		*id, err = newestRun(client, name)
	}
	return client, name, err
}

// newestRun returns the newest run that the log has of an agent: ids sort by time.
func newestRun(client *api.Client, name bourn.AgentName) (string, error) {
	ctx, cancel := answering()
	defer cancel()
	got, err := client.Log(ctx, url.Values{"agent": {string(name)}, "most": {"200"}, "newest": {"true"}})
	if err != nil {
		return "", err
	}
	newest := ""
	for _, line := range got.Lines {
		var e audit.Entry
		if err := json.Unmarshal(line.Entry, &e); err != nil {
			return "", errors.Join(errors.New("cannot read the log"), err)
		}
		newest = max(newest, e.Run)
	}
	if newest == "" {
		return "", bourn.WithHint(fmt.Errorf("%w: the log has no run of agent %q", bourn.ErrNotFound, name), "bourn run --agent "+string(name)+" starts one; an older run is named with --run")
	}
	return newest, nil
}
