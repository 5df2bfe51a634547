package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) acceptCommand() *cobra.Command {
	var digest string
	var forget bool
	cmd := &cobra.Command{
		Use:   "accept [DIR]",
		Short: "Show what a repository proposes for runs in it, and accept it",
		Long: `Show what the repository of DIR, or of the current directory, proposes for runs in it in
.bourn/profile.yaml, item by item, and ask whether to accept it. What it grants holds only
once it is accepted, for exactly that text in that directory. What it denies inside the
repository holds at any time.

Without a terminal nothing is accepted but by --digest with the SHA-256 of the text that
was read.`,
		Example: `  bourn accept
  bourn accept ~/src/app --json
  bourn accept --forget`,
		Args: atMostOne,
	}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&digest, "digest", "", "accept the text that has this `SHA256`, without asking")
	cmd.Flags().BoolVar(&forget, "forget", false, "take back what was accepted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if inside() {
			return refuseInside("bourn accept")
		}
		if err := a.open(); err != nil {
			return err
		}
		dir, err := a.directory(args)
		switch {
		case err != nil:
			return err
		case forget && cmd.Flags().Changed("digest"):
			return usage(errors.New("--forget and --digest contradict each other"))
		case forget:
			return a.forget(dir, *asJSON)
		case cmd.Flags().Changed("digest"):
			if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 {
				return bourn.WithHint(usage(fmt.Errorf("--digest takes the SHA-256 of a proposal in 64 hex digits, not %q", digest)), "bourn accept shows it")
			}
		}
		return a.accept(dir, strings.ToLower(digest), *asJSON)
	}
	return cmd
}

// atMostOne refuses a second argument.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage(fmt.Errorf("bourn accept [DIR]: %q is one argument too many", args[1]))
	}
	return nil
}

// directory returns the directory that an argument names, without symlinks; the current
// one without an argument.
func (a *app) directory(args []string) (string, error) {
	if len(args) == 0 {
		dir, _, err := a.where()
		return dir, err
	}
	cwd, _, err := a.where()
	if err != nil {
		return "", err
	}
	dir, err := a.home.Resolve(args[0], cwd)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", bourn.WithHint(fmt.Errorf("%w: %s is no directory", bourn.ErrInvalid, bourn.Printable(args[0])), "name the repository, or a directory in it")
	}
	return dir, nil
}

// acceptance is what the command says as JSON.
type acceptance struct {
	Repository string            `json:"repository"`
	File       string            `json:"file"`
	Digest     string            `json:"digest"`
	State      run.ProposalState `json:"state"`
	Asks       string            `json:"asks"`
	Accepted   bool              `json:"accepted"`
	Items      []policy.Item     `json:"items"`
}

// accept shows a proposal, and keeps the person's yes to it.
func (a *app) accept(dir, digest string, asJSON bool) error {
	q, err := a.home.FindProposal(dir)
	if err != nil {
		return err
	}
	items, err := a.home.ProposalItems(q)
	if err != nil {
		return err
	}
	if !asJSON {
		a.showProposal(q, items)
	}
	if q.State != run.ProposalAccepted {
		if err = a.consent(q, digest, asJSON); err == nil {
			err = a.home.Accept(q)
		}
		if err == nil {
			q.State = run.ProposalAccepted
		}
	} else if digest != "" && digest != q.Digest {
		err = otherDigest(q)
	}
	accepted := q.State == run.ProposalAccepted
	switch {
	case asJSON:
		return errors.Join(printJSON(a.Stdout, acceptance{q.Root, q.File(), q.Digest, q.State, a.home.Asks(q), accepted, items}), answered(err))
	case err != nil:
		return err
	}
	a.printf("\nit is accepted, as long as neither it nor its directory changes: bourn accept --forget takes that back\n")
	return nil
}

// showProposal prints what a proposal would add to a run.
func (a *app) showProposal(q *run.Proposal, items []policy.Item) {
	a.printf("proposal %s\nsha256 %s\n", bourn.Printable(q.File()), q.Digest)
	switch q.State {
	case run.ProposalChanged:
		a.printf("another text of it was accepted before\n")
	case run.ProposalMoved:
		a.printf("it was accepted in another directory of this name before\n")
	case run.ProposalNew, run.ProposalAccepted, run.ProposalGone:
	}
	a.printf("asks for %s\n", a.home.Asks(q))
	if len(items) == 0 {
		a.printf("it would add nothing, as this host is now\n")
		return
	}
	a.printf("✓ would be enforced   ✗ would be dropped, as this host is now\n")
	printItems(a.Stdout, items)
}

func otherDigest(q *run.Proposal) error {
	return bourn.WithHint(fmt.Errorf("%w: %s has another digest than --digest says, and is not accepted", bourn.ErrConflict, bourn.Printable(q.File())),
		"read it again: bourn accept")
}

// consent returns nil if a person says yes to what was shown: at the terminal, or by its
// digest.
func (a *app) consent(q *run.Proposal, digest string, asJSON bool) error {
	switch {
	case digest == q.Digest:
		return nil
	case digest != "":
		return otherDigest(q)
	case asJSON || !terminal(a.Stdin) || !terminal(a.Stderr) || !terminal(a.Stdout):
		return bourn.WithHint(fmt.Errorf("%w: the proposal is not accepted without a person's yes", bourn.ErrDenied),
			"once you have read it: bourn accept --digest "+q.Digest)
	}
	if answer := strings.ToLower(a.ask("\nIt asks for " + a.home.Asks(q) + ". Accept it for runs in this directory? [y/N] ")); answer != "y" && answer != "yes" {
		return bourn.WithHint(fmt.Errorf("%w: the proposal is not accepted", bourn.ErrDenied), "runs here go on without it")
	}
	return nil
}

// forget takes back what was accepted.
func (a *app) forget(dir string, asJSON bool) error {
	root, err := a.home.Forget(dir)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(a.Stdout, struct {
			Repository string `json:"repository"`
			Forgotten  bool   `json:"forgotten"`
		}{root, true})
	}
	a.printf("nothing of %s is accepted any more\n", bourn.Printable(root))
	return nil
}
