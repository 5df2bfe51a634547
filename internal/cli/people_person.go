package cli

import (
	"fmt"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/audit"
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

func (p *people) addCommand() *cobra.Command {
	var emails, accounts, circles []string
	var member string
	cmd := &cobra.Command{
		Use: "add ID", Short: "Add a person, and make the user that they are on this host", Args: takes, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Add a person. ID names them for ever: it, the user's name and number are never given again,
also after the person is removed. The user has no password, and nobody signs in as it.

An e-mail invites: whoever signs in with it, verified by an issuer that may vouch for its
domain, is this person from then on. An account is a sign-in that is theirs already.`,
		Example: `  bourn people add ann --email ann@example.com
  bourn people add bob --account https://id.example.com#17 --circle sales`,
		RunE: func(_ *cobra.Command, args []string) error {
			if member == "" {
				member = audit.NewID()
			}
			var known []posix.Account
			for _, text := range accounts {
				acc, err := account(text)
				if err != nil {
					return err
				}
				known = append(known, acc)
			}
			var made posix.Person
			return p.run(reform{gives: true, do: func(s *posix.State) (said, error) {
				if err := p.unknown(*s, args[0]); err != nil {
					return said{}, err
				}
				var err error
				if made, err = s.AddPerson(args[0], member, emails, known); err != nil {
					return said{}, err
				}
				for _, id := range circles {
					c, err := p.circle(*s, id, false)
					if err == nil {
						err = s.Join(c.ID, made.ID)
					}
					if err != nil {
						return said{}, err
					}
				}
				return said{fmt.Sprintf("person '%s' is the user %s (%d)", made.ID, made.User(), made.UID), "person added", about(made, circles...)}, nil
			}}, func(done *synced) { done.Person = &made })
		},
	}
	cmd.Flags().StringArrayVar(&emails, "email", nil, "an `ADDRESS` that invites them, more than once for several")
	cmd.Flags().StringArrayVar(&accounts, "account", nil, "a sign-in account of theirs, `ISSUER#SUBJECT`")
	cmd.Flags().StringArrayVar(&circles, "circle", nil, "a `CIRCLE` that they are in")
	cmd.Flags().StringVar(&member, "member", "", "the `UUID` of the same human in the records; left out, a new one")
	for _, name := range []string{"email", "account", "member"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	_ = cmd.RegisterFlagCompletionFunc("circle", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return p.circleIDs(), cobra.ShellCompDirectiveNoFileComp
	})
	return p.changing(cmd)
}

// about is whom an entry of the log is about. It has no e-mail and no account.
func about(q posix.Person, circles ...string) string {
	return strings.Join(append([]string{q.ID, q.User()}, circles...), " ")
}

// unknown refuses an id that somebody has, or had.
func (p *people) unknown(s posix.State, id string) error {
	if i := slices.IndexFunc(s.People, func(q posix.Person) bool { return q.ID == id && !q.Removed }); i >= 0 {
		return bourn.WithHint(fmt.Errorf("%w: person %q is there already", bourn.ErrConflict, id), "bourn people show "+id)
	}
	if slices.ContainsFunc(s.People, func(q posix.Person) bool { return q.ID == id }) ||
		slices.ContainsFunc(s.Tombstones, func(t posix.Tombstone) bool { return t.Kind == posix.KindPerson && t.ID == id }) {
		return bourn.WithHint(fmt.Errorf("%w: %q was the id of a person who is removed, and is never given again", bourn.ErrConflict, id),
			"add them under another id, as in "+id+"-2")
	}
	return nil
}

func (p *people) removeCommand() *cobra.Command {
	var forget, yes bool
	cmd := &cobra.Command{
		Use: "remove PERSON", Short: "Remove a person: their user is locked and in no circle any more", Args: takes, ValidArgsFunction: p.completePerson,
		Long: `Remove a person: what they run ends, their user is locked, and they are in no circle any more.
What they own in circles becomes root's and stays the circle's. Their private directory stays.
It cannot be undone: the same human comes back under another id. So it asks, but for --yes.

With --forget, their e-mails, accounts and member go too, and only the id, the name and the
number stay, so that none of them is given again.`,
		Example: `  bourn people remove bob --dry-run
  bourn people remove bob --yes`,
		RunE: func(_ *cobra.Command, args []string) error {
			if !p.dryRun && !yes {
				if err := p.confirmRemoval(args[0], forget); err != nil {
					return err
				}
			}
			var gone posix.Person
			return p.run(reform{do: func(s *posix.State) (of said, err error) {
				if gone, err = p.person(*s, args[0], forget); err != nil {
					return said{}, err
				}
				of = said{fmt.Sprintf("person '%s' is removed", gone.ID), "person removed", about(gone)}
				if err = s.RemovePerson(gone.ID); err != nil || !forget {
					return of, err
				}
				of.head, of.what = of.head+" and forgotten", "person removed and forgotten"
				return of, s.Forget(gone.ID)
			}}, func(done *synced) { done.Person = &gone })
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "keep nothing of them but the id, the name and the number")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return p.changing(cmd)
}

// confirmRemoval asks the person at the terminal to type the id of whom they remove.
func (p *people) confirmRemoval(identifier string, forget bool) error {
	s, err := p.load()
	if err != nil {
		return err
	}
	q, err := p.person(s, identifier, forget)
	if err != nil {
		return err
	}
	return p.confirmed("person", q.ID, "This ends what they run, and takes everything from them")
}

// confirmed asks the person at the terminal to type the id of what is removed for good.
func (p *people) confirmed(what, id, does string) error {
	if !terminal(p.Stdin) || !terminal(p.Stderr) {
		command := "bourn people remove "
		if what == "circle" {
			command = "bourn people circle remove "
		}
		return bourn.WithHint(fmt.Errorf("%w: %s %q is not removed without a yes", bourn.ErrInvalid, what, id), command+id+" --yes, and --dry-run shows what it does")
	}
	if p.ask(fmt.Sprintf("%s, for good.\nType %s to go on: ", does, id)) != id {
		return bourn.WithHint(fmt.Errorf("%w: %s %q is not removed: its id was not typed", bourn.ErrDenied, what, id), "type "+id+" when it asks, or leave it as it is")
	}
	return nil
}

// person finds whom an identifier names, and with removed also who is removed, by id.
func (p *people) person(s posix.State, identifier string, removed bool) (posix.Person, error) {
	found, err := posix.Resolve(s, identifier)
	if err == nil {
		return found, nil
	}
	if i := slices.IndexFunc(s.People, func(q posix.Person) bool { return q.ID == identifier && q.Removed }); i >= 0 {
		if removed {
			return s.People[i], nil
		}
		return posix.Person{}, bourn.WithHint(fmt.Errorf("%w: person %q is removed already", bourn.ErrConflict, identifier), "bourn people list shows who there is")
	}
	if bourn.HintOf(err) == "" {
		err = bourn.WithHint(err, "bourn people list shows who there is")
	}
	return posix.Person{}, err
}
