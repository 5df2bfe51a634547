package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bourn"
	"bourn/api"
	"bourn/internal/daemon/instance"
	"bourn/internal/man"
	"bourn/internal/operation"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// manCommand lays down the manual pages; make install calls it. They are made of the tree
// of commands, so a program has the pages of its own version with it.
func (a *app) manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a directory",
		Long: `Write the manual pages into DIR/man1 and DIR/man5. make install does so. Their date is
today's, or that of SOURCE_DATE_EPOCH.`,
		Example: `  bourn man ~/.local/share/man
  bourn man /tmp/bourn-man && man -l /tmp/bourn-man/man1/bourn-run.1`,
		Args:   takes,
		Hidden: true,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pages := man.Pages(cmd.Root(), man.Edition{Version: cmd.Root().Version, Date: a.date(), Notes: notes})
		if err := writePages(args[0], pages); err != nil {
			return bourn.WithHint(fmt.Errorf("%w: cannot write the manual pages: %w", bourn.ErrUnavailable, err),
				"name a directory that you can write, as in bourn man ~/.local/share/man")
		}
		if *asJSON {
			return printJSON(a.Stdout, struct {
				Dir   string `json:"dir"`
				Pages int    `json:"pages"`
			}{args[0], len(pages)})
		}
		a.printf("%d pages are in %s\n", len(pages), bourn.Printable(args[0]))
		return nil
	}
	return cmd
}

// date is what the pages are dated with: reproducible-builds.org has SOURCE_DATE_EPOCH.
func (a *app) date() time.Time {
	for _, kv := range a.Environ {
		if v, ok := strings.CutPrefix(kv, "SOURCE_DATE_EPOCH="); ok {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return time.Unix(n, 0)
			}
		}
	}
	return time.Now()
}

func writePages(dir string, pages map[string][]byte) error {
	for name, text := range pages {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		// A new file: what stands there may be a link to somewhere else.
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// exits are the statuses of every command but run.
var exits = []struct {
	codes []bourn.Code
	about string
}{
	{[]bourn.Code{bourn.CodeNotFound, bourn.CodeConflict, bourn.CodeUnavailable, bourn.CodeInternal}, "there is no such thing, the state has moved on, or something that is needed does not answer"},
	{[]bourn.Code{bourn.CodeInvalid}, "the command line, a profile or a path cannot be what was meant"},
	{[]bourn.Code{bourn.CodeDenied}, "it is refused"},
	{[]bourn.Code{bourn.CodeWeakHost}, "this host cannot keep the boundary; bourn doctor says what it lacks"},
}

// runExits are the statuses of run, as env(1) has them.
var runExits = [][2]string{
	{"125", "the command was not started"},
	{"126", "the command cannot be executed"},
	{"127", "the command is not found"},
	{"other", "the command's own status; bourn ends by the signal that ended the command"},
}

// controlEnvironment and controlFiles are of the commands that bournd carries out.
var (
	controlEnvironment = [][2]string{
		{operation.DatabaseURL, "stands for --database-url"},
		{operation.AdminURL, "stands for --admin-url, and keeps a password out of the list of processes"},
		{operation.DatabaseUser, "stands for --database-user"},
	}
	controlFiles = [][2]string{
		{"~/.bourn/" + api.SocketName, "the local socket"},
		{"~/.bourn/" + instance.LogName, "the log of a control plane in the background"},
		{"~/.bourn/" + instance.LockName, "held by the one control plane; its process id"},
		{"~/.bourn/identity.key", "the host's key, which signs the log"},
		{"~/.bourn/secrets/database.json", "the passwords of the roles on a server that others run"},
		{"~/.bourn/postgres/, /var/lib/bourn/postgres-*/", "the private PostgreSQL, of an ordinary user and of root"},
	}
)

// notes are the sections of a manual page that --help does not have.
func notes(cmd *cobra.Command) man.Notes {
	n := man.Notes{
		Environment: [][2]string{
			{"HOME", "the person's home directory; it must be an absolute path"},
			{"BOURN_HOME", "where agents and records are; without it, ~/.bourn"},
		},
		Files: [][2]string{
			{"~/.bourn/agents/NAME/profile.yaml", "what an agent is granted; see bourn-profile(5)"},
			{"~/.bourn/agents/NAME/home/", "the agent's own home directory"},
			{"~/.bourn/agents/NAME/runs/", "the records of its last runs; those of runs without an agent are in ~/.bourn/runs/"},
			{run.FloorPath, "this host's policy, which takes away from every profile"},
		},
	}
	if path := cmd.CommandPath(); path == "bourn serve" || strings.HasPrefix(path, "bourn db") {
		n.Environment = append(n.Environment, controlEnvironment...)
		n.Files = controlFiles
	}
	switch cmd.CommandPath() {
	case "bourn run":
		n.Exit = runExits
		return n
	case "bourn explain":
		n.Exit = [][2]string{{"0", "it is allowed"}}
	case "bourn doctor":
		n.Exit = [][2]string{{"0", "a run can be sealed"}}
	case "bourn whoami":
		n.Files = [][2]string{{run.GatePath, "where a sealed run asks about itself"}}
		n.Exit = [][2]string{{"0", "it is done"}}
	default:
		n.Exit = [][2]string{{"0", "it is done"}}
	}
	for _, e := range exits {
		n.Exit = append(n.Exit, [2]string{strconv.Itoa(e.codes[0].ExitStatus()), e.about})
	}
	return n
}
