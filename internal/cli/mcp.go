package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"bourn"
	"bourn/internal/daemon/instance"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) mcpCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "mcp", Short: "Serve the governed tools to an MCP client",
		Long:    "The governed tools (files, shell, git) are offered over MCP. Each call is reviewed, logged,\nand performed under the agent's seal.",
		Example: "  bourn mcp serve\n  bourn mcp serve --agent builder",
	}, a.mcpServeCommand())
}

func (a *app) mcpServeCommand() *cobra.Command {
	var f grantFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Carry MCP between standard input and output and the governed tools", Args: takes, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `An MCP client starts this as its server.

Inside a run it carries the bytes to the run's gate and back: the tools act under the run's
grants. Outside, with --agent, it starts a run whose command is nothing but the tools: they
act under the agent's grants, and the client itself is not sealed. The control plane is
started where none runs. Everything ends with the client.`,
		Example: `  bourn mcp serve
  bourn mcp serve --agent builder
  claude mcp add bourn -- bourn mcp serve --agent builder
  codex mcp add bourn -- bourn mcp serve --agent builder`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("agent") {
				return a.serveAgentsTools(cmd, &f)
			}
			return serveRunsTools()
		},
	}
	cmd.Flags().StringVar(&f.agent, "agent", "", "the `NAME` of the agent under whose grants the tools act, outside of runs")
	return cmd
}

// serveRunsTools carries a client's bytes to the gate of the run that it is in.
func serveRunsTools() error {
	if !inside() {
		return bourn.WithHint(usage(errors.New("there is no run round this command, and --agent names nobody")),
			"name an agent: bourn mcp serve --agent NAME; or start it inside: bourn run -- CLIENT, with `bourn mcp serve` as the client's server")
	}
	conn, err := net.Dial("unix", run.GatePath)
	if err != nil {
		return bourn.WithHint(fmt.Errorf("%w: the run's gate does not answer: %w", bourn.ErrUnavailable, err), "start the run again")
	}
	return run.Relay(conn, os.Stdin, os.Stdout)
}

// serveAgentsTools starts a run of an agent's tools and carries a client's bytes to it.
func (a *app) serveAgentsTools(cmd *cobra.Command, f *grantFlags) error {
	p, h, err := a.prepareTools(cmd, f) // before anything is started for it
	if err != nil {
		return err
	}
	if err := a.ensureControl(h); err != nil {
		return err
	}
	outcome, err := p.ServeTools(os.Stdin, os.Stdout, os.Stderr)
	a.sayNotes(outcome.Notes)
	a.sayRefusals(outcome.Refusals, outcome.NotKept)
	return err
}

// prepareTools plans a run of an agent's tools.
func (a *app) prepareTools(cmd *cobra.Command, f *grantFlags) (*run.Prepared, *run.Home, error) {
	if inside() {
		return nil, nil, bourn.WithHint(fmt.Errorf("%w: --agent is not possible inside a seal", bourn.ErrDenied), "without it the tools act under this run's grants: bourn mcp serve")
	}
	if err := f.check(cmd); err != nil {
		return nil, nil, err
	}
	h, err := a.controlHome(cmd)
	if err != nil {
		return nil, nil, err
	}
	f.starting = true
	p, err := a.prepare(f, nil)
	return p, h, err
}

// actorHostCommand is the process that the control plane starts for clients over HTTP.
func (a *app) actorHostCommand() *cobra.Command {
	var f grantFlags
	cmd := &cobra.Command{
		Use: "actor-host", Hidden: true, Args: cobra.NoArgs, Short: "Hold an agent's actor ready (started by bournd)",
		Example: "  bourn actor-host --agent builder",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.agent == "" {
				return usage(errors.New("--agent names nobody"))
			}
			p, _, err := a.prepareTools(cmd, &f)
			if err != nil {
				return err
			}
			_, err = p.HostActor(os.Stdin, os.Stdout, os.Stderr)
			return err
		},
	}
	cmd.Flags().StringVar(&f.agent, "agent", "", "the `NAME` of the agent")
	return cmd
}

// ensureControl starts a control plane where none runs, as serve --background does.
// Nothing is printed: standard output is a client's.
func (a *app) ensureControl(h *run.Home) error {
	program, err := a.daemonProgram(h)
	if err != nil {
		return err
	}
	b, err := a.alreadyRuns(h, program)
	if err != nil || b.Already {
		return err
	}
	_, err = a.startControl(&cobra.Command{}, h, program, filepath.Join(h.Dir, instance.LogName))
	if !errors.Is(err, bourn.ErrConflict) {
		return err
	}
	// Another client started one just now.
	if b, again := a.alreadyRuns(h, program); again == nil && b.Already {
		return nil
	}
	return err
}
