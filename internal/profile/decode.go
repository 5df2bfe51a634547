package profile

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"bourn"
	"bourn/internal/policy"

	"go.yaml.in/yaml/v3"
)

// version is the only version of the form.
const version = 1

func (d *decoder) version(where string, n *yaml.Node) {
	if n.Tag != "!!int" {
		d.want(n, where, "the number 1")
		return
	}
	if d.p.Version = version; n.Value != strconv.Itoa(version) {
		d.fail(n, "%s %s is unknown; this program reads version %d", where, n.Value, version)
	}
}

func (d *decoder) agentName(where string, n *yaml.Node) {
	text, ok := d.line(n, where, "a name")
	if !ok {
		return
	}
	name, err := bourn.ParseAgentName(text)
	switch {
	case err != nil:
		d.fail(n, "%v", err)
	case d.agent != "" && name != d.agent:
		d.fail(n, "the profile is of agent %q, and the file is of agent %q", name, d.agent)
	}
	d.p.Agent = name
}

// text returns a scalar that is text and has no NUL, which no system call takes.
func (d *decoder) text(n *yaml.Node, where, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.want(n, where, what)
		return "", false
	}
	if strings.ContainsRune(n.Value, 0) {
		d.fail(n, "%s has a NUL character", where)
		return "", false
	}
	return n.Value, true
}

// line is text that is not a block scalar: edits put lines after it.
func (d *decoder) line(n *yaml.Node, where, what string) (string, bool) {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		d.fail(n, "%s must be on one line", where)
		return "", false
	}
	return d.text(n, where, what)
}

// list returns the entries of a list.
func (d *decoder) list(n *yaml.Node, where, what string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		d.want(n, where, what)
		return nil
	}
	return n.Content
}

func (d *decoder) command(where string, n *yaml.Node) {
	entries := d.list(n, where, "a list of words")
	if n.Kind == yaml.SequenceNode && len(entries) == 0 {
		d.fail(n, "%s is empty; leave the key out", where)
	}
	for i, entry := range entries {
		word, ok := d.text(entry, "a word of "+where, "text")
		if ok && i == 0 && word == "" {
			d.fail(entry, "%s names no program", where)
		}
		d.p.Command = append(d.p.Command, word)
	}
}

// paths returns the function that decodes a list of paths into a field.
func paths(field func(*Profile) *[]Path) func(*decoder, string, *yaml.Node) {
	return func(d *decoder, where string, n *yaml.Node) {
		seen := map[string]Pos{}
		for _, entry := range d.list(n, where, "a list of paths") {
			text, ok := d.pathText(entry, "an entry of "+where)
			if !ok {
				continue
			}
			if bad := d.bad(text, checkPath); bad != "" {
				d.fail(entry, "%s", bad)
				continue
			}
			p := Path{text, d.pos(entry)}
			d.once(entry, where, p.Clean(), seen)
			list := field(d.p)
			*list = append(*list, p)
		}
	}
}

// pathText is a line for a path: "~" alone is null to YAML, and a home to a person.
func (d *decoder) pathText(n *yaml.Node, where string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value == "~" {
		return "~", true
	}
	return d.line(n, where, "a path")
}

// once reports a value that a list has already.
func (d *decoder) once(n *yaml.Node, where, value string, seen map[string]Pos) {
	if first, found := seen[value]; found {
		d.fail(n, "%q is listed twice in %s; the first is at %s", value, where, first)
		return
	}
	seen[value] = d.pos(n)
}

func (d *decoder) denies(where string, n *yaml.Node) {
	seen := map[string]Pos{}
	for _, entry := range d.list(n, where, "a list of paths and patterns") {
		before := len(d.p.Filesystem.Deny)
		if entry.Kind == yaml.MappingNode {
			d.empty, d.placeholder = false, nil
			d.fields(entry, where, denySchema)
			for i := range d.p.Filesystem.Deny[before:] {
				d.keep(&d.p.Filesystem.Deny[before+i])
			}
		} else {
			d.denyPath("an entry of "+where, entry)
		}
		for _, deny := range d.p.Filesystem.Deny[before:] {
			d.once(entry, where, deny.Clean(), seen)
		}
	}
}

func (d *decoder) denyPath(where string, n *yaml.Node) {
	text, ok := d.pathText(n, where)
	if !ok {
		return
	}
	if bad := d.bad(text, checkDeny); bad != "" {
		d.fail(n, "%s", bad)
		return
	}
	d.p.Filesystem.Deny = append(d.p.Filesystem.Deny, Deny{Path: Path{text, d.pos(n)}, Glob: IsPattern(text)})
}

