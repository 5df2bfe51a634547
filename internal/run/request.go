package run

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"bourn"
	"bourn/internal/egress"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox"
)

// Options are what the command line says of one run.
type Options struct {
	Agent     bourn.AgentName // "" for a run without one
	Command   []string        // empty means the profile's
	Read      []string
	Write     []string
	Deny      []string
	SpawnDirs []string
	Env       []string // names to pass
	Hosts     []string // to be reachable
	Records   policy.Records
	Presets   []string // by name, or NoPreset
	RunAs     string   // the user that the command becomes, "" for the profile's or none
	Proposal  string   // NoProposal leaves out what repositories propose
	Starting  bool     // the run is about to start: what presets make is made
	Watch     bool     // report what of the file system was refused
	Cwd       string   // canonical working directory
	CwdName   string   // the same as the person spelled it ($PWD)

	wholeHome bool      // a person's actor without an agent: the home itself may be granted
	proposal  *Proposal // is shown to a person: it counts as accepted, and no other counts
	others    []string  // directories that others than the person write: nothing is proposed there
}

// A Prepared run is planned and not started.
type Prepared struct {
	Options Options
	Request *policy.Request
	Plan    *policy.Plan // of the command
	// Whole is the plan of everything that is granted: Plan itself, but with tools.only what
	// the run's actor is under. Items are both as one.
	Whole   *policy.Plan
	Items   []policy.Item
	Profile *profile.Profile // nil without an agent
	Digest  string           // of the profile's bytes, SHA-256 in hex
	// Boundaries is the version of the hard blocks that it keeps, 0 for none.
	Boundaries int64

	Chosen string // the preset that the command selected, "" for none

	home        *Home
	account     *account // whom run_as names, nil for nobody
	accountFrom string   // profile or flag
	notes       []string

	proposed *Proposal // what the repository proposes, nil for nothing
	closedBy string    // the proposal that closes the network, "" for none

	links    []gitLink                // checkouts whose repository is granted with them
	believed func() ([]string, error) // the lines of those that were granted so before
	written  []string                 // what earlier runs could write
	projects []string                 // where they had something to guard
	others   func() []string          // that, and what other agents may
	denied   map[denyKey]bool         // what Request.Denies holds

	actorOnly bool   // its command is the actor: it has no tools to ask for
	given     string // the run's id, "" for one that is made

	origin   *origin              // of a run that works for another, else nil
	template []string             // the command with {job} in it, of a run that does a job
	known    []sandbox.Remembered // what those are denied that it works for, see objects
}

// A denyKey is what makes two denies the same.
type denyKey struct {
	pattern string
	glob    bool
}

// Prepare reads the profile, asks the host and compiles the plan. Nothing is changed on
// disk, but that with Options.Starting what a preset makes is made. An error means that
// nothing may be started; a grant that cannot be had is none, it is an item of the plan with
// its reason.
func (h *Home) Prepare(o Options) (*Prepared, error) {
	p := &Prepared{Options: o, home: h}
	if err := p.begin(); err != nil {
		return nil, err
	}
	if err := p.wishes(); err != nil {
		return nil, err
	}
	h = p.home
	p.hostFacts()
	remembered, err := h.remembered(o.Agent, p.Request.Denies)
	if err != nil {
		return nil, err
	}
	err = p.gather(sandbox.Options{
		Toolchains: h.toolchains(), Programs: h.programs(p.Request.Command, o.Cwd), LiveWrites: h.liveWrites, OtherWrites: p.others, Remembered: remembered, Projects: p.projects})
	if err != nil {
		return nil, err
	}
	p.judgeContext()
	if err := p.markPlaceholders(); err != nil {
		return nil, err
	}
	if err := p.refuseFlags(); err != nil {
		return nil, err
	}
	p.alias()
	p.compile()
	return p, nil
}

// begin reads what is known of the agent and of earlier runs, and makes the request without
// any grant.
func (p *Prepared) begin() error {
	h, o := p.home, p.Options
	p.believed = sync.OnceValues(h.gitLinks)
	var err error
	if p.written, err = h.written(); err != nil {
		return err
	}
	if p.projects, err = h.projects(); err != nil {
		return err
	}
	if o.Agent != "" {
		if err := p.readProfile(); err != nil {
			return err
		}
	}
	if err := p.runAs(); err != nil {
		return err
	}
	h = p.home
	p.others = sync.OnceValue(h.otherWrites(o.Agent, p.written))
	p.Request = &policy.Request{
		Agent: string(o.Agent), Command: o.Command, Cwd: o.Cwd, CwdName: o.CwdName,
		Home: h.Person, BournDir: h.Dir, Program: h.Program,
		Env: h.environment(o.Agent != "", o.Cwd), Root: os.Getuid() == 0, Direct: true, WholeHome: o.wholeHome,
	}
	p.user()
	return h.as(func() { p.Request.GitUser = h.gitIdentity() })
}

