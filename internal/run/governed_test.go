package run

import (
	"slices"
	"strings"
	"testing"

	"bourn/internal/policy"
	"bourn/internal/profile"
)

// request is one with grants of a profile and of two presets.
func requestOf(command string, presets ...string) *Prepared {
	place := func(at string) policy.Place { return policy.Place{Path: at, Real: at, Exists: true, Dir: true} }
	grant := func(kind policy.Kind, from, at string) policy.Grant {
		return policy.Grant{Kind: kind, From: from, Place: place(at)}
	}
	host := func(from, text string) policy.HostWish {
		h, err := policy.ParseHost(text)
		if err != nil {
			panic(err)
		}
		return policy.HostWish{Host: h, From: from}
	}
	return &Prepared{Profile: &profile.Profile{Presets: presets}, Request: &policy.Request{
		Command: []string{command}, Home: "/home/dev", ToolsOnly: true, Network: policy.NetworkRestricted,
		Grants: []policy.Grant{grant(policy.KindWrite, "profile", "/home/dev/src/app"), grant(policy.KindRead, "preset:go", "/home/dev/go/pkg/mod"),
			grant(policy.KindWrite, "preset:claude-code", "/home/dev/.claude"), grant(policy.KindSpawnDir, "profile", "/home/dev/src/app/bin")},
		Hosts: []policy.HostWish{host("profile", "git.example.org:443"), host("preset:claude-code", "api.example.com:443"), host("preset:go", "proxy.example.com:443")},
		Tools: []policy.ToolWish{{Tool: "shell_exec", Policy: "ask", Tier: "spend"}},
	}}
}

func paths(p *policy.Plan) (out []string) {
	for _, b := range p.Binds {
		out = append(out, b.Path)
	}
	for _, g := range p.Network.Grants {
		out = append(out, g.Host.String())
	}
	return out
}

func TestToolsOnlyPlans(t *testing.T) {
	all := []string{"/home/dev/.claude", "/home/dev/go/pkg/mod", "/home/dev/src/app", "git.example.org:443", "api.example.com:443", "proxy.example.com:443"}
	for name, test := range map[string]struct {
		p   *Prepared
		own []string
	}{
		"its own preset":                       {requestOf("claude", "claude-code", "go"), []string{"/home/dev/.claude", "api.example.com:443"}},
		"by a path":                            {requestOf("/usr/bin/claude", "claude-code"), []string{"/home/dev/.claude", "api.example.com:443"}},
		"no preset of its own: hosts stay":     {requestOf("agent.py", "claude-code", "go"), []string{"git.example.org:443", "api.example.com:443", "proxy.example.com:443"}},
		"a preset that nobody named is not it": {requestOf("claude", "go"), []string{"git.example.org:443", "api.example.com:443", "proxy.example.com:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.p.compile()
			if got := paths(test.p.Plan); !slices.Equal(got, test.own) {
				t.Errorf("the command has %v, want %v", got, test.own)
			}
			if got := paths(test.p.Whole); !slices.Equal(got, all) {
				t.Errorf("governed tools have %v, want %v", got, all)
			}
			for _, it := range test.p.Items {
				if !gives(it.Kind) || it.Fate != policy.Enforced {
					continue
				}
				held := it.By[0] == policy.ByActor
				if want := !slices.Contains(test.own, it.Target); held != want || held != strings.Contains(it.Caveat, byToolsAlone) {
					t.Errorf("%s %s is by %v, %q", it.Kind, it.Target, it.By, it.Caveat)
				}
			}
		})
	}
}

// TestToolsOnlyPath: what the command can write is not in the PATH of governed tools.
func TestToolsOnlyPath(t *testing.T) {
	p := requestOf("claude", "claude-code")
	p.Request.AgentHome = "/var/lib/mur/home"
	const all = "/home/dev/.local/bin:/home/dev/.claude/bin:/usr/bin:/tmp/bin:bin::/home/dev/src/app/bin:/home/dev/go/pkg/mod"
	p.Request.Env = []policy.EnvVar{{Name: "PATH", Value: all}, {Name: "LANG", Value: "C"}}
	p.compile()
	if got := p.Whole.Env; got[0] != "PATH=/usr/bin:/home/dev/src/app/bin:/home/dev/go/pkg/mod" || got[1] != "LANG=C" {
		t.Errorf("governed tools have %q", got)
	}
	if got := p.Plan.Env; got[0] != "PATH="+all {
		t.Errorf("the command has %q", got)
	}
}

// TestToolItems: each rule is an item, which says that the agent's own process is not asked
// where that is so.
func TestToolItems(t *testing.T) {
	p := requestOf("sh")
	p.compile()
	tools := func() (out []policy.Item) {
		for _, it := range p.Items {
			if it.Kind == policy.KindTool {
				out = append(out, it)
			}
		}
		return out
	}
	if got := tools(); len(got) != 2 || got[0].Target != policy.ToolsOnly || got[1].Target != "shell_exec: ask, tier spend" || got[1].By[0] != "gate" || got[1].Caveat != "" {
		t.Errorf("%+v", got)
	}
	p.Request.ToolsOnly = false
	p.compile()
	if got := tools(); len(got) != 1 || got[0].By[0] != "gate only" || !strings.Contains(got[0].Caveat, "own shell and programs are not asked") {
		t.Errorf("%+v", got)
	}
	if p.Plan != p.Whole || len(p.Plan.Items) != len(p.Items) {
		t.Error("without tools.only there is more than one plan")
	}
}
