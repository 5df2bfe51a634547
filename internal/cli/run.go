package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bourn"
	"bourn/internal/launch"
	"bourn/internal/policy"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// Statuses of a run that could not execute its command, as env(1) has them.
const (
	exitNoRun         = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// grantFlags are the flags that run, plan and explain share.
type grantFlags struct {
	agent, runAs                                        string
	read, write, deny, spawnDirs, names, hosts, presets []string
	proposal, records                                   string
	starting                                            bool // the run follows
}

func (f *grantFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "the `NAME` of the agent whose profile applies")
	fl.StringArrayVar(&f.read, "read", nil, "a file or directory `PATH` to be readable; may be repeated, as the next ones")
	fl.StringArrayVar(&f.write, "write", nil, "a file or directory `PATH` to be writable, instead of the current directory")
	fl.StringArrayVar(&f.deny, "deny", nil, "a `PATH` or pattern to be closed, also inside what is granted")
	fl.StringArrayVar(&f.spawnDirs, "spawn-dir", nil, "a directory `PATH` whose programs may be executed; everything else but system paths may not")
	fl.StringArrayVar(&f.hosts, "host", nil, "a `HOST[:PORT]` to be reachable: a name, *.suffix or address; without a port, 80 and 443")
	fl.StringArrayVar(&f.presets, "preset", nil, "the `NAME` of a preset to apply, or none; without it the one that fits the command")
	fl.StringVar(&f.records, "records", "", recordsUsage+"; without it, what the profile says")
	proposalFlag(cmd, &f.proposal)
	fl.StringVar(&f.runAs, "run-as", "", "the `USER`, by name or uid, that a run by root becomes")
	fl.StringArrayVar(&f.names, "env", nil, "the `NAME` of an environment variable to pass")
}

func proposalFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "proposal", "", "`none` leaves out what the repository proposes in .bourn/profile.yaml, also what it denies")
}

func checkProposal(cmd *cobra.Command, text string) error {
	if !cmd.Flags().Changed("proposal") || text == run.NoProposal {
		return nil
	}
	return bourn.WithHint(usage(fmt.Errorf("--proposal takes none, not %q", text)), "bourn accept shows what the repository proposes, and accepts it")
}

// check refuses values that are most likely mistakes: an empty variable of a script, or a
// flag whose value was forgotten.
func (f *grantFlags) check(cmd *cobra.Command) error {
	lists := map[string][]string{"read": f.read, "write": f.write, "deny": f.deny, "spawn-dir": f.spawnDirs, "env": f.names, "host": f.hosts, "preset": f.presets}
	if cmd.Flags().Changed("agent") {
		lists["agent"] = []string{f.agent}
	}
	if cmd.Flags().Changed("run-as") {
		lists["run-as"] = []string{f.runAs}
	}
	for name, values := range lists {
		for _, v := range values {
			switch {
			case v == "":
				return bourn.WithHint(usage(fmt.Errorf("--%s is empty", name)), "is the variable set? leave the flag out, or give it a value")
			case strings.HasPrefix(v, "--"):
				return bourn.WithHint(usage(fmt.Errorf("--%s needs a value before %s", name, v)), "a path that begins with dashes is written ./"+v)
			case name == "env" && strings.Contains(v, "="):
				key, _, _ := strings.Cut(v, "=")
				return bourn.WithHint(usage(fmt.Errorf("--env takes a name, not %q", v)), "set it outside: "+v+" bourn run --env "+key+" …")
			}
		}
	}
	if err := checkRecords(cmd, f.records, "leave it out for what the profile says, and without a profile for none"); err != nil {
		return err
	}
	return checkProposal(cmd, f.proposal)
}

// checkRecords refuses what --records says and is no right. A hint says what it is without the flag.
func checkRecords(cmd *cobra.Command, records, hint string) error {
	if _, err := policy.ParseRecords(records); err == nil || !cmd.Flags().Changed("records") {
		return nil
	}
	return bourn.WithHint(usage(fmt.Errorf("--records is read or write, not \"%s\"", bourn.Printable(records))), hint)
}