// wishes adds what is granted and denied, from wherever, to the request. The host's policy
// and hard blocks come last: they judge what is there.
func (p *Prepared) wishes() error {
	if p.Options.Agent != "" {
		p.fromProfile()
	}
	if err := p.fromFlags(); err != nil {
		return err
	}
	if err := p.proposals(); err != nil {
		return err
	}
	floor, err := p.home.readFloor()
	if err != nil {
		return err
	}
	if err := p.asUser(p.presets); err != nil {
		return err
	}
	if err := p.asUser(p.proposedPresets); err != nil {
		return err
	}
	if err := p.context(); err != nil {
		return err
	}
	p.narrow()
	if err := p.floor(floor); err != nil {
		return err
	}
	return p.boundaries()
}

// readProfile reads the agent's profile.
func (p *Prepared) readProfile() error {
	prof, src, err := p.home.Profile(p.Options.Agent)
	p.Profile, p.Digest = prof, digest(src)
	return err
}

// fromProfile takes the grants of the agent's profile.
func (p *Prepared) fromProfile() {
	r, prof, name := p.Request, p.Profile, p.Options.Agent
	r.AgentHome = filepath.Join(p.home.agent(name), "home")
	if len(r.Command) == 0 {
		r.Command = prof.Command
	}
	for _, g := range prof.Filesystem.Read {
		p.grant(policy.KindRead, p.home.expand(g.Text), "profile", false)
	}
	for _, g := range prof.Filesystem.Write {
		p.grant(policy.KindWrite, p.home.expand(g.Text), "profile", false)
	}
	for _, g := range prof.Processes.SpawnDirs {
		p.grant(policy.KindSpawnDir, p.home.expand(g.Text), "profile", false)
	}
	for _, d := range prof.Filesystem.Deny {
		p.deny(p.home.deny(d))
	}
	p.network(prof)
	p.tools(prof)
	p.records(prof.Records, "profile")
	r.Exec = policy.ExecMode(prof.Processes.Mode)
	r.Limits = policy.Limits(prof.Limits)
	r.Advisory, r.Nested = !prof.Sandbox.FailClosed, prof.Sandbox.Nested
	for _, name := range prof.Env.Pass {
		p.pass(name, "profile")
	}
	for _, v := range prof.Env.Set {
		r.Env = withVar(r.Env, policy.EnvVar{Name: v.Name, Value: v.Value, From: "profile"})
	}
}

// network takes the hosts and sockets of the agent's profile.
func (p *Prepared) network(prof *profile.Profile) {
	r := p.Request
	r.Network, r.Direct = policy.NetworkMode(prof.Network.Mode), prof.Sandbox.Transparent
	for _, h := range prof.Network.Hosts {
		r.Hosts = append(r.Hosts, policy.HostWish{Host: h.Host, From: "profile"})
	}
	for _, h := range prof.Network.Deny {
		r.HostDenies = append(r.HostDenies, policy.HostWish{Host: h.Host, From: "profile"})
	}
	for _, u := range prof.Network.Unix {
		r.Unix = append(r.Unix, policy.Grant{Kind: policy.KindUnix, From: "profile", Place: policy.Place{Path: p.home.expand(u.Text)}})
	}
}

// records takes what is granted of the company's records, where that is more.
func (p *Prepared) records(r policy.Records, from string) {
	if q := p.Request; !q.Records.Holds(r) {
		q.Records, q.RecordsFrom = r, from
	}
}

// grantableHost reads a host of a flag.
func grantableHost(text string) (policy.Host, error) {
	h, err := policy.ParseHost(text)
	if err != nil {
		return h, bourn.WithHint(err, "as in --host api.example.com, --host '*.example.org:443', --host localhost:5432")
	}
	if reason := policy.ProtectedHost(h); reason != "" {
		return h, bourn.WithHint(fmt.Errorf("%w: cannot grant %s: protected, it can never be granted: %s", bourn.ErrInvalid, h, reason),
			"leave it out: no flag and no profile opens it")
	}
	return h, nil
}

// hostFlags adds the hosts that were named for this run alone.
func (p *Prepared) hostFlags() error {
	for _, text := range p.Options.Hosts {
		h, err := grantableHost(text)
		if err != nil {
			return err
		}
		p.Request.Hosts = append(p.Request.Hosts, policy.HostWish{Host: h, From: "flag"})
	}
	if len(p.Options.Hosts) > 0 && p.Request.Network != policy.NetworkOpen {
		p.Request.Network = policy.NetworkRestricted
	}
	return nil
}

