package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"bourn"
	"bourn/api"

	"github.com/spf13/cobra"
)

// maxCheckpoint bounds a file of a checkpoint, in bytes.
const maxCheckpoint = 64 << 10

func (a *app) auditVerifyCommand() *cobra.Command {
	var kept []string
	var save string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify the whole log, also against checkpoints that were kept elsewhere",
		Long: `Verify the whole log: every link of its chain, every signed checkpoint, and the checkpoints
that --checkpoint names. A change, a gap, something put in, and an end that was cut off are
problems, and the exit status is 1.

It proves nothing against who holds both the host's key and the database, but for what a
checkpoint covers that was kept where they cannot change it: save one with
--save-checkpoint and send it away.`,
		Example: `  bourn audit verify
  bourn audit verify --save-checkpoint monday.json
  bourn audit verify --checkpoint monday.json`,
		Args:              takes,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringArrayVar(&kept, "checkpoint", nil, "hold the log against the checkpoint in `FILE` as well")
	cmd.Flags().StringVar(&save, "save-checkpoint", "", "write the newest checkpoint to `FILE`, to be kept elsewhere")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := a.control(cmd)
		if err != nil {
			return err
		}
		var ask api.VerifyLog
		for _, name := range kept {
			s, err := readCheckpoint(name)
			if err != nil {
				return err
			}
			ask.Checkpoints = append(ask.Checkpoints, s)
		}
		ctx, cancel := answering()
		defer cancel()
		r, err := client.VerifyLog(ctx, ask)
		if err != nil {
			return err
		}
		if len(r.Problems) > 0 {
			a.exit = 1
		}
		if *asJSON {
			err = printJSON(a.Stdout, r)
		} else {
			a.printVerified(r, len(kept))
		}
		if err != nil || save == "" {
			return err
		}
		return a.saveCheckpoint(save, r)
	}
	return cmd
}

func (a *app) saveCheckpoint(name string, r api.VerifiedLog) error {
	switch {
	case len(r.Problems) > 0:
		return bourn.WithHint(fmt.Errorf("%w: the log does not fit, and no checkpoint of it is saved", bourn.ErrConflict), "keep the checkpoints that you have")
	case len(r.Checkpoint.Statement) == 0:
		return bourn.WithHint(fmt.Errorf("%w: nothing of the log is signed yet", bourn.ErrUnavailable), "try again in a second")
	}
	return writeWhole(name, func(w io.Writer) error { return printJSON(w, r.Checkpoint) })
}

func readCheckpoint(name string) (s api.SignedStatement, err error) {
	unusable := func(err error) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot read the checkpoint %s: %w", bourn.ErrInvalid, bourn.Printable(name), err), "name a file that bourn audit verify --save-checkpoint wrote")
	}
	f, err := os.Open(name)
	if err != nil {
		return s, unusable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCheckpoint))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && len(s.Statement) == 0 {
		err = fmt.Errorf("it holds no statement")
	}
	if err != nil {
		return s, unusable(err)
	}
	return s, nil
}

func (a *app) printVerified(r api.VerifiedLog, kept int) {
	if len(r.Problems) == 0 {
		a.printf("the log fits: %s, places %d to %d\n", entries(r.Entries), r.First, r.Last)
	} else {
		a.printf("the log DOES NOT FIT: %s\n", count(len(r.Problems), "problem"))
		for _, p := range r.Problems {
			a.printf("  place %d: %s\n", p.Position, bourn.Printable(p.What))
		}
	}
	a.printf("  log       %s\n  key       %s\n  signed    up to place %d\n", bourn.Printable(r.Log), bourn.Printable(r.Key), r.Covered)
	for _, name := range slices.Sorted(maps.Keys(r.Older)) {
		a.printf("  older     %s signed by %s, trusted because it is in keys/\n", count(int(r.Older[name]), "statement"), bourn.Printable(name))
	}
	if r.Pruned > 0 {
		a.printf("  pruned    %s, which a signed closing accounts for\n", entries(r.Pruned))
	}
	if r.Unchained > 0 {
		a.printf("  not yet   %s that no checkpoint covers\n", entries(r.Unchained))
	}
	against := "no checkpoint was given: against who holds the key and the database this proves nothing (--save-checkpoint, and send it away)"
	if kept > 0 {
		against = count(kept, "checkpoint") + " given: what came after the last of them proves nothing against who holds the key and the database"
	}
	a.printf("%s\n", against)
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
