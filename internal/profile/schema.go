package profile

import (
	"fmt"
	"strings"

	"bourn"

	"go.yaml.in/yaml/v3"
)

// A key is a row of the schema. A row has later, keys or decode. To support a key that
// is marked later, take the mark away and give it a decode function.
type key struct {
	name     string
	later    bool // the contract has it, and nothing keeps it yet: any use is an error
	required bool
	bare     bool  // may stand without a value in block style, which is an empty one
	keys     []key // the value is a mapping with these keys
	decode   func(d *decoder, where string, n *yaml.Node)
}

// schema is every key that a profile may have.
var schema = []key{
	{name: "version", required: true, decode: (*decoder).version},
	{name: "agent", required: true, decode: (*decoder).agentName},
	{name: "command", decode: (*decoder).command},
	{name: "presets", bare: true, decode: (*decoder).presets},
	{name: "filesystem", bare: true, keys: []key{
		{name: "read", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Filesystem.Read })},
		{name: "write", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Filesystem.Write })},
		{name: "deny", bare: true, decode: (*decoder).denies},
	}},
	{name: "network", bare: true, keys: []key{
		{name: "mode", decode: (*decoder).networkMode},
		{name: "hosts", bare: true, decode: hosts(func(p *Profile) *[]Host { return &p.Network.Hosts })},
		{name: "deny", bare: true, decode: hosts(func(p *Profile) *[]Host { return &p.Network.Deny })},
		{name: "unix", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Network.Unix })},
	}},
	{name: "processes", bare: true, keys: []key{
		{name: "mode", decode: (*decoder).processesMode},
		{name: "spawn_dirs", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Processes.SpawnDirs })},
	}},
	{name: "env", bare: true, keys: []key{
		{name: "pass", bare: true, decode: (*decoder).envPass},
		{name: "set", bare: true, decode: (*decoder).envSet},
	}},
	{name: "context", bare: true, keys: []key{
		{name: "instructions", decode: truth(func(p *Profile) *bool { return &p.Context.Instructions })},
		{name: "skills", bare: true, decode: (*decoder).skills},
		{name: "roots", bare: true, decode: paths(func(p *Profile) *[]Path { return &p.Context.Roots })},
	}},
	{name: "commit", keys: []key{
		{name: "requires", required: true, decode: (*decoder).requires},
		{name: "verify", decode: (*decoder).verify},
	}},
	{name: "hitl", later: true},
	{name: "limits", bare: true, keys: []key{
		{name: "memory", decode: (*decoder).memory},
		{name: "processes", decode: count(func(p *Profile) *int { return &p.Limits.Processes })},
		{name: "open_files", decode: count(func(p *Profile) *int { return &p.Limits.OpenFiles })},
		{name: "time", decode: (*decoder).time},
	}},
	{name: "tools", bare: true, keys: []key{
		{name: "only", decode: (*decoder).toolsOnly},
		{name: "rules", bare: true, decode: (*decoder).toolRules},
	}},
	{name: "delegate", bare: true, decode: (*decoder).delegates},
	{name: "records", decode: (*decoder).records},
	{name: "sandbox", bare: true, keys: []key{
		{name: "fail_closed_on_sandbox_error", decode: truth(func(p *Profile) *bool { return &p.Sandbox.FailClosed })},
		{name: "transparent_network", decode: truth(func(p *Profile) *bool { return &p.Sandbox.Transparent })},
		{name: "nested", decode: truth(func(p *Profile) *bool { return &p.Sandbox.Nested })},
		{name: "quarantine", decode: truth(func(p *Profile) *bool { return &p.Sandbox.Quarantine })},
	}},
	{name: "run_as", decode: (*decoder).runAs},
	{name: "service", decode: truth(func(p *Profile) *bool { return &p.Service })},
}

// denySchema is every key of an entry of filesystem.deny that is a mapping.
var denySchema = []key{
	{name: "path", required: true, decode: (*decoder).denyPath},
	{name: "style", decode: (*decoder).denyStyle},
	{name: "placeholder", decode: (*decoder).denyPlaceholder},
}

// toolSchema is every key of an entry of tools.rules.
var toolSchema = []key{
	{name: "tool", required: true, decode: (*decoder).toolName},
	{name: "policy", required: true, decode: (*decoder).toolPolicy},
	{name: "tier", decode: (*decoder).toolTier},
}

