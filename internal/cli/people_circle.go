package cli

import (
	"fmt"
	"slices"

	"bourn"
	"bourn/internal/posix"

	"github.com/spf13/cobra"
)

func (p *people) circleCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "circle", Short: "Circles: groups of people who share a directory",
		Long: `Circles are groups of the operating system. Each has a directory in the workspace, which its
members alone can enter; what one of them makes there, all of them can change.`,
		Example: "  bourn people circle add sales\n  bourn people circle join sales ann",
	}, p.circleAdd(), p.circleJoin(), p.circleLeave(), p.circleRemove())
}

func (p *people) circleAdd() *cobra.Command {
	return p.circleVerb(&cobra.Command{
		Use: "add CIRCLE", Short: "Add a circle, and make its group and directory", ValidArgsFunction: cobra.NoFileCompletions,
		Long:    "Add a circle. Its id, and its group's name and number, are never given again.",
		Example: "  bourn people circle add sales",
	}, true, func(s *posix.State, args []string) (posix.Circle, said, error) {
		if i := slices.IndexFunc(s.Circles, func(c posix.Circle) bool { return c.ID == args[0] }); i >= 0 {
			if s.Circles[i].Removed {
				return posix.Circle{}, said{}, bourn.WithHint(fmt.Errorf("%w: %q was the id of a circle that is removed, and is never given again", bourn.ErrConflict, args[0]),
					"add it under another id, as in "+args[0]+"-2")
			}
			return posix.Circle{}, said{}, bourn.WithHint(fmt.Errorf("%w: circle %q is there already", bourn.ErrConflict, args[0]), "bourn people list shows who is in it")
		}
		c, err := s.AddCircle(args[0])
		return c, said{fmt.Sprintf("circle '%s' is the group %s (%d)", c.ID, c.Group(), c.GID), "circle added", c.ID + " " + c.Group()}, err
	})
}

func (p *people) circleJoin() *cobra.Command {
	return p.circleVerb(&cobra.Command{
		Use: "join CIRCLE PERSON", Short: "Make a person a member of a circle", ValidArgsFunction: p.completeCircle,
		Long: `Make a person a member of a circle. A process keeps its groups for life: what they run has the
new one once it is started again.`,
		Example: "  bourn people circle join sales ann",
	}, true, func(s *posix.State, args []string) (posix.Circle, said, error) {
		c, err := p.circle(*s, args[0], false)
		if err != nil {
			return c, said{}, err
		}
		q, err := p.person(*s, args[1], false)
		if err == nil {
			err = s.Join(c.ID, q.ID)
		}
		return p.now(*s, c), said{fmt.Sprintf("person '%s' is in circle '%s'", q.ID, c.ID), "person joined circle", about(q, c.ID)}, err
	})
}

func (p *people) circleLeave() *cobra.Command {
	return p.circleVerb(&cobra.Command{
		Use: "leave CIRCLE PERSON", Short: "End a person's membership in a circle", ValidArgsFunction: p.completeCircle,
		Long: `End a person's membership in a circle. What they run ends, and what they own in the circle's
directory becomes root's and stays the circle's.`,
		Example: "  bourn people circle leave sales ann",
	}, false, func(s *posix.State, args []string) (posix.Circle, said, error) {
		c, err := p.circle(*s, args[0], true)
		if err != nil {
			return c, said{}, err
		}
		q, err := p.person(*s, args[1], true)
		if err == nil {
			err = s.Leave(c.ID, q.ID)
		}
		return p.now(*s, c), said{fmt.Sprintf("person '%s' is not in circle '%s'", q.ID, c.ID), "person left circle", about(q, c.ID)}, err
	})
}

func (p *people) circleRemove() *cobra.Command {
	var yes bool
	cmd := p.circleVerb(&cobra.Command{
		Use: "remove CIRCLE", Short: "Remove a circle: nobody is in it any more", ValidArgsFunction: p.completeCircle,
		Long: `Remove a circle: what its members run ends, and nobody is in it any more. Its directory stays,
for root alone. It cannot be undone, so it asks, but for --yes.`,
		Example: "  bourn people circle remove sales --dry-run\n  bourn people circle remove sales --yes",
	}, false, func(s *posix.State, args []string) (posix.Circle, said, error) {
		c, err := p.circle(*s, args[0], true)
		if err != nil {
			return c, said{}, err
		}
		err = s.RemoveCircle(c.ID)
		return p.now(*s, c), said{fmt.Sprintf("circle '%s' is removed", c.ID), "circle removed", c.ID + " " + c.Group()}, err
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	does := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !p.dryRun && !yes {
			s, err := p.load()
			if err != nil {
				return err
			}
			c, err := p.circle(s, args[0], true)
			if err != nil {
				return err
			}
			if err := p.confirmed("circle", c.ID, "This takes its directory from all members, and ends what they run"); err != nil {
				return err
			}
		}
		return does(cmd, args)
	}
	return cmd
}

// circleVerb makes a command that changes circles. Its edit returns the circle as it is then.
func (p *people) circleVerb(cmd *cobra.Command, gives bool, do func(*posix.State, []string) (posix.Circle, said, error)) *cobra.Command {
	cmd.Args = takes
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var of posix.Circle
		return p.run(reform{gives: gives, do: func(s *posix.State) (said, error) {
			c, says, err := do(s, args)
			of = c
			return says, err
		}}, func(done *synced) { done.Circle = &of })
	}
	return p.changing(cmd)
}

// circle finds a circle by its id, with removed also one that is removed.
func (p *people) circle(s posix.State, id string, removed bool) (posix.Circle, error) {
	i := slices.IndexFunc(s.Circles, func(c posix.Circle) bool { return c.ID == id })
	if i < 0 {
		return posix.Circle{}, bourn.WithHint(fmt.Errorf("%w: there is no circle %q", bourn.ErrNotFound, id), "bourn people list shows the circles; bourn people circle add makes one")
	}
	if s.Circles[i].Removed && !removed {
		return posix.Circle{}, bourn.WithHint(fmt.Errorf("%w: circle %q is removed", bourn.ErrConflict, id), "add one under another id")
	}
	return s.Circles[i], nil
}

// now is a circle as the state has it after an edit.
func (p *people) now(s posix.State, c posix.Circle) posix.Circle {
	if i := slices.IndexFunc(s.Circles, func(o posix.Circle) bool { return o.ID == c.ID }); i >= 0 {
		return s.Circles[i]
	}
	return c
}
