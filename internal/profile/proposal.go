package profile

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ProposalName is where a repository's proposal stands, below the repository.
const ProposalName = ".bourn/profile.yaml"

// MaxProposal is the longest proposal, in bytes.
const MaxProposal = 64 << 10

// proposalSchema is every key that a proposal may have, and those of a profile that have no
// meaning in one. What is proposed is for a person to read: it is kept to what is granted
// and denied.
var proposalSchema = []key{
	{name: "version", required: true, decode: (*decoder).version},
	{name: "presets", bare: true, decode: (*decoder).proposedPresets},
	{name: "filesystem", bare: true, keys: []key{
		{name: "read", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Filesystem.Read })},
		{name: "write", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Filesystem.Write })},
		{name: "deny", bare: true, decode: (*decoder).denies},
	}},
	{name: "network", bare: true, keys: []key{
		{name: "mode", decode: (*decoder).proposedMode},
		{name: "hosts", bare: true, decode: hosts(func(p *Profile) *[]Host { return &p.Network.Hosts })},
		{name: "deny", bare: true, decode: hosts(func(p *Profile) *[]Host { return &p.Network.Deny })},
		{name: "unix", bare: true, decode: notProposed("a socket leads out of the seal, and its path is the host's")},
	}},
	{name: "env", bare: true, keys: []key{
		{name: "pass", bare: true, decode: (*decoder).envPass},
		{name: "set", bare: true, decode: notProposed("what is run here can set it")},
	}},
	{name: "agent", decode: notProposed("it is for every run here that is not an agent's")},
	{name: "command", decode: notProposed("the person names the command")},
	{name: "processes", bare: true, decode: notProposed(ofAgents)},
	{name: "limits", bare: true, decode: notProposed(ofAgents)},
	{name: "sandbox", bare: true, decode: notProposed(ofAgents)},
	{name: "run_as", decode: notProposed(ofAgents)},
	{name: "service", decode: notProposed(ofAgents)},
	{name: "context", bare: true, decode: notProposed("the person chooses what an agent is offered")},
	{name: "commit", decode: notProposed(ofAgents)},
	{name: "hitl", later: true},
	{name: "tools", bare: true, decode: notProposed(ofAgents)},
	{name: "records", decode: notProposed("the company's records are the person's to open")},
	{name: "delegate", bare: true, decode: notProposed("it names other agents, and those are the person's")},
}

const ofAgents = "it is a key of an agent's profile"

// notProposed returns the function that refuses a key, with the reason.
func notProposed(why string) func(*decoder, string, *yaml.Node) {
	return func(d *decoder, where string, n *yaml.Node) {
		d.fail(n, "%s cannot be proposed: %s", where, why)
	}
}

func (d *decoder) proposedMode(where string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == NetworkOpen {
		d.fail(n, "%s open cannot be proposed; name the hosts", where)
		return
	}
	modes := []string{NetworkNone, NetworkRestricted}
	mode, ok := d.line(n, where, "none or restricted")
	if ok && !slices.Contains(modes, mode) {
		d.fail(n, "unknown %s %q%s", where, mode, didYouMean(mode, modes))
	}
	d.p.Network.Mode, d.p.Network.ModePos = mode, d.pos(n)
}

// proposedPresets are presets but those whose socket leads out of the seal.
func (d *decoder) proposedPresets(where string, n *yaml.Node) {
	d.presets(where, n)
	for _, name := range d.p.Presets {
		if p, _ := FindPreset(name); len(p.Sockets) > 0 {
			d.fail(n, "preset %s cannot be proposed: its socket leads out of the seal; name it for a run with --preset", name)
		}
	}
}

// ParseProposal returns what a repository proposes. Its paths and patterns may be relative,
// and then begin at the directory that holds .bourn; they are as in the file, see
// [Relative]. Everything that a proposal cannot say has its zero value. Errors are as of
// [Parse].
func ParseProposal(name string, src []byte) (*Profile, error) {
	s, problems := newSource(name, src)
	if problems == nil && len(src) > MaxProposal {
		problems = problemList{s.problem(Pos{1, 1}, "a proposal cannot be longer than %d bytes", MaxProposal)}
	}
	if problems != nil {
		return nil, problems.join()
	}
	root, problems := s.tree()
	if problems != nil {
		return nil, problems.join()
	}
	d := decoder{src: s, relative: true, p: &Profile{Network: Network{Mode: NetworkNone}}}
	d.form(root, 0)
	d.fields(root, "", proposalSchema)
	d.contradictions()
	if d.problems != nil {
		return nil, d.problems.join()
	}
	return d.p, nil
}

// Relative reports whether a path or pattern of a proposal begins at its repository.
func Relative(text string) bool {
	return text != "" && text[0] != '/' && text != "~" && !strings.HasPrefix(text, "~/")
}

// bad returns what check finds in the text of a path, or "". Where paths may be relative
// one is checked as if it began at the root.
func (d *decoder) bad(text string, check func(string) string) string {
	if !d.relative || !Relative(text) || text[0] == '~' {
		return check(text)
	}
	return strings.ReplaceAll(check("/"+text), strconv.Quote("/"+text), strconv.Quote(text))
}
