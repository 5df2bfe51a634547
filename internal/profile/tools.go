package profile

import (
	"fmt"
	"slices"
	"strings"

	"bourn"

	"go.yaml.in/yaml/v3"
)

// Tools says what an agent may do by governed tools, and whether it may do anything else.
type Tools struct {
	Only  bool       // the agent's own process holds no grant: governed tools alone do
	Rules []ToolRule // in the order of the file; no pattern is listed twice
}

// A ToolRule is an entry of tools.rules.
type ToolRule struct {
	Tool   string // a tool's name, or the beginning of one with a * behind it
	Policy bourn.Outcome
	Tier   bourn.Tier // "" where the entry names none
	Pos    Pos
}

// maxTool is more bytes than a tool's name has.
const maxTool = 128

// checkTool returns why a text names no tools, or "".
func checkTool(text string) string {
	name, open := strings.CutSuffix(text, "*")
	switch {
	case text == "":
		return "a tool must have a name"
	case len(text) > maxTool:
		return fmt.Sprintf("no tool has a name of more than %d characters", maxTool)
	case name == "" && open:
		return ""
	}
	for _, r := range name {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:", r)) {
			return fmt.Sprintf("%q cannot name tools; use letters, digits and _-./:, and * at the end", text)
		}
	}
	return ""
}

func (d *decoder) toolsOnly(where string, n *yaml.Node) {
	truth(func(p *Profile) *bool { return &p.Tools.Only })(d, where, n)
	if d.p.Tools.Only {
		d.onlyAt = n
	}
}

func (d *decoder) toolRules(where string, n *yaml.Node) {
	seen := map[string]Pos{}
	for _, entry := range d.list(n, where, "a list of rules") {
		if entry.Kind != yaml.MappingNode {
			d.want(entry, "an entry of "+where, "a mapping like {tool: shell_exec, policy: ask}")
			continue
		}
		d.rule = ToolRule{Pos: d.pos(entry)}
		d.fields(entry, where, toolSchema)
		if d.rule.Tool == "" {
			continue // said already
		}
		d.once(entry, where, d.rule.Tool, seen)
		d.p.Tools.Rules = append(d.p.Tools.Rules, d.rule)
	}
}

func (d *decoder) toolName(where string, n *yaml.Node) {
	text, ok := d.line(n, where, "a tool's name")
	if !ok {
		return
	}
	if bad := checkTool(text); bad != "" {
		d.fail(n, "%s", bad)
		return
	}
	d.rule.Tool = text
}

func (d *decoder) toolPolicy(where string, n *yaml.Node) {
	words := []string{bourn.Allow.String(), bourn.Ask.String(), bourn.Deny.String()}
	word, ok := d.line(n, where, "allow, ask or deny")
	if !ok {
		return
	}
	if !slices.Contains(words, word) {
		d.fail(n, "unknown %s %q%s", where, word, didYouMean(word, words))
		return
	}
	_ = d.rule.Policy.UnmarshalText([]byte(word)) // it is one of them
}

func (d *decoder) toolTier(where string, n *yaml.Node) {
	var words []string
	for _, t := range bourn.Tiers() {
		words = append(words, string(t))
	}
	word, ok := d.line(n, where, "one of "+strings.Join(words, ", "))
	if ok && !slices.Contains(words, word) {
		d.fail(n, "unknown %s %q%s", where, word, didYouMean(word, words))
	}
	d.rule.Tier = bourn.Tier(word)
}

// toolContradictions reports what tools.only cannot hold beside.
func (d *decoder) toolContradictions() {
	if d.onlyAt != nil && !d.p.Sandbox.FailClosed {
		d.fail(d.onlyAt, "tools.only: true needs a sandbox, and sandbox.fail_closed_on_sandbox_error is false")
	}
	if d.onlyAt != nil && d.p.Network.Mode == NetworkOpen {
		d.fail(d.onlyAt, "tools.only: true leaves the agent its model's hosts alone, and network.mode is open at %s; name the hosts", d.p.Network.ModePos)
	}
}

// item returns the rule as an entry of a list, quoted by q.
func (r ToolRule) item(q func(string) string) string {
	word := func(s string) string { return s }
	if q("a") != "a" {
		word = q
	}
	text := "{" + word("tool") + ": " + q(r.Tool) + ", " + word("policy") + ": " + word(r.Policy.String())
	if r.Tier != "" {
		text += ", " + word("tier") + ": " + word(string(r.Tier))
	}
	return text + "}"
}