func (d *decoder) denyStyle(where string, n *yaml.Node) {
	styles := []string{"none", "empty"}
	style, ok := d.line(n, where, "none or empty")
	if ok && !slices.Contains(styles, style) {
		d.fail(n, "unknown %s %q%s", where, style, didYouMean(style, styles))
	}
	d.empty = style == "empty"
}

func (d *decoder) denyPlaceholder(where string, n *yaml.Node) {
	is := false
	truth(func(*Profile) *bool { return &is })(d, where, n)
	if is {
		d.placeholder = n
	}
}

// keep gives a deny what its other keys say.
func (d *decoder) keep(deny *Deny) {
	deny.Empty, deny.Placeholder = d.empty, d.placeholder != nil
	if deny.Glob && d.placeholder != nil {
		d.fail(d.placeholder, "a placeholder takes a path, and %q is a pattern", deny.Text)
	}
}

func (d *decoder) networkMode(where string, n *yaml.Node) {
	modes := []string{NetworkNone, NetworkRestricted, NetworkOpen}
	mode, ok := d.line(n, where, "none, restricted or open")
	if ok && !slices.Contains(modes, mode) {
		d.fail(n, "unknown %s %q%s", where, mode, didYouMean(mode, modes))
	}
	d.p.Network.Mode, d.p.Network.ModePos = mode, d.pos(n)
}

// hosts returns the function that decodes a list of hosts into a field.
func hosts(field func(*Profile) *[]Host) func(*decoder, string, *yaml.Node) {
	return func(d *decoder, where string, n *yaml.Node) {
		seen := map[string]Pos{}
		for _, entry := range d.list(n, where, "a list of hosts") {
			text, ok := d.line(entry, "an entry of "+where, "a host")
			if !ok {
				continue
			}
			host, err := policy.ParseHost(text)
			if err != nil {
				d.fail(entry, "%v", err)
				continue
			}
			d.once(entry, where, host.String(), seen)
			list := field(d.p)
			*list = append(*list, Host{text, host, d.pos(entry)})
		}
	}
}

func (d *decoder) processesMode(where string, n *yaml.Node) {
	modes := []string{ProcessesAny, ProcessesAllowlist, ProcessesNone}
	mode, ok := d.line(n, where, "any, allowlist or none")
	if !ok {
		return
	}
	if !slices.Contains(modes, mode) {
		d.fail(n, "unknown %s %q%s", where, mode, didYouMean(mode, modes))
	}
	d.p.Processes.Mode, d.modeAt = mode, n
}

func (d *decoder) envPass(where string, n *yaml.Node) {
	seen := map[string]Pos{}
	d.passed = map[string]*yaml.Node{}
	for _, entry := range d.list(n, where, "a list of names") {
		name, ok := d.line(entry, "an entry of "+where, "a name")
		if !ok || !d.envName(entry, name) {
			continue
		}
		d.once(entry, where, name, seen)
		d.passed[name] = entry
		d.p.Env.Pass = append(d.p.Env.Pass, name)
	}
}

func (d *decoder) envSet(where string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.want(n, where, "a mapping of names to text")
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name, ok := d.key(k, seen)
		if !ok || !d.envName(k, name) {
			continue
		}
		if value, ok := d.text(v, dotted(where, name), "text"); ok {
			d.p.Env.Set = append(d.p.Env.Set, EnvVar{name, value, d.pos(k)})
		}
	}
}

// envName checks a name as a shell would take it: environ(7), POSIX.1 XBD 8.1.
func (d *decoder) envName(n *yaml.Node, name string) bool {
	for i, r := range name {
		letter := 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || r == '_'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			d.fail(n, "%q cannot name a variable; use A-Z, a-z, 0-9 and _, not beginning with a digit", name)
			return false
		}
	}
	if name == "" {
		d.fail(n, "a variable must have a name")
	}
	return name != ""
}

// units are the suffixes of limits.memory.
var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func (d *decoder) memory(where string, n *yaml.Node) {
	const what = "a size like 512MiB, 2GB or a number of bytes"
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!int" {
		d.want(n, where, what)
		return
	}
	digits, factor := n.Value, int64(1)
	for _, unit := range units {
		if rest, found := strings.CutSuffix(n.Value, unit.suffix); found {
			digits, factor = strings.TrimSuffix(rest, " "), unit.bytes
			break
		}
	}
	if size, ok := d.number(n, where, what, digits, math.MaxInt64/factor); ok {
		d.p.Limits.Memory = size * factor
	}
}

