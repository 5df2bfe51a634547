package cli

import (
	"fmt"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

func (a *app) permCommand() *cobra.Command {
	subs := []*cobra.Command{a.listPathsCommand(), a.listHostsCommand(), a.listToolsCommand()}
	for _, e := range edits {
		subs = append(subs, a.editCommand(e))
	}
	for _, e := range toolEdits {
		subs = append(subs, a.toolEditCommand(e))
	}
	subs = append(subs, a.removeToolCommand())
	return group(&cobra.Command{
		Use:   "perm",
		Short: "Show and change what an agent may do",
		Long: `Show and change what an agent may do. Grants of paths are recursive. A seal is never
widened while it holds: every change takes effect when the agent next starts, but for rules
of governed tools, which are read at each call. Changes edit the profile and keep its
comments; editing the file by hand is as good.`,
		Example: `  bourn agent perm list-paths builder
  bourn agent perm allow-write builder ~/src/app
  bourn agent perm deny-path builder '~/src/app/**/*.pem'
  bourn agent perm allow-host builder api.example.com
  bourn agent perm tool-ask builder shell_exec`,
	}, append(subs, a.permShowCommand())...)
}

// An edit is a command that changes one path or host of a profile.
type edit struct {
	name, short, long, example string
	do                         func(h *run.Home, name bourn.AgentName, typed, cwd string) (run.Change, error)
	already                    string // what is said when nothing changed
	host                       bool   // it takes a host and no path
	placeholder                bool   // it has the flag --placeholder
}

func allow(kind policy.Kind) func(*run.Home, bourn.AgentName, string, string) (run.Change, error) {
	return func(h *run.Home, name bourn.AgentName, path, cwd string) (run.Change, error) {
		return h.Allow(name, kind, path, cwd)
	}
}

func host(do func(*run.Home, bourn.AgentName, string) (run.Change, error)) func(*run.Home, bourn.AgentName, string, string) (run.Change, error) {
	return func(h *run.Home, name bourn.AgentName, host, _ string) (run.Change, error) { return do(h, name, host) }
}

// edits are the commands that change a profile's paths and hosts.
var edits = []edit{
	{
		name: "allow-read", do: allow(policy.KindRead), already: "already granted for reading",
		short: "Let an agent read a file, or a directory and everything below it",
		long: `Let an agent read a file, or a directory and everything below it. The profile gets the
path without symlinks. A path that does not exist, is protected, too broad or denied
is refused.`,
		example: `  bourn agent perm allow-read builder ~/src/lib`,
	}, {
		name: "allow-write", do: allow(policy.KindWrite), already: "already granted for writing",
		short: "Let an agent read and write a file, or a directory and everything below it",
		long: `Let an agent read and write a file, or a directory and everything below it. The profile
gets the path without symlinks. A path that does not exist, is protected, too broad or
denied is refused.`,
		example: `  bourn agent perm allow-write builder ~/src/app`,
	}, {
		name: "deny-path", do: (*run.Home).Deny, already: "already denied", placeholder: true,
		short: "Close a path or a pattern to an agent, whatever is granted",
		long: `Close a path or a pattern to an agent, whatever is granted. What does not exist yet can be
denied too: it is closed when it appears. With --placeholder it cannot appear: while the
agent runs an empty file stands there on the host, and goes when the last run has ended. A
pattern has * ** ? [a-z] {a,b}; quote it, so that the shell leaves it alone.`,
		example: `  bourn agent perm deny-path builder ~/src/app/.env
  bourn agent perm deny-path builder ~/src/app/.npmrc --placeholder
  bourn agent perm deny-path builder '~/src/app/**/*.pem'`,
	}, {
		name: "remove-path", do: (*run.Home).Remove,
		short: "Take a path out of what is read, written and denied",
		long: `Take a path or pattern out of what is read, written and denied, whichever lists have it.
An entry is meant by its text, by the path it names, or by where that leads.`,
		example: `  bourn agent perm remove-path builder ~/src/lib
  bourn agent perm remove-path builder '~/src/app/**/*.pem'`,
	}, {
		name: "allow-spawn-dir", do: allow(policy.KindSpawnDir), already: "already a spawn dir",
		short: "Let an agent execute what is in a directory, where execution is restricted",
		long: `Let an agent execute what is in a directory, and below it. It matters where the profile says
processes.mode: allowlist. The directory must also be readable or writable.`,
		example: `  bourn agent perm allow-spawn-dir builder ~/src/app/target`,
	}, {
		name: "deny-spawn-dir", do: (*run.Home).RemoveSpawnDir,
		short:   "Take a directory out of the spawn dirs",
		long:    `Take a directory out of the spawn dirs. What may be read and written there stays.`,
		example: `  bourn agent perm deny-spawn-dir builder ~/src/app/target`,
	}, {
		name: "allow-host", do: host((*run.Home).AllowHost), already: "already granted", host: true,
		short: "Let an agent reach a host, or every name below a domain",
		long: `Let an agent reach a host: a name, every name below a domain as in '*.example.org', or an
address. Without a port it is for 80 and 443. localhost:PORT is a service of this host.
The first host sets network.mode to restricted where the profile names no mode. What is
denied, and bourn's own control plane, is refused.`,
		example: `  bourn agent perm allow-host builder api.example.com
  bourn agent perm allow-host builder '*.example.org:443'
  bourn agent perm allow-host builder localhost:5432`,
	}, {
		name: "deny-host", do: host((*run.Home).DenyHost), already: "already denied", host: true,
		short: "Close a host, or every name below a domain, whatever is granted",
		long: `Close a host, or every name below a domain, to an agent, whatever is granted: a deny wins.
Without a port it is for every port.`,
		example: `  bourn agent perm deny-host builder internal.example.org
  bourn agent perm deny-host builder '*.internal.example.org'`,
	}, {
		name: "remove-host", do: host((*run.Home).RemoveHost), host: true,
		short: "Take a host out of what is granted and denied",
		long: `Take a host out of what is granted and denied, whichever list has it. An entry is meant by
what it names, however it is written; its port belongs to it.`,
		example: `  bourn agent perm remove-host builder api.example.com
  bourn agent perm remove-host builder '*.example.org:443'`,
	},
}

func (a *app) editCommand(e edit) *cobra.Command {
	cmd := &cobra.Command{
		Use: e.name + " AGENT PATH", Short: e.short, Long: e.long, Example: e.example,
		Args: takes, ValidArgsFunction: a.completeAgent,
	}
	if e.host {
		cmd.Use, cmd.ValidArgsFunction = e.name+" AGENT HOST[:PORT]", a.completeAgentOnly
	}
	asJSON, placeholder := jsonFlag(cmd), false
	if e.placeholder {
		cmd.Flags().BoolVar(&placeholder, "placeholder", false, "keep it from being made: an empty file stands there during a run")
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		cwd, _, err := a.where()
		if err != nil {
			return err
		}
		do := e.do
		if placeholder {
			do = (*run.Home).DenyPlaceholder
		}
		c, err := do(a.home, name, args[1], cwd)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.Stdout, c)
		}
		a.printChange(c, e.already)
		return nil
	}
	return cmd
}

