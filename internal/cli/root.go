// Package cli is bourn's command line: a file for each command. It alone prints.
//
// Results go to standard output and everything else to standard error. Errors are one
// sentence, and the hint below them is what to do next.
package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bourn"
	"bourn/internal/launch"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// A Command is one invocation: what it may read and write. The zero value of a field
// is an error but where it says otherwise.
type Command struct {
	Args    []string // without the program's name
	Environ []string
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File
	Version string // "" is "dev"
	// Child is one that launch.Spawn has started with the three streams, so that it gets
	// ready on another core while the command line is read and the run is planned. Nil
	// starts one when it is needed.
	Child *launch.Child
}

// app is what the commands share.
type app struct {
	Command
	home   *run.Home
	exit   int
	signal int
	said   int // lines that run has said before its header
}

// An Exit says how the process must end: with a status, or by the signal that ended the
// command it ran, so that whoever waits sees the same as without bourn.
type Exit struct {
	Status int
	Signal int
}

// Main runs one command and reports how the process must end.
func (c Command) Main() Exit {
	a := &app{Command: c}
	root := a.root()
	root.SetArgs(c.Args)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	if cmd, err := root.ExecuteC(); err != nil {
		a.complain(cmd, err)
	}
	if a.Child != nil {
		a.Child.Discard()
	}
	return Exit{Status: a.exit, Signal: a.signal}
}

func (a *app) root() *cobra.Command {
	version := a.Version
	if version == "" {
		version = "dev"
	}
	root := &cobra.Command{
		Use:   "bourn",
		Short: "Run agents and commands inside boundaries that the kernel keeps",
		Long: `Bourn runs an agent, or any command, sealed: it may read, write and execute what you
granted, the kernel keeps that, and bourn says for every grant whether it got there.

Start here, in a project's directory:

  bourn run --deny .env -- sh   a shell in which .env is closed
  bourn run -- make test        a command, with this directory writable and nothing else
  bourn plan                    what would be sealed, line by line
  bourn doctor                  what this host can keep

When you run the same thing every day, give it a name and grants of its own:

  bourn agent create builder --write ~/src/app -- make
  bourn run --agent builder

The network is closed unless hosts are granted: bourn run --host api.example.com -- make fetch`,
		Example: `  bourn run --deny .env -- npm test
  bourn agent perm list-paths builder`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("bourn {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.CompletionOptions.DisableDefaultCmd = true
	cobra.EnableCommandSorting = false // what comes first is listed first
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run something sealed:"}, &cobra.Group{ID: "ask", Title: "Ask what holds:"},
		&cobra.Group{ID: "agents", Title: "Agents with grants of their own:"}, &cobra.Group{ID: "control", Title: "The control plane:"},
		&cobra.Group{ID: "host", Title: "This host:"})
	in := func(id string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = id
		}
		root.AddCommand(cmds...)
	}
	in("run", a.runCommand(), a.acceptCommand())
	in("ask", a.planCommand(), a.explainCommand(), a.whoamiCommand())
	in("agents", a.agentCommand(), a.importCommand())
	in("control", a.controlCommands()...)
	in("control", a.boundariesCommand(), a.auditCommand(), a.recordsCommand(), a.keyCommand(), a.mcpCommand())
	in("host", a.peopleCommand(), a.doctorCommand(), a.completionCommand(), a.manCommand(), a.actorCommand(), a.actorHostCommand(), a.workerCommand(), a.personActorCommand())
	root.SetHelpCommandGroupID("host")
	for _, c := range root.Commands() {
		if c.Flags().Lookup("agent") != nil {
			_ = c.RegisterFlagCompletionFunc("agent", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return a.agentNames(), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
	return group(root)
}

// usage marks an error as one of usage: status 2.
func usage(err error) error { return fmt.Errorf("%w usage: %w", bourn.ErrInvalid, err) }

// open finds $BOURN_HOME, the person's home and the program, and removes what killed
// runs have left.
func (a *app) open() error {
	if a.home != nil {
		return nil
	}
	h, err := a.findHome()
	if err != nil {
		return err
	}
	if err := h.Make(); err != nil {
		return err
	}
	notes, err := h.Sweep()
	for _, n := range notes {
		a.say("%s", n)
	}
	if err != nil {
		return err
	}
	a.home = h
	return nil
}

func (a *app) findHome() (*run.Home, error) {
	h := &run.Home{Environ: a.Environ, Floor: run.FloorPath}
	env := func(name string) string {
		for _, kv := range a.Environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
	h.Person = env("HOME")
	if !filepath.IsAbs(h.Person) {
		return nil, bourn.WithHint(fmt.Errorf("%w: HOME is not set to an absolute path", bourn.ErrInvalid), "set HOME to your home directory")
	}
	h.Person = canonical(h.Person)
	h.Dir = env("BOURN_HOME")
	if h.Dir == "" {
		h.Dir = filepath.Join(h.Person, ".bourn")
	}
	if !filepath.IsAbs(h.Dir) {
		return nil, bourn.WithHint(fmt.Errorf("%w: BOURN_HOME is not an absolute path", bourn.ErrInvalid), "unset it, or set it to a directory of your own")
	}
	h.Dir = canonical(h.Dir)
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h.Program = canonical(program)
	return h, nil
}

// canonical resolves symlinks as far as the path exists.
func canonical(p string) string {
	p = filepath.Clean(p)
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real
	}
	if dir := filepath.Dir(p); dir != p {
		return filepath.Join(canonical(dir), filepath.Base(p))
	}
	return p
}

// where returns the working directory, canonical, and as the person spelled it.
func (a *app) where() (cwd, name string, err error) {
	name, err = os.Getwd() // prefers $PWD where that names the same directory
	if err != nil {
		return "", "", bourn.WithHint(fmt.Errorf("cannot find the working directory: %w", err), "cd into a directory that exists")
	}
	return canonical(name), name, nil
}

// inside reports whether bourn itself runs in a seal.
func inside() bool {
	info, err := os.Lstat(run.GatePath)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

func refuseInside(what string) error {
	return bourn.WithHint(fmt.Errorf("%w: %s is not possible inside a seal", bourn.ErrDenied, what),
		"ask a person to do it outside; inside, bourn whoami and bourn explain work")
}

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.Stdout, format, args...) }

func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.Stderr, "bourn: "+bourn.Printable(fmt.Sprintf(format, args...)))
}
