package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"bourn"

	"github.com/spf13/cobra"
)

func (a *app) deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an agent with its profile, keys, home and records",
		Long: `Delete an agent with its profile, keys, home and records. What it was granted elsewhere
is left as it is. An agent that runs is not deleted.`,
		Example: `  bourn agent delete builder
  bourn agent delete builder --yes`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		if err := a.home.CanDelete(name); err != nil {
			return err
		}
		if !*yes {
			if err := a.confirm(name); err != nil {
				return err
			}
		}
		if err := a.home.Delete(name); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(a.Stdout, struct {
				Agent   bourn.AgentName `json:"agent"`
				Deleted bool            `json:"deleted"`
			}{name, true})
		}
		a.printf("%s is deleted\n", title(name))
		return nil
	}
	return cmd
}

// confirm asks the person at the terminal to type the agent's name.
func (a *app) confirm(name bourn.AgentName) error {
	if !terminal(a.Stdin) || !terminal(a.Stderr) {
		return bourn.WithHint(fmt.Errorf("%w: %s is not deleted without a person's yes", bourn.ErrInvalid, title(name)),
			"bourn agent delete "+string(name)+" --yes")
	}
	if a.ask(fmt.Sprintf("This deletes %s with everything in %s.\nType its name to go on: ",
		title(name), bourn.Printable(a.home.HomePath(name)))) != string(name) {
		return bourn.WithHint(fmt.Errorf("%w: %s is not deleted: its name was not typed", bourn.ErrDenied, title(name)),
			"type "+string(name)+" when it asks, or leave the agent as it is")
	}
	return nil
}

// ask puts a question to the person at the terminal, and returns the line that is typed, or
// "" where none comes.
func (a *app) ask(question string) string {
	fmt.Fprint(a.Stderr, question)
	line, err := bufio.NewReader(io.LimitReader(a.Stdin, 256)).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

// terminal reports whether f is a character device other than /dev/null.
func terminal(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