// number returns plain decimal digits as a number from 1 to limit.
func (d *decoder) number(n *yaml.Node, where, what, digits string, limit int64) (int64, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		d.fail(n, "%s must be %s, not %q", where, what, n.Value)
		return 0, false
	}
	value, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || value > limit:
		d.fail(n, "%s %q is too large", where, n.Value)
		return 0, false
	case value == 0:
		d.fail(n, "%s cannot be 0; leave the key out for no limit", where)
		return 0, false
	}
	return value, true
}

// count returns the function that decodes a positive number into a field.
func count(field func(*Profile) *int) func(*decoder, string, *yaml.Node) {
	return func(d *decoder, where string, n *yaml.Node) {
		if n.Tag != "!!int" {
			d.want(n, where, "a number")
			return
		}
		if value, ok := d.number(n, where, "a number", n.Value, math.MaxInt32); ok {
			*field(d.p) = int(value)
		}
	}
}

func (d *decoder) time(where string, n *yaml.Node) {
	const what = "a time with its unit, like 90s, 30m or 2h"
	text, ok := d.line(n, where, what)
	if !ok {
		return
	}
	limit, err := time.ParseDuration(text)
	switch {
	case err != nil:
		d.want(n, where, what)
	case limit <= 0:
		d.fail(n, "%s must be more than 0; leave the key out for no limit", where)
	default:
		d.p.Limits.Time = limit
	}
}

// truth returns the function that decodes true or false into a field.
func truth(field func(*Profile) *bool) func(*decoder, string, *yaml.Node) {
	return func(d *decoder, where string, n *yaml.Node) {
		if n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
			d.want(n, where, "true or false")
			return
		}
		*field(d.p) = n.Value == "true"
	}
}

// contradictions reports what each line allows and two lines together do not.
func (d *decoder) contradictions() {
	denied := map[string]Pos{}
	for _, deny := range d.p.Filesystem.Deny {
		if p, ok := deny.Literal(); ok {
			denied[p] = deny.Pos
		}
	}
	for _, grant := range slices.Concat(d.p.Filesystem.Read, d.p.Filesystem.Write) {
		if at, found := denied[grant.Clean()]; found {
			d.failAt(grant.Pos, "%q is both granted and denied; the deny is at %s", grant.Text, at)
		}
	}
	for _, set := range d.p.Env.Set {
		if n := d.passed[set.Name]; n != nil {
			d.failAt(set.Pos, "%s is both passed and set; env.pass names it at %s", set.Name, d.pos(n))
		}
	}
	if d.p.Processes.Mode == ProcessesNone && len(d.p.Processes.SpawnDirs) > 0 {
		d.fail(d.modeAt, "processes.mode none allows no spawn_dirs; the first is at %s", d.p.Processes.SpawnDirs[0].Pos)
	}
	d.networkContradictions(d.p.Network)
	d.toolContradictions()
	d.delegateContradictions()
}

func (d *decoder) networkContradictions(n Network) {
	denied := map[policy.Host]Pos{}
	for _, deny := range n.Deny {
		denied[deny.Host] = deny.Pos
	}
	for _, grant := range n.Hosts {
		if at, found := denied[grant.Host]; found {
			d.failAt(grant.Pos, "%q is both granted and denied; the deny is at %s", grant.Text, at)
		}
	}
	const need = "network.hosts needs network.mode: restricted"
	switch {
	case len(n.Hosts) == 0:
	case !n.ModeNamed():
		d.failAt(n.Hosts[0].Pos, need)
	case n.Mode == NetworkNone || n.Mode == NetworkOpen:
		d.failAt(n.ModePos, need+", not %s; the first host is at %s", n.Mode, n.Hosts[0].Pos)
	}
}

func (d *decoder) failAt(pos Pos, format string, args ...any) {
	d.problems = append(d.problems, d.src.problem(pos, format, args...))
}

// presets are names of the table, each once.
func (d *decoder) presets(where string, n *yaml.Node) {
	for _, entry := range d.list(n, where, "a list of presets") {
		name, ok := d.line(entry, where, "a preset")
		if !ok {
			continue
		}
		var known []string
		for _, p := range presets {
			known = append(known, p.Name)
		}
		switch {
		case slices.Contains(d.p.Presets, name):
			d.fail(entry, "%s has %q twice", where, name)
		case !slices.Contains(known, name):
			d.fail(entry, "unknown preset %q%s", name, didYouMean(name, known))
		default:
			d.p.Presets = append(d.p.Presets, name)
		}
	}
}
