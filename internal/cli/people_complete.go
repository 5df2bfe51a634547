package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// completePerson completes a person's id, and nothing where who there is cannot be read.
func (p *people) completePerson(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := p.load()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, q := range s.People {
		if !q.Removed {
			ids = append(ids, q.ID)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeCircle completes a circle's id, and then a person's: to leave, of its members.
func (p *people) completeCircle(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return p.circleIDs(), cobra.ShellCompDirectiveNoFileComp
	case len(args) > 1 || len(argNames(cmd)) < 2:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ids, how := p.completePerson(cmd, nil, text)
	s, err := p.load()
	if err != nil || cmd.Name() != "leave" {
		return ids, how
	}
	c, err := p.circle(s, args[0], true)
	return slices.DeleteFunc(ids, func(id string) bool { return err != nil || !slices.Contains(c.Members, id) }), how
}

// circleIDs are the circles that there are.
func (p *people) circleIDs() []cobra.Completion {
	s, err := p.load()
	if err != nil {
		return nil
	}
	var ids []cobra.Completion
	for _, c := range s.Circles {
		if !c.Removed {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
