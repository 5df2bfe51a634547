package profile

import (
	"slices"
	"strings"

	"bourn"

	"go.yaml.in/yaml/v3"
)

// Context selects what an agent is offered. All of it is to read and grants nothing else; what
// does not exist is dropped when a run is planned.
type Context struct {
	Instructions bool     // the agent's own instructions.md
	Skills       []string // by name, in the shape of agent names, each once
	Roots        []Path   // directories and files, as filesystem.read
}

// Verified is the one thing that commit.requires can ask for: a verification has passed.
const Verified = "verified"

// A Commit says what must be so before the agent's tools commit.
type Commit struct {
	Requires []string // Verified; never empty
	// Verify is the command whose passing run is a verification. With "" a call that says of
	// itself that it verifies is one.
	Verify string
}

// skills are names, each once.
func (d *decoder) skills(where string, n *yaml.Node) {
	seen := map[string]Pos{}
	for _, entry := range d.list(n, where, "a list of skills") {
		name, ok := d.line(entry, "an entry of "+where, "a name")
		if !ok {
			continue
		}
		if _, err := bourn.ParseAgentName(name); err != nil {
			d.fail(entry, "%s", strings.Replace(err.Error(), "agent name", "skill name", 1))
			continue
		}
		d.once(entry, where, name, seen)
		d.p.Context.Skills = append(d.p.Context.Skills, name)
	}
}

// commit returns the commit of the profile, made when the first of its keys is read.
func (d *decoder) commit() *Commit {
	if d.p.Commit == nil {
		d.p.Commit = &Commit{}
	}
	return d.p.Commit
}

func (d *decoder) requires(where string, n *yaml.Node) {
	known := []string{Verified}
	entries := d.list(n, where, "a list like [verified]")
	if n.Kind == yaml.SequenceNode && len(entries) == 0 {
		d.fail(n, "%s is empty; leave commit out", where)
	}
	seen := map[string]Pos{}
	for _, entry := range entries {
		word, ok := d.line(entry, "an entry of "+where, "verified")
		if !ok {
			continue
		}
		if !slices.Contains(known, word) {
			d.fail(entry, "unknown entry %q of %s%s", word, where, didYouMean(word, known))
			continue
		}
		d.once(entry, where, word, seen)
		d.commit().Requires = append(d.commit().Requires, word)
	}
}

func (d *decoder) verify(where string, n *yaml.Node) {
	text, ok := d.line(n, where, "a command")
	switch {
	case !ok:
	case strings.TrimSpace(text) == "":
		d.fail(n, "%s is empty; leave the key out", where)
	case strings.ContainsAny(text, "\r\n"):
		d.fail(n, "%s must be one line", where)
	default:
		d.commit().Verify = text
	}
}

// delegates are names of other agents, each once. Whether there are such agents the host says.
func (d *decoder) delegates(where string, n *yaml.Node) {
	d.delegated = map[bourn.AgentName]Pos{}
	seen := map[string]Pos{}
	for _, entry := range d.list(n, where, "a list of agents") {
		text, ok := d.line(entry, "an entry of "+where, "an agent's name")
		if !ok {
			continue
		}
		name, err := bourn.ParseAgentName(text)
		if err != nil {
			d.fail(entry, "%v", err)
			continue
		}
		d.once(entry, where, text, seen)
		d.delegated[name] = d.pos(entry)
		d.p.Delegate = append(d.p.Delegate, name)
	}
}

// delegateContradictions reports an agent that names itself.
func (d *decoder) delegateContradictions() {
	if at, found := d.delegated[d.p.Agent]; found {
		d.failAt(at, "delegate names the agent itself, %q; it needs no leave for its own work", d.p.Agent)
	}
}
