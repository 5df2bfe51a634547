package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func offer(p Place) Grant { return Grant{Kind: KindRead, From: FromContext, Place: p} }

const (
	ownContext = "/home/u/.bourn/agents/mur/context"
	ofBourn    = "protected: it holds the keys and profiles of agents"
)

// offering is a request of agent mur.
func offering(grants []Grant, denies ...Deny) *Request {
	r := request(grants, denies)
	r.Agent, r.AgentHome, r.BournMade = "mur", "/home/u/.bourn/agents/mur/home", true
	return r
}

// What context may show of $BOURN_HOME is the agent's own context and Bourn's skills, to read,
// and nobody else may show that.
func TestOfferedOfBournHome(t *testing.T) {
	from := func(kind Kind, from, p string) Grant { return Grant{Kind: kind, From: from, Place: at(p)} }
	link := Place{Path: ownContext + "/skills/x", Real: "/home/u/.bourn/agents/mur", Exists: true, Dir: true, Links: []Link{{ownContext + "/skills/x", "../.."}}}
	for _, tt := range []struct {
		grant Grant
		want  string
	}{
		{offer(at(ownContext + "/instructions.md")), "enforced"},
		{offer(at(ownContext + "/skills/review")), "enforced"},
		{offer(at(ownContext)), "enforced"},
		{offer(at("/home/u/.bourn/skills/review")), "enforced"},
		{offer(at("/home/u/.bourn/agents/mur/context2")), ofBourn},
		{offer(at("/home/u/.bourn/agents/mur")), ofBourn},
		{offer(at("/home/u/.bourn/agents/mur/profile.yaml")), ofBourn},
		{offer(at("/home/u/.bourn/agents/mur/home")), ofBourn},
		{offer(at("/home/u/.bourn/agents/other/context")), ofBourn},
		{offer(at("/home/u/.bourn")), ofBourn},
		{offer(at("/home/u/.bourn/secrets")), ofBourn},
		{offer(link), "now resolves to /home/u/.bourn/agents/mur"},
		{from(KindRead, "profile", ownContext), ofBourn},
		{from(KindRead, "flag", "/home/u/.bourn/skills/review"), ofBourn},
		{from(KindWrite, FromContext, ownContext), ofBourn},
		{from(KindSpawnDir, FromContext, ownContext), ofBourn},
		{offer(at("/run/user")), "protected: it holds the sockets of the host's services; name single sockets in network.unix"},
		{offer(at("/home/u")), "too broad: it covers the home directory /home/u"},
		{offer(gone("/p/x")), "path does not exist on disk"},
	} {
		it := Compile(offering([]Grant{tt.grant})).Items[0]
		got := it.Reason
		if it.Fate == Enforced {
			got = "enforced"
		}
		if it.From != tt.grant.From || got != tt.want {
			t.Errorf("%s %s from %s: %s, want %s", tt.grant.Kind, tt.grant.Path, tt.grant.From, got, tt.want)
		}
	}
	nobody := request([]Grant{offer(at(ownContext + "/instructions.md")), offer(at("/home/u/.bourn/agents//context"))}, nil)
	for _, line := range fates(Compile(nobody), KindRead) {
		if line != "read "+ownContext+"/instructions.md dropped "+ofBourn && line != "read /home/u/.bourn/agents//context dropped "+ofBourn {
			t.Errorf("a run without an agent: %s", line)
		}
	}
}

// A root gives reading alone, and takes nothing from what is granted above it, at it and below.
func TestOfferGivesReadingAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   ExecMode
		grants []Grant
		at     string
		want   string // of read, write and exec
	}{
		{"alone", ExecAny, []Grant{offer(at("/r"))}, "/r/a", "allowed denied denied"},
		{"alone, by an allowlist", ExecAllowlist, []Grant{offer(at("/r"))}, "/r/a", "allowed denied denied"},
		{"a file", ExecAny, []Grant{offer(at("/r/x.md"))}, "/r/x.md", "allowed denied denied"},
		{"above a read grant", ExecAny, []Grant{grant(KindRead, at("/r/lib")), offer(at("/r"))}, "/r/lib/a", "allowed denied allowed"},
		{"beside it", ExecAny, []Grant{grant(KindRead, at("/r/lib")), offer(at("/r"))}, "/r/a", "allowed denied denied"},
		{"above a write grant", ExecAny, []Grant{grant(KindWrite, at("/r/app")), offer(at("/r"))}, "/r/app/a", "allowed allowed allowed"},
		{"above a write grant, by an allowlist", ExecAllowlist, []Grant{grant(KindWrite, at("/r/app")), offer(at("/r"))}, "/r/app/a", "allowed allowed denied"},
		{"in a write grant", ExecAny, []Grant{grant(KindWrite, at("/r")), offer(at("/r/docs"))}, "/r/docs/a", "allowed allowed allowed"},
		{"in a read grant", ExecAny, []Grant{grant(KindRead, at("/r")), offer(at("/r/docs"))}, "/r/docs/a", "allowed denied allowed"},
		{"the same as a read grant", ExecAny, []Grant{grant(KindRead, at("/r")), offer(at("/r"))}, "/r/a", "allowed denied allowed"},
		{"in another root", ExecAny, []Grant{offer(at("/r/docs")), offer(at("/r"))}, "/r/docs/a", "allowed denied denied"},
		{"a spawn dir needs a grant", ExecAllowlist, []Grant{offer(at("/r")), grant(KindSpawnDir, at("/r/bin"))}, "/r/bin/a", "allowed denied denied"},
		{"a spawn dir above", ExecAllowlist, []Grant{grant(KindRead, at("/r")), grant(KindSpawnDir, at("/r")), offer(at("/q"))}, "/q/a", "allowed denied denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := offering(tt.grants)
			r.Exec = tt.mode
			p := Compile(r)
			got := fmt.Sprint(p.Explain(OpRead, tt.at).Allowed, " ", p.Explain(OpWrite, tt.at).Allowed, " ", p.Explain(OpExec, tt.at).Allowed)
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.at, got, tt.want)
			}
			for _, b := range p.Binds {
				if b.Item >= 0 && p.Items[b.Item].From == FromContext && (b.Write || !b.NoExec) {
					t.Errorf("the bind of %s writes or executes", b.Path)
				}
			}
		})
	}
}