// hostFacts adds what the plan must know of this host for the hosts that are asked for.
func (p *Prepared) hostFacts() {
	if p.Request.Network == policy.NetworkRestricted {
		p.Request.Hostname, _ = os.Hostname()
	}
	for i := range p.Request.Hosts {
		w := &p.Request.Hosts[i]
		w.Own = w.Addr.IsValid() && egress.IsControlPlane(netip.AddrPortFrom(w.Addr, w.Port))
	}
}

func (h *Home) noProfile(name bourn.AgentName, err error) error {
	if os.IsNotExist(err) {
		return bourn.WithHint(fmt.Errorf("%w: no agent %q", bourn.ErrNotFound, name),
			"bourn agent list shows the agents, bourn agent create "+string(name)+" makes this one")
	}
	return bourn.WithHint(fmt.Errorf("cannot read the profile of agent %q: %w", name, err), "look at who may read "+bourn.Printable(h.ProfilePath(name)))
}

// fromFlags adds what was given for this run alone, and without an agent and a write
// grant the working directory.
func (p *Prepared) fromFlags() error {
	o := p.Options
	for _, g := range o.Read {
		p.grant(policy.KindRead, p.absolute(g), "flag", true)
	}
	for _, g := range o.Write {
		p.grant(policy.KindWrite, p.absolute(g), "flag", true)
	}
	for _, g := range o.SpawnDirs {
		p.grant(policy.KindSpawnDir, p.absolute(g), "flag", true)
	}
	if len(o.SpawnDirs) > 0 && o.Agent == "" {
		p.Request.Exec = policy.ExecAllowlist
	}
	for _, d := range o.Deny {
		p.deny(p.denyFlag(d))
	}
	for _, name := range o.Env {
		p.pass(name, "flag")
	}
	if err := p.hostFlags(); err != nil {
		return err
	}
	p.records(o.Records, "flag")
	covered := slices.ContainsFunc(o.Read, func(r string) bool { return policy.Under(o.Cwd, p.absolute(r)) })
	if len(o.Read) > 0 && policy.Broad(o.Cwd, []string{p.home.Person}) != "" {
		covered = true // from a home, with something named: nothing is writable
	}
	if o.proposal != nil && policy.Broad(o.Cwd, []string{p.home.Person}) != "" {
		covered = true // it is only shown
	}
	if o.Agent == "" && len(o.Write) == 0 && !covered {
		p.grant(policy.KindWrite, o.Cwd, "default", true)
	}
	return nil
}

// deny adds a deny, once. A placeholder that one of two asks for is asked for.
func (p *Prepared) deny(d policy.Deny) {
	key := denyKey{d.Pattern, d.Glob}
	if p.denied[key] {
		for i := range p.Request.Denies {
			if o := &p.Request.Denies[i]; d.Placeholder && o.Pattern == d.Pattern && o.Glob == d.Glob {
				o.Placeholder = true
			}
		}
		return
	}
	if p.denied == nil {
		p.denied = map[denyKey]bool{}
	}
	p.denied[key] = true
	p.Request.Denies = append(p.Request.Denies, d)
}

func (p *Prepared) denyFlag(text string) policy.Deny {
	glob := profile.IsPattern(text)
	if !glob {
		if plain := profile.Unescape(text); plain != text {
			if _, err := os.Lstat(p.absolute(text)); err != nil { // not the name of something, backslashes and all
				text = plain
			}
		}
		return policy.Deny{Pattern: p.absolute(text), From: "flag"}
	}
	if !filepath.IsAbs(text) && !strings.HasPrefix(text, "~/") {
		// The working directory is no pattern, whatever characters it has.
		text = profile.EscapePattern(p.Options.Cwd) + "/" + text
	}
	return policy.Deny{Pattern: p.home.expandPattern(text), From: "flag", Glob: true}
}

func (p *Prepared) grant(kind policy.Kind, path, from string, fresh bool) {
	p.Request.Grants = append(p.Request.Grants, policy.Grant{
		Kind: kind, From: from, Fresh: fresh, Place: policy.Place{Path: path}})
}

func (p *Prepared) pass(name, from string) {
	v, ok := p.home.lookup(name)
	p.Request.Env = withVar(p.Request.Env, policy.EnvVar{Name: name, Value: v, From: from, Missing: !ok})
}

// expand replaces a leading ~ by the person's home and cleans the path.
func (h *Home) expand(text string) string {
	if text == "~" {
		return h.Person
	}
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		text = h.Person + "/" + rest
	}
	return filepath.Clean(text)
}

// expandPattern is expand for a deny pattern: the person's home is no pattern, whatever
// characters it has.
func (h *Home) expandPattern(text string) string {
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		text = profile.EscapePattern(h.Person) + "/" + rest
	}
	return filepath.Clean(text)
}