// prepare plans a run from flags.
func (a *app) prepare(f *grantFlags, command []string) (*run.Prepared, error) {
	if err := a.open(); err != nil {
		return nil, err
	}
	o := run.Options{Command: command, Read: f.read, Write: f.write, Deny: f.deny, SpawnDirs: f.spawnDirs, Env: f.names, Hosts: f.hosts,
		Presets: f.presets, RunAs: f.runAs, Proposal: f.proposal, Starting: f.starting, Records: policy.Records(f.records)}
	var err error
	if f.agent != "" {
		if o.Agent, err = bourn.ParseAgentName(f.agent); err != nil {
			return nil, err
		}
	}
	if o.Cwd, o.CwdName, err = a.where(); err != nil {
		return nil, err
	}
	return a.home.Prepare(o)
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command sealed",
		Long: `Run a command sealed. Without flags the current directory is writable, system paths and
the toolchains in PATH are readable, the home directory is empty, there is no network,
and the environment is built anew. For a known tool (claude, codex, npm, go and more) a
preset adds what it needs, and says so: bourn plan shows it, --preset none leaves it out.

The exit status is the command's own; 125 when bourn could not start it, 126 when it
cannot be executed, 127 when it is not found.

Caches and configuration of tools stand in the home directory, which is empty inside: grant
what a tool needs, as in --read ~/go/pkg/mod.`,
		Example: `  bourn run -- make test
  bourn run --deny .env --deny '**/*.pem' -- sh
  bourn run --read ~/src/lib --env EDITOR -- make
  bourn run --watch -- ./configure
  bourn run --host api.example.com -- make fetch
  bourn run --agent builder --report ~/report.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runSealed(cmd, &f, args) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.report, "report", "", "write the report, as JSON, to this `FILE` (- for standard error)")
	cmd.Flags().StringVar(&f.save, "save", "", "keep what this run is granted as an agent of this `NAME`")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "say afterwards what of the file system was out of reach; every open takes some microseconds more")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "say nothing but errors: not what holds, nor what was dropped")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// runFlags are all flags of run.
type runFlags struct {
	grantFlags
	report, save string
	quiet, watch bool
}

// runSealed plans a run, and starts it.
func (a *app) runSealed(cmd *cobra.Command, f *runFlags, args []string) error {
	a.exit = exitNoRun
	if inside() {
		return refuseInside("bourn run")
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("report") && f.report == "" {
		return usage(errors.New("--report is empty"))
	}
	if len(args) == 0 && f.agent == "" {
		return usage(errors.New("no command is named"))
	}
	f.starting = true
	p, err := a.prepare(&f.grantFlags, args)
	if err != nil {
		return err
	}
	if len(p.Plan.Command) == 0 {
		return usage(errors.New("the profile names no command, and none is given"))
	}
	p.Options.Watch = f.watch
	if cmd.Flags().Changed("save") {
		if err := a.save(f.save, &f.grantFlags, p, args); err != nil {
			return err
		}
	}
	return a.runPrepared(p, f.report, f.quiet)
}

// save makes an agent of what a run is granted.
func (a *app) save(text string, f *grantFlags, p *run.Prepared, command []string) error {
	if f.agent != "" {
		return usage(errors.New("--save and --agent contradict each other: the agent has its profile"))
	}
	name, err := bourn.ParseAgentName(text)
	if err != nil {
		return err
	}
	n := run.NewAgent{Name: name, Command: command, Write: f.write, Read: f.read, Deny: f.deny, Hosts: f.hosts,
		Env: f.names, Spawn: f.spawnDirs, RunAs: f.runAs, Cwd: p.Options.Cwd, Records: policy.Records(f.records)}
	for _, g := range p.Request.Grants {
		if g.From == "default" { // the current directory, which no flag names
			n.Write = append(n.Write, g.Path)
		}
	}
	for _, preset := range f.presets {
		if preset != run.NoPreset {
			n.Presets = append(n.Presets, preset)
		}
	}
	if p.Chosen != "" {
		n.Presets = append(n.Presets, p.Chosen)
	}
	p.SaveProposal(&n)
	if err := a.home.Create(n); err != nil {
		return err
	}
	a.say("saved as %s: bourn run --agent %s", title(name), name)
	a.said++
	return nil
}

func (a *app) runPrepared(p *run.Prepared, reportFile string, quiet bool) error {
	place, err := newReportPlace(reportFile)
	if err != nil {
		return err
	}
	defer place.close()
	var reportErr error
	var sealed run.Report
	told := func(r run.Report) {
		sealed = r
		if !quiet {
			a.header(p, r)
		}
		if reportFile != "" {
			reportErr = a.writeReport(place, r)
		}
	}
	child := a.Child
	a.Child = nil // it is the run's to end now
	outcome, err := p.Run(run.Streams{In: a.Stdin, Out: a.Stdout, Err: a.Stderr, Child: child}, told, false)
	switch {
	case errors.Is(err, launch.ErrCommandNotFound):
		a.exit = exitNotFound
		return bourn.WithHint(err, "look at the spelling; a program outside the system paths and PATH needs --read DIR")
	case errors.Is(err, launch.ErrCommandNotExecutable):
		a.exit = exitNotExecutable
		return bourn.WithHint(err, "chmod +x makes a script executable; bourn explain exec PATH says what the seal decides")
	case err != nil:
		return err
	}
	a.exit, a.signal = outcome.Status, outcome.Signal
	if len(outcome.Refusals)+len(outcome.Notes) > 0 && place.path != "" {
		sealed.Refusals, sealed.NotKept, sealed.Notes = outcome.Refusals, outcome.NotKept, outcome.Notes
		reportErr = errors.Join(reportErr, a.writeReport(place, sealed))
	}
	if outcome.TimedOut {
		a.say("the run was ended: its time of %s is over", p.Plan.Limits.Time)
	}
	if !quiet {
		a.sayNotes(outcome.Notes)
		a.sayRefusals(outcome.Refusals, outcome.NotKept)
		if outcome.Status != 0 && !p.Options.Watch && len(outcome.Refusals) == 0 {
			a.say("the command failed; %s --watch says what of the file system was out of reach%s", of(p.Options.Agent), opens(p.Plan.Network.Mode))
		}
	}
	if reportErr != nil {
		a.say("cannot write the report: %v", reportErr)
	}
	return nil
}

// header says in a few lines what holds, the most important first.
func (a *app) header(p *run.Prepared, r run.Report) {
	if r.Sandbox.State == policy.StateAdvisory {
		a.say("ADVISORY: this host cannot seal, and the profile lets the run go on: it can reach more than listed")
		return
	}
	var writes, dropped, open, hosts []string
	denied, denies, held := 0, 0, 0
	for _, it := range r.Items {
		switch {
		case slices.Contains(it.By, policy.ByActor):
			held++
		case strings.HasPrefix(it.From, "preset:") && it.Fate == policy.Dropped, it.GateOnly():
		case it.Fate == policy.Dropped && (it.Kind == policy.KindRead || it.Kind == policy.KindWrite || it.Kind == policy.KindSpawnDir || it.Kind == policy.KindEnv || it.Kind == policy.KindHost || it.Kind == policy.KindUnix):
			dropped = append(dropped, fmt.Sprintf("%s %s (%s)", it.Kind, it.Target, it.Reason))
		case it.Kind == policy.KindWrite && it.Fate == policy.Enforced:
			writes = append(writes, it.Target)
		case it.Kind == policy.KindHost && it.Fate == policy.Enforced:
			hosts = append(hosts, it.Target)
		case strings.HasPrefix(it.Target, "connect ") && it.Kind == policy.KindDeny:
		case it.Kind == policy.KindDeny && it.Fate == policy.Enforced:
			denied++
			denies++
		case it.Kind == policy.KindDeny && !p.IsPattern(it.Target):
			denies++
			open = append(open, fmt.Sprintf("%s (%s)", it.Target, it.Reason))
		}
	}
	grants := count(held, "grant")
	writable := "nothing writable"
	if len(writes) == 1 {
		writable = "writable " + writes[0]
	} else if len(writes) > 1 {
		writable = fmt.Sprintf("writable %s and %d more", writes[0], len(writes)-1)
	}
	count := fmt.Sprintf("%d denied", denied)
	if denied != denies {
		count = fmt.Sprintf("%d of %d denied", denied, denies)
	}
	as := ""
	if u := p.Plan.User; u != nil {
		as = ", as " + u.String()
	}
	lines := []string{fmt.Sprintf("sealed by the kernel: %s, %s, %s%s", writable, count, network(p.Plan.Network.Mode, hosts), as)}
	if held > 0 {
		lines = append(lines, "governed tools alone have "+grants+": tools.only is true")
	}
	if line := p.ProposalLine(); line != "" {
		lines = append(lines, line)
	}
	lines = append(lines, first("not closed yet: deny ", open)...)
	lines = append(lines, first("dropped: ", dropped)...)
	lines = append(lines, p.Hints()...)
	for _, line := range budget(lines, maxLines-a.said) {
		a.say("%s", line)
	}
}

// network says in a few words what of the network is reachable.
func network(mode policy.NetworkMode, hosts []string) string {
	switch {
	case mode == policy.NetworkOpen:
		return "the host's network"
	case mode != policy.NetworkRestricted:
		return "no network"
	case len(hosts) == 0:
		return "no host reachable"
	case len(hosts) == 1:
		return "only " + hosts[0] + " reachable"
	}
	return fmt.Sprintf("only %s and %d more reachable", hosts[0], len(hosts)-1)
}

// maxSaid is how many refusals are said after a run, and how many notes; its record has all
// refusals that were kept, and a report both.
const maxSaid = 10

// of is how a run of an agent, or of none, is started.
func of(agent bourn.AgentName) string {
	if agent == "" {
		return "bourn run"
	}
	return "bourn run --agent " + string(agent)
}

// opens says how a closed network is opened.
func opens(mode policy.NetworkMode) string {
	if mode == policy.NetworkNone {
		return ", --host NAME lets it reach a host"
	}
	return ""
}

// sayNotes says what a person should know of a run that has ended.
func (a *app) sayNotes(all []string) {
	for i, n := range all {
		if i == maxSaid {
			a.say("and %d more of the kind, which --report FILE lists", len(all)-i)
			return
		}
		a.say("%s", n)
	}
}

// sayRefusals says what was refused during a run, and what would mend it.
func (a *app) sayRefusals(all []run.Refusal, notKept int) {
	if notKept > 0 {
		defer a.say("and %d further refusals that were too many to keep", notKept)
	}
	for i, r := range all {
		if i == maxSaid {
			a.say("and %d more refusals, which the run's record and --report list", len(all)-i)
			return
		}
		times := ""
		if r.Count > 1 {
			times = fmt.Sprintf(" (%d times)", r.Count)
		}
		a.say("refused: %s %s: %s%s", r.Operation, r.Target, r.Reason, times)
		if r.Grant != "" {
			fmt.Fprintf(a.Stderr, "hint: %s\n", bourn.Printable(r.Grant))
		}
	}
}

// first returns a line with the first of what is listed, and how many more there are.
func first(prefix string, list []string) []string {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return []string{prefix + list[0]}
	}
	return []string{fmt.Sprintf("%s%s, and %d more (bourn plan shows all)", prefix, list[0], len(list)-1)}
}

// A reportPlace is where the report goes: a file that replaces what stands there, since a
// symlink there may be a command's; a device; or standard error. The file's directory is
// held open: by the time the report is written again the command may have put a symlink in
// its place.
type reportPlace struct {
	dir  *os.Root // nil for a device, and for standard error
	name string   // in dir
	file *os.File // a device
	path string   // where a file goes, "" for a device
}

func newReportPlace(at string) (*reportPlace, error) {
	if at == "" || at == "-" {
		return &reportPlace{}, nil
	}
	p, err := &reportPlace{path: at, name: filepath.Base(at)}, error(nil)
	if strings.HasPrefix(at, "/dev/") {
		p.path = ""
		p.file, err = os.OpenFile(at, os.O_WRONLY, 0)
	} else if p.dir, err = os.OpenRoot(filepath.Dir(at)); err == nil {
		err = p.replace(nil, false) // whether a file can be made there
	}
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot write the report %s: %w", at, err), "name a file in a directory that you can write, or --report - for standard error")
	}
	return p, nil
}

func (p *reportPlace) close() {
	if p.file != nil {
		p.file.Close()
	}
	if p.dir != nil {
		p.dir.Close()
	}
}

// replace writes a new file, and puts it in the place of what stands there.
func (p *reportPlace) replace(data []byte, keep bool) error {
	draft := "." + p.name + "." + strconv.Itoa(os.Getpid())
	f, err := p.dir.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil && keep {
		err = p.dir.Rename(draft, p.name)
	}
	if err != nil || !keep {
		err = errors.Join(err, p.dir.Remove(draft))
	}
	return err
}

func (a *app) writeReport(p *reportPlace, r run.Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	switch {
	case p.dir != nil:
		return p.replace(data, true)
	case p.file != nil:
		_, err = p.file.Write(data)
	default:
		_, err = a.Stderr.Write(data)
	}
	return err
}