func TestOfferDenied(t *testing.T) {
	p := Compile(offering([]Grant{offer(at("/p/docs")), offer(at(ownContext + "/instructions.md")), offer(at("/q"))},
		deny(at("/p")), deny(at("/q/.env")), deny(at("/home/u/.bourn/agents"))))
	want := []string{"read /q enforced", "read /p/docs dropped denied by /p",
		"read " + ownContext + "/instructions.md dropped denied by /home/u/.bourn/agents"}
	if diff := cmp.Diff(want, fates(p, KindRead)); diff != "" {
		t.Error(diff)
	}
	if a := p.Explain(OpRead, "/q/.env"); a.Allowed != "denied" || a.Item.Kind != KindDeny {
		t.Errorf("a deny in a root: %+v", a)
	}
}

// Where something of it is shown, the run has a $BOURN_HOME of its own, read-only and empty but
// for that, whatever is granted round it.
func TestOwnBournHome(t *testing.T) {
	skill := offer(at(ownContext + "/skills/review"))
	for name, grants := range map[string][]Grant{
		"in the home":      {skill},
		"in a write grant": {skill, grant(KindWrite, at("/home/u/.bourn/agents/mur/home"))},
	} {
		t.Run(name, func(t *testing.T) {
			r := offering(grants, deny(gone("/home/u/.bourn/secrets")))
			p := Compile(r)
			if !slices.Contains(p.Private, Private{Path: "/home/u/.bourn", NoExec: true}) {
				t.Errorf("private places: %v", p.Private)
			}
			if len(p.Guards) != 1 || p.Guards[0].Path != "/home/u/.bourn" || p.Guards[0].Pin || p.Items[p.Guards[0].Item].Kind != KindProtect {
				t.Errorf("guards: %+v", p.Guards)
			}
			if len(p.Masks) != 0 || len(p.Stubs) != 0 {
				t.Errorf("masks %+v, stubs %v", p.Masks, p.Stubs)
			}
			for _, path := range []string{"/home/u/.bourn", "/home/u/.bourn/secrets", "/home/u/.bourn/agents/mur/profile.yaml", ownContext + "/skills/other/SKILL.md", ownContext + "/x"} {
				for _, op := range []Operation{OpRead, OpWrite, OpExec} {
					if a := p.Explain(op, path); a.Allowed != "denied" {
						t.Errorf("%s %s: %+v", op, path, a)
					}
				}
			}
			if a := p.Explain(OpRead, ownContext+"/skills/review/SKILL.md"); a.Allowed != "allowed" || a.Item.From != FromContext {
				t.Errorf("the skill: %+v", a)
			}
			if a := p.Explain(OpWrite, ownContext+"/skills/review/SKILL.md"); a.Allowed != "denied" {
				t.Errorf("writing the skill: %+v", a)
			}
		})
	}
	around := offering([]Grant{skill, grant(KindWrite, at("/w"))})
	around.BournDir, around.BournPins = "/w/a/.bourn", []string{"/w/a"}
	around.Grants[0] = offer(at("/w/a/.bourn/agents/mur/context/skills/review"))
	p := Compile(around)
	if len(p.Masks) != 0 || len(p.Guards) != 2 || p.Guards[0] != (Guard{Path: "/w/a", Dir: true, Pin: true, Item: -1}) || p.Guards[1].Path != "/w/a/.bourn" {
		t.Errorf("in a grant: masks %+v, guards %+v", p.Masks, p.Guards)
	}
	around.Exec, around.Grants = ExecAllowlist, append(around.Grants, grant(KindSpawnDir, at("/w")))
	if a := Compile(around).Explain(OpExec, "/w/a/.bourn/agents/mur/context/skills/review/x"); a.Allowed != "denied" {
		t.Errorf("in a spawn dir: %+v", a)
	}
	if p := Compile(offering([]Grant{offer(at("/q"))})); slices.ContainsFunc(p.Private, func(p Private) bool { return p.Path == "/home/u/.bourn" }) {
		t.Error("a root elsewhere makes one, too")
	}
}
