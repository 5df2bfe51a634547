package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"bourn"
	"bourn/internal/run"
	"bourn/internal/workspace"

	"github.com/spf13/cobra"
)

// personActorCommand is what the setuid helper executes once it has become a person: it reads
// on its standard input, a socket, what to be sealed as, and the actor speaks there then.
func (a *app) personActorCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "person-actor", Hidden: true, Args: cobra.NoArgs, Short: "Hold a person's actor (started by bourn-posix-helper)",
		Example: "  bourn person-actor",
		RunE: func(*cobra.Command, []string) error {
			err := a.servePerson(agent)
			if err != nil {
				// Whoever asked reads it; where it has gone, standard error has it.
				err = errors.Join(err, workspace.Refuse(os.Stdin, err))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the `NAME` of the agent")
	return cmd
}

func (a *app) servePerson(agent string) error {
	if inside() {
		return refuseInside("bourn person-actor")
	}
	s, err := workspace.ReadSpec(os.Stdin, a.Version)
	if err != nil {
		return err
	}
	if string(s.Agent) != agent {
		return bourn.WithHint(fmt.Errorf("%w: the agent that was named first is another", bourn.ErrInvalid), "bourn-posix-helper starts this, for the control plane")
	}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil || u.Username != s.Person || os.Getuid() == 0 {
		return bourn.WithHint(fmt.Errorf("%w: this process is not %s", bourn.ErrDenied, s.Person), "bourn people sync, as root, makes the users that people are")
	}
	h, err := a.findHome()
	if err != nil {
		return err
	}
	_, err = h.ServePerson(run.PersonActor{Agent: s.Agent, Profile: s.Profile, Rules: s.Rules, Key: s.Key, Dir: s.Dir, Run: s.Run, Read: s.Read, Write: s.Write}, os.Stdin, os.Stderr)
	return err
}