// absolute returns a path of a flag, which may be relative to the working directory.
func (p *Prepared) absolute(text string) string {
	if text != "~" && !strings.HasPrefix(text, "~/") && !filepath.IsAbs(text) {
		text = filepath.Join(p.Options.Cwd, text)
	}
	return p.home.expand(text)
}

// refuseFlags refuses a grant that can never be had: it was typed just now, and the
// person is there to mend it.
func (p *Prepared) refuseFlags() error {
	for _, g := range p.Request.Grants {
		if !g.Fresh || !g.Exists {
			continue
		}
		reason := p.Request.Refusal(g.Kind, g.Real)
		switch {
		case reason == "", strings.HasPrefix(g.From, "preset:"), g.From == fromRepository:
		case g.From == "default":
			return bourn.WithHint(fmt.Errorf("%w: cannot make %s writable: %s", bourn.ErrInvalid, bourn.Printable(g.Real), reason),
				"cd into a project, or name --write")
		default:
			return bourn.WithHint(fmt.Errorf("%w: cannot grant %s: %s", bourn.ErrInvalid, bourn.Printable(g.Path), reason),
				p.insteadOf(g, reason))
		}
	}
	return nil
}

// insteadOf says what could be had in the place of a grant that never can.
func (p *Prepared) insteadOf(g policy.Grant, reason string) string {
	switch {
	case !strings.HasPrefix(reason, "protected"): // too broad
		return "name a directory that holds only what the run needs"
	case g.Kind == policy.KindWrite && p.Request.Refusal(policy.KindRead, g.Real) == "":
		return "it can be granted for reading: --read " + shellQuote(g.Path)
	case g.Socket && p.Request.Refusal(policy.KindUnix, g.Real) == "":
		return "a socket is granted by itself, in the profile of an agent: network: {unix: [" + bourn.Printable(g.Path) + "]}"
	}
	return "leave it out: no flag and no profile opens what is protected"
}

// IsPattern reports whether a deny item's target is a pattern.
func (p *Prepared) IsPattern(target string) bool {
	return slices.ContainsFunc(p.Request.Denies, func(d policy.Deny) bool { return d.Glob && d.Pattern == target })
}

// Hints returns what a person may want to know before the command starts.
func (p *Prepared) Hints() []string {
	out := slices.Clone(p.notes)
	if p.Chosen != "" {
		out = append([]string{"preset " + p.Chosen + " is applied (--preset none leaves it out, bourn plan shows what it grants)"}, out...)
	}
	if home := p.Request.Home; p.Plan.Cwd != p.Request.Cwd {
		where := "an empty home"
		if p.Request.AgentHome != "" {
			where = "the agent's home"
		}
		if p.Plan.Cwd != home {
			where = p.Plan.Cwd
		}
		out = append(out, "the current directory is not granted: the command starts in "+where)
	}
	return append(out, p.gitHint()...)
}

// alias makes the working directory reachable by the name that the person gave it.
func (p *Prepared) alias() {
	o := p.Options
	if o.CwdName == "" || o.CwdName == o.Cwd {
		return
	}
	links := sandbox.Links(o.CwdName)
	if p.Request.AgentHome != "" && slices.ContainsFunc(links, func(l policy.Link) bool { return policy.Under(l.At, p.home.Person) }) {
		return // it would be made in the agent's home, and stay there
	}
	for i := range p.Request.Grants {
		if g := &p.Request.Grants[i]; g.Exists && policy.Under(o.Cwd, g.Real) {
			g.Links = append(g.Links, links...)
			p.Request.Env = withVar(p.Request.Env, policy.EnvVar{Name: "PWD", Value: o.CwdName})
			return
		}
	}
}

// otherWrites returns a function that lists the write grants of all agents but one, and
// what earlier runs could write, which is given.
// An agent whose profile cannot be read contributes what cannot be excluded: nothing
// is known of it, and it cannot run either.
func (h *Home) otherWrites(but bourn.AgentName, written []string) func() []string {
	return func() []string {
		var out []string
		names, _ := h.Agents()
		for _, name := range names {
			if name == but {
				continue
			}
			src, err := os.ReadFile(h.ProfilePath(name))
			if err != nil {
				continue
			}
			prof, err := profile.Parse(string(name), src)
			if err != nil {
				continue
			}
			of := h.of(prof)
			for _, g := range prof.Filesystem.Write {
				out = append(out, of.expand(g.Text))
			}
		}
		return append(out, written...)
	}
}

// liveWrites returns what runs that live now can write.
func (h *Home) liveWrites() ([]string, error) {
	names, err := h.Agents()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range append(names, "") {
		live, unreadable, err := h.Live(name)
		if err = errors.Join(err, unreadable); err != nil {
			return nil, err
		}
		for _, r := range live {
			out = append(out, r.Writes...)
		}
	}
	return out, nil
}
