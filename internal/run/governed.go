package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// tools takes what the agent's profile says of governed tools.
func (p *Prepared) tools(prof *profile.Profile) {
	p.Request.ToolsOnly = prof.Tools.Only
	for _, r := range prof.Tools.Rules {
		p.Request.Tools = append(p.Request.Tools, policy.ToolWish{Tool: r.Tool, Policy: r.Policy.String(), Tier: string(r.Tier)})
	}
}

// byToolsAlone is why the agent's own process may not do what is granted.
const byToolsAlone = "governed tools alone have it: tools.only is true"

// compile makes the plans. With tools.only the command's has what its own preset grants,
// and without one the hosts of the profile, since nothing tells which of them are its
// model's; what governed tools do is under the other.
func (p *Prepared) compile() {
	p.Whole = policy.Compile(p.Request)
	p.Plan, p.Items = p.Whole, p.Whole.Items
	if !p.Request.ToolsOnly {
		return
	}
	own := *p.Request
	of := p.ownPreset()
	lacks := func(g policy.Grant) bool { return of == "" || g.From != of }
	own.Grants = slices.DeleteFunc(slices.Clone(own.Grants), lacks)
	own.Unix = slices.DeleteFunc(slices.Clone(own.Unix), lacks)
	own.Hosts = slices.DeleteFunc(slices.Clone(own.Hosts), func(w policy.HostWish) bool { return of != "" && w.From != of })
	p.Plan = policy.Compile(&own)
	p.Whole.Env = notFrom(p.Plan, p.Whole)
	p.Items = joined(p.Plan, p.Whole)
}

// notFrom takes out of PATH what the command could write, its home first of all: a program
// that it leaves there would be executed with what governed tools alone have.
func notFrom(command, whole *policy.Plan) []string {
	writes := func(dir string) bool {
		a, there := command.Explain(policy.OpWrite, dir), whole.Explain(policy.OpRead, dir)
		granted := a.Item != nil && gives(a.Item.Kind)
		shared := there.Item != nil && strings.HasSuffix(there.Item.Target, ownPlace)
		return a.Allowed == "allowed" && (granted || shared)
	}
	env := slices.Clone(whole.Env)
	for i := range env {
		dirs, is := strings.CutPrefix(env[i], "PATH=")
		if !is {
			continue
		}
		kept := slices.DeleteFunc(filepath.SplitList(dirs), func(dir string) bool {
			return !filepath.IsAbs(dir) || writes(dir)
		})
		env[i] = "PATH=" + strings.Join(kept, string(filepath.ListSeparator))
	}
	return env
}

// heldByTools turns an answer about what the command has not, or has only in a place of its
// own, where a grant gives it to governed tools, and reports whether it is that.
func heldByTools(a *policy.Answer, whole *policy.Plan, items []policy.Item) bool {
	w := whole.Explain(a.Operation, a.Resolved)
	own := a.Item != nil && strings.HasSuffix(a.Item.Target, ownPlace)
	if w.Allowed != "allowed" || w.Item == nil || !gives(w.Item.Kind) || a.Allowed == "allowed" && !own {
		return false
	}
	a.Allowed, a.Reason, a.Grant = "denied", "", "" // the item says why
	for i := range items {
		if items[i].Kind == w.Item.Kind && items[i].Target == w.Item.Target {
			a.Item = &items[i]
		}
	}
	return true
}

// ownPreset returns the origin of what the preset of the command grants, where the profile
// or the command line names that preset, else "".
func (p *Prepared) ownPreset() string {
	if len(p.Request.Command) == 0 {
		return ""
	}
	preset, ok := profile.PresetFor(filepath.Base(p.Request.Command[0]))
	if !ok || !slices.Contains(slices.Concat(p.Profile.Presets, p.Options.Presets), preset.Name) {
		return ""
	}
	return "preset:" + preset.Name
}

// joined returns the items of both plans, and says of each grant that the command's own does
// not have that the actor's seal holds it.
func joined(own, whole *policy.Plan) []policy.Item {
	type name struct {
		kind   policy.Kind
		target string
	}
	has, known := map[name]bool{}, map[name]bool{}
	for _, it := range own.Items {
		has[name{it.Kind, it.Target}] = it.Fate == policy.Enforced
	}
	var items []policy.Item
	for _, it := range whole.Items {
		known[name{it.Kind, it.Target}] = true
		if it.Fate == policy.Enforced && gives(it.Kind) && !has[name{it.Kind, it.Target}] {
			it.By = append([]string{policy.ByActor}, it.By...)
			if it.Caveat != "" {
				it.Caveat += "; "
			}
			it.Caveat += byToolsAlone
		}
		items = append(items, it)
	}
	for _, it := range own.Items {
		if !known[name{it.Kind, it.Target}] {
			items = append(items, it)
		}
	}
	return items
}

// gives reports whether items of a kind give something.
func gives(k policy.Kind) bool {
	return slices.Contains([]policy.Kind{policy.KindRead, policy.KindWrite, policy.KindHost, policy.KindUnix, policy.KindSpawnDir}, k)
}

// SetTool sets the rule of an agent's profile for the governed tools that a pattern names; it
// takes the place of the one that has the same pattern. A rule that is there already changes
// nothing.
func (h *Home) SetTool(name bourn.AgentName, rule profile.ToolRule) (Change, error) {
	return h.edit(name, func(e *editing) error {
		e.change.Path, e.change.AtCall = rule.Tool, true
		out, changed, err := profile.SetTool(e.home.ProfilePath(name), e.src, rule)
		if err != nil || !changed {
			return err
		}
		if i := e.ruleFor(rule.Tool); i >= 0 {
			e.change.Removed = append(e.change.Removed, toolEntry(e.profile.Tools.Rules[i]))
		}
		e.src = out
		e.change.Added = append(e.change.Added, toolEntry(rule))
		return nil
	})
}

// RemoveTool takes the rule of a pattern out of an agent's profile; none is ErrNotFound.
func (h *Home) RemoveTool(name bourn.AgentName, tool string) (Change, error) {
	return h.edit(name, func(e *editing) error {
		e.change.Path, e.change.AtCall = tool, true
		i := e.ruleFor(tool)
		if i < 0 {
			return bourn.WithHint(fmt.Errorf("%w: agent %q has no rule for the tool %q", bourn.ErrNotFound, name, bourn.Printable(tool)),
				"bourn agent perm list-tools "+string(name)+" shows what there is")
		}
		out, err := profile.RemoveTool(e.home.ProfilePath(name), e.src, tool)
		if err != nil {
			return err
		}
		e.src = out
		e.change.Removed = append(e.change.Removed, toolEntry(e.profile.Tools.Rules[i]))
		return nil
	})
}

func (e *editing) ruleFor(tool string) int {
	return slices.IndexFunc(e.profile.Tools.Rules, func(r profile.ToolRule) bool { return r.Tool == tool })
}

func toolEntry(r profile.ToolRule) Entry {
	return Entry{List: profile.ToolList, Path: r.Tool, Policy: r.Policy.String(), Tier: string(r.Tier)}
}