// SetTool returns src with a rule for the tools that its pattern names: as the last entry of
// tools.rules, or in the place of the one that has the same pattern, whose other text stays.
// A rule that is there already changes nothing: the same text is returned and changed is
// false. Errors are as of [Add].
func SetTool(name string, src []byte, rule ToolRule) (out []byte, changed bool, err error) {
	e, err := newEdit(name, src, ToolList, rule.Tool)
	if err == nil {
		out, changed, err = e.setTool(rule)
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot add %q to %s: %w", rule.Tool, ToolList, err)
	}
	return out, changed, nil
}

func (e *edit) setTool(rule ToolRule) ([]byte, bool, error) {
	rule.Pos = Pos{}
	want := unplacedRules(e.profile.Tools.Rules)
	switch i := e.index(); {
	case i < 0:
		want = append(want, rule)
		e.rule = &rule
		e.add()
	case want[i] == rule:
		return []byte(e.text), false, nil
	default:
		want[i] = rule
		if err := e.replace(e.root.find(e.parent).value.find(e.key).value.items[i].node, rule); err != nil {
			return nil, false, err
		}
	}
	out, err := e.finishTools(want)
	return out, err == nil, err
}

// RemoveTool returns src without the rule of a pattern. The error is ErrNotFound where there
// is none, and as of [Add].
func RemoveTool(name string, src []byte, tool string) ([]byte, error) {
	return Remove(name, src, ToolList, tool)
}

// finishTools is finish, which compares the rules whole.
func (e *edit) finishTools(want []ToolRule) ([]byte, error) {
	var tools []string
	for _, r := range want {
		tools = append(tools, r.Tool)
	}
	out, err := e.finish(tools)
	if err != nil {
		return nil, err
	}
	p, err := Parse(e.name, out)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(unplacedRules(p.Tools.Rules), want) {
		return nil, errForm
	}
	return out, nil
}

// errForm is the error for what an edit cannot follow.
var errForm = fmt.Errorf("%w: this profile is written in a form that edits do not know; edit it by hand", bourn.ErrInvalid)

// replace splices the policy and the tier of a rule over those of an entry.
func (e *edit) replace(in *node, rule ToolRule) error {
	word := func(near *node, s string) string {
		if doubleQuoted(near) {
			return doubleQuote(s)
		}
		return s
	}
	policy, tier := in.find("policy"), in.find("tier")
	if text := word(policy.value, rule.Policy.String()); e.text[policy.value.start:policy.value.end] != text {
		e.splice(policy.value.start, policy.value.end, text)
	}
	switch {
	case tier == nil && rule.Tier == "":
	case tier != nil && rule.Tier != "":
		e.splice(tier.value.start, tier.value.end, word(tier.value, string(rule.Tier)))
	case tier == nil:
		last := in.entries[len(in.entries)-1].value
		text := word(in, "tier") + ": " + word(in, string(rule.Tier))
		if in.flow() {
			e.spliceAfter(last.end, ", "+text)
			return nil
		}
		after := e.lineEnd(last.end)
		e.spliceAfter(after, e.newline(after)+strings.Repeat(" ", in.start-e.lineStart(in.start))+text)
	default:
		return e.cutEntry(in, tier)
	}
	return nil
}

// spliceAfter adds text behind what another splice may end at.
func (e *edit) spliceAfter(at int, text string) {
	if n := len(e.splices); n > 0 && e.splices[n-1].end == at {
		e.splices[n-1].text += text
		return
	}
	e.splice(at, at, text)
}

// cutEntry takes a key that is not the only one out of a mapping.
func (e *edit) cutEntry(in *node, out *entry) error {
	i := in.place(out)
	start, end := out.key.start, out.value.end
	switch {
	case i > 0 && in.flow():
		start = in.entries[i-1].value.end
	case i > 0:
		if strings.Trim(e.text[e.lineStart(start):start], " ") != "" {
			return errForm
		}
		e.cutLines(start, end)
		return nil
	default:
		end = in.entries[1].key.start
	}
	if strings.Contains(e.text[start:end], "#") {
		return errForm // a comment would go, too
	}
	e.splice(start, end, "")
	return nil
}

func unplacedRules(rules []ToolRule) []ToolRule {
	var out []ToolRule
	for _, r := range rules {
		r.Pos = Pos{}
		out = append(out, r)
	}
	return out
}