// lists are the words for the lists of a profile.
var lists = map[profile.List]string{
	profile.ReadList: "read", profile.WriteList: "write", profile.DenyList: "deny", profile.SpawnDirList: "spawn dir",
	profile.HostList: "host", profile.DenyHostList: "deny host", profile.UnixList: "unix socket", profile.ToolList: "tool",
}

func (a *app) printChange(c run.Change, already string) {
	for _, e := range c.Added {
		a.printf("added to %s: %s %s\n", title(c.Agent), lists[e.List], entryText(e))
	}
	for _, e := range c.Removed {
		a.printf("removed from %s: %s %s\n", title(c.Agent), lists[e.List], entryText(e))
	}
	if len(c.Added)+len(c.Removed) == 0 {
		a.printf("%s: %s is %s\n", title(c.Agent), bourn.Printable(c.Path), already)
		return
	}
	for _, n := range c.Notes {
		a.printf("note: %s\n", n)
	}
	effect := "takes effect on next start"
	if c.AtCall {
		effect = "takes effect at the next call"
	} else if c.Running > 0 {
		effect += ": bourn agent restart " + string(c.Agent)
	}
	a.printf("%s\n", effect)
}

func (a *app) permShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show AGENT",
		Short: "Print an agent's profile as it is written",
		Example: `  bourn agent perm show builder
  bourn agent perm show builder --json`,
		Args:              takes,
		ValidArgsFunction: a.completeAgentOnly,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		name, err := a.agent(args[0])
		if err != nil {
			return err
		}
		p, src, err := a.home.Profile(name)
		switch {
		case *asJSON && err == nil:
			return printJSON(a.Stdout, a.parsed(p))
		case !*asJSON && src != nil:
			a.printf("# %s\n", bourn.Printable(a.home.ProfilePath(name)))
			for line := range strings.Lines(string(src)) {
				text, ended := strings.CutSuffix(line, "\n")
				a.printf("%s", bourn.Printable(text))
				if ended {
					a.printf("\n")
				}
			}
		}
		return err
	}
	return cmd
}

