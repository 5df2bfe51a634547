package cli

import (
	"fmt"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

func (p *people) initCommand() *cobra.Command {
	var text string
	cmd := &cobra.Command{
		Use: "init", Short: "Prepare this host for people: the range of their numbers, and the workspace",
		Args: takes, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Prepare this host for people: the service's accounts and the workspace's directories. Nobody
has to: the first bourn people add does the same with the default range.

People and circles get their numbers from one range, ` + posix.DefaultRange.String() + ` unless --range says another.
It is chosen before the first of them is added and stays. It may hold no number that passwd,
group, subuid, subgid, login.defs or systemd gives to somebody else: with a user namespace,
whoever has a number as a subordinate id can act as its owner.`,
		Example: "  bourn people init --dry-run\n  bourn people init --range 1880000000-1880099999",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var r posix.Range
			if cmd.Flags().Changed("range") {
				var err error
				if r, err = readRange(text); err != nil {
					return err
				}
			}
			return p.run(reform{gives: true, do: func(s *posix.State) (said, error) {
				if r == (posix.Range{}) || r == s.Range {
					return said{head: "the range is " + s.Range.String()}, nil
				}
				if given(*s) {
					return said{}, bourn.WithHint(fmt.Errorf("%w: the range is %s, and numbers of it were given", bourn.ErrConflict, s.Range),
						"keep "+s.Range.String()+"; what overlaps it is mended in the file that bourn people sync names")
				}
				next, err := posix.NewState(r)
				if err == nil {
					*s = next
				}
				return said{"the range is " + r.String(), "range of people set", r.String()}, err
			}}, nil)
		},
	}
	cmd.Flags().StringVar(&text, "range", "", "the numbers of people and circles, `FIRST-LAST`")
	_ = cmd.RegisterFlagCompletionFunc("range", cobra.NoFileCompletions)
	return p.changing(cmd)
}

// readRange reads FIRST-LAST. Whether it can be used is the state's to say.
func readRange(text string) (posix.Range, error) {
	first, last, _ := strings.Cut(text, "-")
	f, err := strconv.ParseUint(first, 10, 32)
	l, err2 := strconv.ParseUint(last, 10, 32)
	if err != nil || err2 != nil {
		return posix.Range{}, bourn.WithHint(usage(fmt.Errorf("--range %q is not FIRST-LAST", text)), "as in --range "+posix.DefaultRange.String())
	}
	return posix.Range{First: uint32(f), Last: uint32(l)}, nil
}

// ranges are offered where the default is not free: above what systemd gives to containers,
// and between its users and the dynamic ones (UIDS-GIDS.md).
var ranges = []posix.Range{posix.DefaultRange, {First: 1880000000, Last: 1880099999}, {First: 60578, Last: 61183}}

// rangeHint says how a range that is not free is mended: with one that is, while nobody has
// a number, else as the plan says.
func (p *people) rangeHint(host posix.Host, otherwise string) string {
	_, mend, _ := strings.Cut(otherwise, ", or ")
	if p.given {
		return mend
	}
	for _, r := range ranges {
		next, err := posix.NewState(r)
		if err != nil {
			continue
		}
		if _, problems := posix.Plan(next, host); len(problems) == 0 {
			return "bourn people init --range " + r.String() + ", or " + mend
		}
	}
	return otherwise
}
