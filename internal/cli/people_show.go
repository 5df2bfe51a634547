package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"bourn"
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

// shownAs is a person as it is printed.
type shownAs struct {
	ID       string          `json:"id"`
	User     string          `json:"user"`
	UID      uint32          `json:"uid"`
	Member   string          `json:"member"`
	Emails   []string        `json:"emails"`
	Accounts []posix.Account `json:"accounts"`
	Circles  []string        `json:"circles"`
	Removed  bool            `json:"removed"`
	// Ready: the helper knows the person as they should be, so that an actor can be them.
	Ready bool `json:"ready"`
	// Revoked: the control plane took everything from the person, or the circles that are named so.
	Revoked        bool     `json:"revoked"`
	RevokedCircles []string `json:"revoked_circles"`
	Home           string   `json:"home"`
}

// shownPerson says of a person what there is. r is what the helper knows, nil for nothing.
func shownPerson(s posix.State, r *posix.Registry, q posix.Person) shownAs {
	l := shownAs{ID: q.ID, User: q.User(), UID: q.UID, Member: q.Member, Emails: nonNil(q.Emails), Accounts: nonNil(q.Accounts),
		Circles: []string{}, Removed: q.Removed, RevokedCircles: []string{}}
	for _, c := range s.Circles {
		switch {
		case !slices.Contains(c.Members, q.ID):
		case r != nil && slices.Contains(r.Revoked, posix.Revocation{Person: l.User, Circle: c.Group()}):
			l.RevokedCircles = append(l.RevokedCircles, c.ID)
		default:
			l.Circles = append(l.Circles, c.ID)
		}
	}
	if r == nil {
		return l
	}
	l.Revoked = slices.Contains(r.Revoked, posix.Revocation{Person: l.User})
	i := slices.IndexFunc(r.People, func(e posix.Entry) bool { return e.Name == l.User })
	// Everybody is in one group more than in circles.
	if i >= 0 && r.People[i].Active && r.People[i].UID == q.UID && len(r.People[i].Groups) == len(l.Circles)+1 {
		l.Ready, l.Home = true, r.Home(r.People[i])
	}
	return l
}

func (p *people) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List people and circles", Args: takes, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `List people and circles, those who are removed too. Who is forgotten is counted: of them only the
id, the name and the number are kept, so that none is given again.`,
		Example: "  bourn people list\n  bourn people list --json",
		RunE: func(*cobra.Command, []string) error {
			s, err := p.load()
			if err != nil {
				return err
			}
			r := p.registry()
			var all []shownAs
			for _, q := range s.People {
				all = append(all, shownPerson(s, r, q))
			}
			if p.asJSON {
				return printJSON(p.Stdout, struct {
					Range      posix.Range       `json:"range"`
					People     []shownAs         `json:"people"`
					Circles    []posix.Circle    `json:"circles"`
					Tombstones []posix.Tombstone `json:"tombstones"`
				}{s.Range, nonNil(all), nonNil(s.Circles), nonNil(s.Tombstones)})
			}
			p.printPeople(all, s)
			return nil
		},
	}
	return p.printing(cmd)
}

func (p *people) printPeople(all []shownAs, s posix.State) {
	if !given(s) {
		p.printf("nobody was added: bourn people add ID\n")
		return
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	if len(all) > 0 {
		fmt.Fprintln(w, "PERSON\tUSER\tUID\tSTATE\tCIRCLES")
	}
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", l.ID, l.User, l.UID, l.state(), dash(l.Circles))
	}
	if len(all) > 0 && len(s.Circles) > 0 {
		fmt.Fprintln(w)
	}
	if len(s.Circles) > 0 {
		fmt.Fprintln(w, "CIRCLE\tGROUP\tGID\tMEMBERS")
	}
	for _, c := range s.Circles {
		members := dash(c.Members)
		if c.Removed {
			members = "removed"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.ID, c.Group(), c.GID, members)
	}
	w.Flush()
	if n := len(s.Tombstones); n > 0 {
		p.printf("%d forgotten\n", n)
	}
}

// dash is a list as a column has it.
func dash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, " ")
}

func (l shownAs) state() string {
	switch {
	case l.Removed:
		return "removed"
	case l.Revoked:
		return "revoked"
	case l.Ready:
		return "ready"
	}
	return "not ready: bourn people sync"
}

func (p *people) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show PERSON", Short: "Show a person, by id, e-mail or sign-in account", Args: takes, ValidArgsFunction: p.completePerson,
		Long: `Show a person, by id, by an e-mail, or by a sign-in account as ISSUER#SUBJECT. An identifier
names one person exactly, or nobody; where it names several, all are shown and none is taken.`,
		Example: "  bourn people show ann\n  bourn people show ann@example.com",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := p.load()
			if err != nil {
				return err
			}
			q, err := p.person(s, args[0], true)
			if err != nil {
				return err
			}
			l := shownPerson(s, p.registry(), q)
			if p.asJSON {
				return printJSON(p.Stdout, l)
			}
			var accounts []string
			for _, acc := range l.Accounts {
				accounts = append(accounts, acc.String())
			}
			w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
			for _, row := range [][2]string{
				{"person", l.ID}, {"state", l.state()}, {"user", fmt.Sprintf("%s (%d)", l.User, l.UID)}, {"member", l.Member}, {"home", l.Home},
				{"circles", strings.Join(l.Circles, " ")},
				{"revoked", strings.Join(l.RevokedCircles, " ")}, {"e-mails", strings.Join(l.Emails, " ")}, {"accounts", strings.Join(accounts, " ")},
			} {
				if row[1] != "" {
					fmt.Fprintf(w, "%s\t%s\n", row[0], bourn.Printable(row[1]))
				}
			}
			return w.Flush()
		},
	}
	return p.printing(cmd)
}