// A decoder fills a profile and collects what is wrong.
type decoder struct {
	src      *source
	agent    bourn.AgentName // whom the profile must name; "" is anyone
	p        *Profile
	problems problemList

	modeAt      *yaml.Node              // of processes
	passed      map[string]*yaml.Node   // the names of env.pass
	floor       Floor                   // where the host's policy is decoded
	empty       bool                    // the style of the deny that is being decoded
	placeholder *yaml.Node              // its placeholder: true, or nil
	rule        ToolRule                // the entry of tools.rules that is being decoded
	onlyAt      *yaml.Node              // tools.only: true, or nil
	delegated   map[bourn.AgentName]Pos // the entries of delegate

	relative bool // paths may be relative, as in a proposal
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.problems = append(d.problems, d.src.problem(d.pos(n), format, args...))
}

func (d *decoder) pos(n *yaml.Node) Pos { return d.src.clamp(n.Line, n.Column) }

// fields decodes a mapping by its rows.
func (d *decoder) fields(n *yaml.Node, where string, rows []key) {
	if n.Kind != yaml.MappingNode {
		d.want(n, where, "a mapping")
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k, ok := d.key(n.Content[i], seen); ok {
			d.field(n, n.Content[i], n.Content[i+1], where, find(rows, k), rows)
		}
	}
	for _, row := range rows {
		if row.required && seen[row.name] == nil {
			d.fail(n, "%s is missing", dotted(where, row.name))
		}
	}
}

// key returns the text of a key that is a name and was not seen before.
func (d *decoder) key(n *yaml.Node, seen map[string]*yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode || n.Tag == "!!merge":
		return "", false // form has said so
	case n.Kind != yaml.ScalarNode:
		d.fail(n, "a key must be a name, not %s", describe(n))
		return "", false
	case seen[n.Value] != nil:
		d.fail(n, "duplicate key %q; the first is at %s", n.Value, d.pos(seen[n.Value]))
		return "", false
	}
	seen[n.Value] = n
	return n.Value, true
}

func (d *decoder) field(in, k, v *yaml.Node, where string, row *key, rows []key) {
	switch name := dotted(where, k.Value); {
	case row == nil:
		d.fail(k, "unknown key %q%s", k.Value, didYouMean(k.Value, names(rows)))
	case row.later:
		d.fail(k, "%s is not supported yet", name)
	case isBare(v) && row.bare && in.Style&yaml.FlowStyle == 0:
		// Nothing is declared.
	case isBare(v):
		d.fail(v, "%s has no value", name)
	case row.keys != nil:
		d.fields(v, name, row.keys)
	default:
		row.decode(d, name, v)
	}
}

// isBare reports whether a key stands without a value.
func isBare(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Tag == "!!null" && n.Style == 0
}

func find(rows []key, name string) *key {
	for i := range rows {
		if rows[i].name == name {
			return &rows[i]
		}
	}
	return nil
}

func names(rows []key) []string {
	var all []string
	for _, row := range rows {
		all = append(all, row.name)
	}
	return all
}

func dotted(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

// want reports a value of the wrong type.
func (d *decoder) want(n *yaml.Node, where, what string) {
	if n.Kind == yaml.AliasNode {
		return // form has said so
	}
	if where == "" {
		where = "a profile"
	}
	d.fail(n, "%s must be %s, not %s", where, what, describe(n))
}

// describe names the type of a value as a person would.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch {
	case isBare(n):
		return "nothing"
	case n.Tag == "!!str":
		return fmt.Sprintf("%q", n.Value)
	case n.Tag == "!!null":
		return "null"
	case n.Tag == "!!bool":
		return "true or false without quotes"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "a number without quotes"
	}
	return "a " + strings.TrimPrefix(n.Tag, "!!") + " without quotes"
}

// didYouMean names the word that is nearest to a mistyped one, where one is near.
func didYouMean(word string, words []string) string {
	best, distance := "", 1+min(2, len(word)/2)
	for _, w := range words {
		if n := editDistance(word, w); n < distance {
			best, distance = w, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance counts the insertions, deletions, substitutions and swaps of neighbours
// that turn a into b (optimal string alignment). Words much longer than any key are far.
func editDistance(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a)
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		now, last, before := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