// parsed is a profile as JSON has it.
type parsed struct {
	Agent      bourn.AgentName  `json:"agent"`
	Path       string           `json:"path"`
	Version    int              `json:"version"`
	Command    []string         `json:"command"`
	Presets    []string         `json:"presets"`
	Filesystem parsedFilesystem `json:"filesystem"`
	Network    parsedNetwork    `json:"network"`
	Processes  parsedProcesses  `json:"processes"`
	Env        parsedEnv        `json:"env"`
	Context    parsedContext    `json:"context"`
	Commit     *parsedCommit    `json:"commit"` // null where the file has none
	Limits     parsedLimits     `json:"limits"`
	Tools      parsedTools      `json:"tools"`
	Delegate   []string         `json:"delegate"`
	Records    policy.Records   `json:"records"` // "" for none
	Sandbox    parsedSandbox    `json:"sandbox"`
	Service    bool             `json:"service"`
}

type parsedFilesystem struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
	Deny  []string `json:"deny"`
}

type parsedNetwork struct {
	Mode  string   `json:"mode"`
	Hosts []string `json:"hosts"`
	Deny  []string `json:"deny"`
	Unix  []string `json:"unix"`
}

type parsedProcesses struct {
	Mode      string   `json:"mode"`
	SpawnDirs []string `json:"spawn_dirs"`
}

type parsedEnv struct {
	Pass []string          `json:"pass"`
	Set  map[string]string `json:"set"`
}

type parsedContext struct {
	Instructions bool     `json:"instructions"`
	Skills       []string `json:"skills"`
	Roots        []string `json:"roots"`
}

type parsedCommit struct {
	Requires []string `json:"requires"`
	Verify   string   `json:"verify"`
}

// parsedLimits has 0, and "" for a time, where there is no limit.
type parsedLimits struct {
	Memory    int64  `json:"memory"`
	Processes int    `json:"processes"`
	OpenFiles int    `json:"open_files"`
	Time      string `json:"time"`
}

type parsedTools struct {
	Only  bool             `json:"only"`
	Rules []parsedToolRule `json:"rules"`
}

type parsedToolRule struct {
	Tool   string     `json:"tool"`
	Policy string     `json:"policy"`
	Tier   bourn.Tier `json:"tier,omitempty"`
}

type parsedSandbox struct {
	FailClosed  bool `json:"fail_closed_on_sandbox_error"`
	Transparent bool `json:"transparent_network"`
	Nested      bool `json:"nested"`
	Quarantine  bool `json:"quarantine"`
}

func (a *app) parsed(p *profile.Profile) parsed {
	out := parsed{
		Agent: p.Agent, Path: a.home.ProfilePath(p.Agent), Version: p.Version, Command: orEmpty(p.Command),
		Presets: orEmpty(p.Presets), Service: p.Service,
		Filesystem: parsedFilesystem{texts(p.Filesystem.Read), texts(p.Filesystem.Write), []string{}},
		Network:    parsedNetwork{p.Network.Mode, hostTexts(p.Network.Hosts), hostTexts(p.Network.Deny), texts(p.Network.Unix)},
		Processes:  parsedProcesses{p.Processes.Mode, texts(p.Processes.SpawnDirs)},
		Env:        parsedEnv{orEmpty(p.Env.Pass), map[string]string{}},
		Context:    parsedContext{p.Context.Instructions, orEmpty(p.Context.Skills), texts(p.Context.Roots)},
		Delegate:   []string{},
		Records:    p.Records,
		Limits:     parsedLimits{Memory: p.Limits.Memory, Processes: p.Limits.Processes, OpenFiles: p.Limits.OpenFiles},
		Tools:      parsedTools{p.Tools.Only, []parsedToolRule{}},
		Sandbox:    parsedSandbox{p.Sandbox.FailClosed, p.Sandbox.Transparent, p.Sandbox.Nested, p.Sandbox.Quarantine},
	}
	if p.Commit != nil {
		out.Commit = &parsedCommit{p.Commit.Requires, p.Commit.Verify}
	}
	for _, name := range p.Delegate {
		out.Delegate = append(out.Delegate, string(name))
	}
	for _, d := range p.Filesystem.Deny {
		out.Filesystem.Deny = append(out.Filesystem.Deny, d.Text)
	}
	for _, r := range p.Tools.Rules {
		out.Tools.Rules = append(out.Tools.Rules, parsedToolRule{r.Tool, r.Policy.String(), r.Tier})
	}
	for _, v := range p.Env.Set {
		out.Env.Set[v.Name] = v.Value
	}
	if p.Limits.Time > 0 {
		out.Limits.Time = fmt.Sprint(p.Limits.Time)
	}
	return out
}

func texts(paths []profile.Path) []string {
	out := []string{}
	for _, p := range paths {
		out = append(out, p.Text)
	}
	return out
}

func hostTexts(hosts []profile.Host) []string {
	out := []string{}
	for _, h := range hosts {
		out = append(out, h.Text)
	}
	return out
}
