package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

// host parses a host that is known to be one.
func host(text string) Host {
	h, err := ParseHost(text)
	if err != nil {
		panic(err)
	}
	return h
}

// parentRequest is a run with something of every kind, as the host was asked for it.
func parentRequest() *Request {
	sock := at("/s/agent.sock")
	sock.Dir, sock.Socket, sock.Special = false, true, true
	preset := func(kind Kind, p Place) Grant {
		return Grant{Kind: kind, From: "preset:claude-code", Fresh: true, Place: p}
	}
	linked := Place{Path: "/link", Real: "/real", Exists: true, Dir: true, Object: Object{Dev: 1, Ino: 99}}
	req := request([]Grant{
		grant(KindWrite, at("/p")), grant(KindRead, at("/lore")), grant(KindRead, gone("/later")),
		preset(KindWrite, at("/home/u/.claude")), {Kind: KindRead, From: "flag", Fresh: true, Place: linked},
	}, []Deny{
		deny(at("/p/.env")), {Pattern: "/p/**/*.pem", From: "profile", Glob: true, Place: Place{Path: "/p/**/*.pem"},
			Matches: []Place{at("/p/a.pem")}, More: []Alias{{Place: at("/p/hard"), Why: "a hard link"}}},
	})
	req.Command, req.CwdName = []string{"claude", "-p"}, "/via"
	req.Guarded = []Guarded{{Place: at("/p/.git/hooks"), Pins: []string{"/p/.git"}, Reason: "git runs it"}}
	req.Blocks = []Block{{From: "boundary:ro", Operations: []bourn.Operation{bourn.Write}, Target: "/p/vendor", Tree: true, Place: at("/p/vendor")}}
	req.Inner = []Inner{{Place: at("/p/proc"), Reason: "a kernel file system is mounted there"}}
	req.Sockets, req.Hollow, req.Unsearched = []string{"/p/x.sock"}, []string{"/p/h"}, []string{"/p/u"}
	req.Network = NetworkRestricted
	req.Hosts = []HostWish{{Host: host("api.anthropic.com"), From: "preset:claude-code"}, {Host: host("*.example.org:443"), From: "profile"},
		{Host: host("localhost:5432"), From: "profile"}, {Host: host("gone.example.com"), From: "profile"}}
	req.HostDenies = []HostWish{{Host: host("secret.example.org"), From: "profile"}, {Host: host("gone.example.com"), From: "host"}}
	req.Unix = []Grant{{Kind: KindUnix, From: "profile", Place: sock}}
	req.Env = []EnvVar{{Name: "PATH", Value: "/usr/bin"}, {Name: "PWD", Value: "/p"}, {Name: "API_KEY", Value: "k", From: "preset:claude-code"},
		{Name: "EDITOR", Value: "vi", From: "profile"}, {Name: "ABSENT", From: "profile", Missing: true}}
	req.Tools, req.Advisory = []ToolWish{{Tool: "shell_exec", Policy: "ask"}}, true
	req.Limits = Limits{Memory: 100, Processes: 10, Time: time.Hour}
	req.User, req.Root = &User{Name: "u", UID: 7, Groups: []int{7}}, true
	return req
}

// lines prints the grants, a line each.
func lines(grants []Grant) []string {
	var out []string
	for _, g := range grants {
		out = append(out, string(g.Kind)+" "+g.Path+" "+g.From)
	}
	slices.Sort(out)
	return out
}

func TestNarrowGrants(t *testing.T) {
	const claude = "write /home/u/.claude preset:claude-code"
	other := []string{"/usr/bin/true"}
	tests := []struct {
		name string
		n    Narrowing
		want []string
	}{
		{"nothing", Narrowing{}, []string{"read /lore profile", "read /real flag", claude, "write /p profile"}},
		{"a root", Narrowing{Root: "/p/sub"}, []string{"read /lore profile", "read /p profile", "read /real flag", claude, "write /p/sub subagent"}},
		{"a root that is a grant", Narrowing{Root: "/p"}, []string{"read /lore profile", "read /real flag", claude, "write /p profile"}},
		{"a root to read", Narrowing{Root: "/lore/x"}, []string{"read /lore profile", "read /p profile", "read /real flag", claude}},
		{"a root in a system path", Narrowing{Root: "/usr/src", Write: []string{}}, []string{"read /lore profile", "read /p profile", "read /real flag", claude}},
		{"a place to write", Narrowing{Write: []string{"/p/docs"}}, []string{"read /lore profile", "read /p profile", "read /real flag", claude, "write /p/docs subagent"}},
		{"nothing to write", Narrowing{Write: []string{}}, []string{"read /lore profile", "read /p profile", "read /real flag", claude}},
		{"both", Narrowing{Read: []string{"/lore/a", "/p", "/usr/include"}, Write: []string{"/p/a"}}, []string{"read /lore/a subagent", "read /p subagent", claude, "write /p/a subagent"}},
		{"nothing at all", Narrowing{Read: []string{}, Write: []string{}}, []string{claude}},
		{"nothing at all, another program", Narrowing{Read: []string{}, Write: []string{}, Command: other}, nil},
		{"another program", Narrowing{Write: []string{}, Command: other},
			[]string{"read /home/u/.claude preset:claude-code", "read /lore profile", "read /p profile", "read /real flag"}},
		{"another job", Narrowing{Read: []string{}, Write: []string{}, Command: []string{"claude", "-p", "job"}}, []string{claude}},
		{"programs", Narrowing{Read: []string{}, Write: []string{}, SpawnDirs: []string{"/p/bin"}, Command: other}, []string{"spawn_dir /p/bin subagent"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			child, err := Narrow(parentRequest(), tt.n)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(child.Grants)); diff != "" {
				t.Error(diff)
			}
			for _, g := range slices.Concat(child.Grants, child.Unix) {
				if g.Fresh || g.Exists || g.Object != (Object{}) {
					t.Errorf("%s is fresh, or has what the host said of it", g.Path)
				}
			}
		})
	}
}

func TestNarrowRefuses(t *testing.T) {
	tests := []struct {
		name string
		n    Narrowing
		want error
		says []string // in the error
		hint string   // in the hint
	}{
		{"everything at once", Narrowing{Read: []string{"/lore", "/etc/shadow", "/z"}, Write: []string{"/lore/x"}, Hosts: []Host{host("evil.com")}, Env: []string{"EDITOR", "TOKEN"}}, bourn.ErrDenied,
			[]string{"read /etc/shadow: protected", "read /z: not granted", "write /lore/x: granted for reading only", "connect evil.com: not granted", "env TOKEN"}, "ask a person"},
		{"beside a grant", Narrowing{Write: []string{"/home/u/.claude.json"}}, bourn.ErrDenied, []string{"write /home/u/.claude.json: not granted"}, "write /home/u/.claude"},
		{"what is denied", Narrowing{Read: []string{"/p/.env"}}, bourn.ErrDenied, []string{"read /p/.env: denied by /p/.env"}, "leave it out"},
		{"what matches", Narrowing{Read: []string{"/p/a.pem"}}, bourn.ErrDenied, []string{"denied by /p/a.pem"}, ""},
		{"what is guarded", Narrowing{Write: []string{"/p/.git/hooks"}}, bourn.ErrDenied, []string{"protected: git runs or obeys it"}, ""},
		{"what would be guarded", Narrowing{Write: []string{"/p/sub/.git/hooks"}}, bourn.ErrDenied, []string{"protected: git runs or obeys it"}, ""},
		{"a hard block", Narrowing{Write: []string{"/p/vendor/x"}}, bourn.ErrDenied, []string{"write /p/vendor/x: closed by protect /p/vendor"}, ""},
		{"a protected place", Narrowing{Read: []string{"/p/proc/self"}}, bourn.ErrDenied, []string{"closed by protect /p/proc"}, ""},
		{"a grant without effect", Narrowing{Read: []string{"/later"}}, bourn.ErrDenied, []string{"read /later: not granted"}, ""},
		{"a system path to write", Narrowing{Write: []string{"/usr/lib/x"}}, bourn.ErrDenied, []string{"write /usr/lib/x"}, ""},
		{"the run's own", Narrowing{Write: []string{"/tmp/x"}, Read: []string{"/home/u/x"}}, bourn.ErrDenied, []string{"write /tmp/x: not granted", "read /home/u/x: not granted"}, ""},
		{"a root that is not readable", Narrowing{Root: "/z"}, bourn.ErrDenied, []string{"work in /z: not granted"}, ""},
		{"a root in a deny", Narrowing{Root: "/p/.env"}, bourn.ErrDenied, []string{"work in /p/.env: denied"}, ""},
		{"a denied host", Narrowing{Hosts: []Host{host("secret.example.org:443")}}, bourn.ErrDenied, []string{"connect secret.example.org:443: denied"}, ""},
		{"a host closed to the parent", Narrowing{Hosts: []Host{host("gone.example.com")}}, bourn.ErrDenied, []string{"connect gone.example.com"}, ""},
		{"another port", Narrowing{Hosts: []Host{host("a.example.org")}}, bourn.ErrDenied, []string{"connect a.example.org: not granted"}, "*.example.org:443"},
		{"the suffix itself", Narrowing{Hosts: []Host{host("example.org:443")}}, bourn.ErrDenied, []string{"connect example.org:443"}, ""},
		{"a wider suffix", Narrowing{Hosts: []Host{{Name: "org", Suffix: true, Port: 443}}}, bourn.ErrDenied, []string{"connect *.org:443"}, ""},
		{"an address of localhost", Narrowing{Hosts: []Host{host("127.0.0.1:5432")}}, bourn.ErrDenied, []string{"connect 127.0.0.1:5432"}, ""},
		{"the control plane", Narrowing{Hosts: []Host{host("localhost:7720")}}, bourn.ErrDenied, []string{"it is bourn's own control plane"}, ""},
		{"no host", Narrowing{Hosts: []Host{{}}}, bourn.ErrDenied, []string{"it is no host"}, ""},
		{"a socket", Narrowing{Unix: []string{"/s/other.sock"}}, bourn.ErrDenied, []string{"connect /s/other.sock: not granted"}, ""},
		{"a variable that is not set", Narrowing{Env: []string{"ABSENT"}}, bourn.ErrDenied, []string{"env ABSENT"}, ""},
		{"no path", Narrowing{Read: []string{"lib"}, Write: []string{"/p/../etc"}, Root: "/p/", Deny: []Deny{{Pattern: "x"}}}, bourn.ErrInvalid, []string{`"lib"`, `"/p/../etc"`, `"/p/"`, `"x"`}, ""},
		{"no tool", Narrowing{Tools: []string{"", "a*b"}}, bourn.ErrInvalid, []string{`"" is not`, `"a*b" is not`}, ""},
		{"no mode", Narrowing{Exec: "all"}, bourn.ErrInvalid, []string{`processes.mode "all"`}, ""},
		{"a limit below zero", Narrowing{Limits: Limits{Time: -1}}, bourn.ErrInvalid, []string{"a limit is negative"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			child, err := Narrow(parentRequest(), tt.n)
			if !errors.Is(err, tt.want) || child != nil {
				t.Fatalf("error %v, want %v and no child", err, tt.want)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if hint := bourn.HintOf(err); !strings.Contains(hint, tt.hint) || errors.Is(tt.want, bourn.ErrDenied) && hint == "" {
				t.Errorf("the hint is %q", hint)
			}
		})
	}
}

func TestNarrowNetwork(t *testing.T) {
	open := func(r *Request) { r.Network = NetworkOpen }
	none := func(r *Request) { r.Network = NetworkNone }
	private := func(r *Request) { r.Hosts[1].Private = true }
	other := []string{"true"}
	tests := []struct {
		name string
		set  func(*Request)
		n    Narrowing
		want string
	}{
		{"kept", nil, Narrowing{}, "restricted api.anthropic.com *.example.org:443 localhost:5432 gone.example.com"},
		{"named", nil, Narrowing{Hosts: []Host{host("a.example.org:443"), host("*.b.example.org:443")}}, "restricted api.anthropic.com a.example.org:443 *.b.example.org:443"},
		{"one that its preset has", nil, Narrowing{Hosts: []Host{host("api.anthropic.com")}}, "restricted api.anthropic.com"},
		{"one of two ports", nil, Narrowing{Hosts: []Host{host("api.anthropic.com:443")}, Command: other}, "restricted api.anthropic.com:443"},
		{"none", nil, Narrowing{Hosts: []Host{}}, "restricted api.anthropic.com"},
		{"none, another program", nil, Narrowing{Hosts: []Host{}, Command: other}, "none"},
		{"open", open, Narrowing{}, "open api.anthropic.com *.example.org:443 localhost:5432 gone.example.com"},
		{"open, named", open, Narrowing{Hosts: []Host{host("other.net")}}, "restricted api.anthropic.com other.net"},
		{"open, none", open, Narrowing{Hosts: []Host{}, Command: other}, "none"},
		{"no network", none, Narrowing{}, "none api.anthropic.com *.example.org:443 localhost:5432 gone.example.com"},
		{"of a private network", private, Narrowing{Hosts: []Host{host("a.example.org:443")}}, "restricted api.anthropic.com a.example.org:443 (private)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parent := parentRequest()
			if tt.set != nil {
				tt.set(parent)
			}
			child, err := Narrow(parent, tt.n)
			if err != nil {
				t.Fatal(err)
			}
			got := string(child.Network)
			for _, h := range child.Hosts {
				got += " " + h.String()
				if h.Private && h.From == FromSubagent {
					got += " (private)"
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if len(child.HostDenies) != 2 {
				t.Errorf("the child has the host denies %v", child.HostDenies)
			}
		})
	}
	parent := parentRequest()
	none(parent)
	if _, err := Narrow(parent, Narrowing{Hosts: []Host{host("api.anthropic.com")}}); !errors.Is(err, bourn.ErrDenied) {
		t.Errorf("a host without a network: %v", err)
	}
}

func TestNarrowRest(t *testing.T) {
	parent := parentRequest()
	parent.ToolsAmong = []string{"files_*", "git_status"}
	child, err := Narrow(parent, Narrowing{Root: "/p/sub", Env: []string{"EDITOR"}, Tools: []string{"files_read", "files_w*", "files_read"}, Exec: ExecAllowlist,
		Limits: Limits{Memory: 50, Processes: 20, OpenFiles: 5}, Unix: []string{"/s/agent.sock"},
		Deny: []Deny{{Pattern: "/p/sub/x", From: "boundary:mine"}, {Pattern: "/p/.env", Placeholder: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if child.Advisory || child.Cwd != "/p/sub" || child.CwdName != "" || child.Exec != ExecAllowlist {
		t.Errorf("advisory %v in %s (%s), mode %s", child.Advisory, child.Cwd, child.CwdName, child.Exec)
	}
	want := Limits{Memory: 50, Processes: 10, OpenFiles: 5, Time: time.Hour}
	if child.Limits != want {
		t.Errorf("limits %v, want %v", child.Limits, want)
	}
	plan := Compile(child)
	if diff := cmp.Diff([]string{"tool tools: among files_read, files_w* enforced", "tool shell_exec: ask enforced"}, fates(plan, KindTool)); diff != "" {
		t.Error(diff)
	}
	var env []string
	for _, v := range child.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	if diff := cmp.Diff([]string{"PATH=/usr/bin", "PWD=/p/sub", "API_KEY=k", "EDITOR=vi"}, env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"unix /s/agent.sock subagent"}, lines(child.Unix)); diff != "" {
		t.Error(diff)
	}
	var denies []string
	for _, d := range child.Denies {
		text := d.Pattern + " " + d.From
		if d.Placeholder {
			text += " placeholder"
		}
		denies = append(denies, text)
	}
	if diff := cmp.Diff([]string{"/p/.env profile placeholder", "/p/**/*.pem profile", "/p/a.pem profile", "/p/hard profile", "/p/proc default", "/p/sub/x subagent"}, denies); diff != "" {
		t.Error(diff)
	}
	for _, tools := range [][]string{{"files_*", "git_*"}, {"*"}, {"git_status*"}, {"shell_exec"}} {
		if _, err := Narrow(parent, Narrowing{Tools: tools}); !errors.Is(err, bourn.ErrDenied) {
			t.Errorf("the tools %v: %v", tools, err)
		}
	}
	if child, err = Narrow(parent, Narrowing{Tools: []string{}}); err != nil || child.ToolsAmong == nil || ToolAmong(child.ToolsAmong, "files_read") {
		t.Errorf("no tools: %v, %v", child, err)
	}
	parent.Exec = ExecNone
	if _, err := Narrow(parent, Narrowing{Exec: ExecAllowlist}); !errors.Is(err, bourn.ErrDenied) {
		t.Errorf("more may be executed: %v", err)
	}
	if _, err := Narrow(parent, Narrowing{SpawnDirs: []string{"/p/bin"}}); !errors.Is(err, bourn.ErrDenied) {
		t.Errorf("a spawn dir where nothing may be executed: %v", err)
	}
}

// What context offers stays an offer when it is named: it is not executed.
func TestNarrowContext(t *testing.T) {
	parent := request([]Grant{grant(KindRead, at("/lore")), {Kind: KindRead, From: FromContext, Place: at("/skills")}}, nil)
	child, err := Narrow(parent, Narrowing{Read: []string{"/skills/review", "/lore/a"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"read /lore/a subagent", "read /skills/review context"}, lines(child.Grants)); diff != "" {
		t.Error(diff)
	}
	if _, err := Narrow(parent, Narrowing{SpawnDirs: []string{"/skills/review"}}); !errors.Is(err, bourn.ErrDenied) {
		t.Errorf("an offer to execute: %v", err)
	}
}

// The child's request gives nothing until the host is asked, and shares nothing with the
// parent's.
func TestNarrowIsUnasked(t *testing.T) {
	parent := parentRequest()
	before := snapshot(t, parent)
	child, err := Narrow(parent, Narrowing{})
	if err != nil {
		t.Fatal(err)
	}
	for op, at := range map[Operation]string{OpRead: "/lore/x", OpWrite: "/p/x", OpExec: "/p/x"} {
		if a := Compile(child).Explain(op, at); a.Allowed == "allowed" {
			t.Errorf("%s %s is allowed before the host is asked", op, at)
		}
	}
	for what, n := range map[string]int{"system": len(child.System), "etc": len(child.Etc), "inner": len(child.Inner), "sockets": len(child.Sockets),
		"hollow": len(child.Hollow), "unsearched": len(child.Unsearched), "aliases of homes": len(child.HomeAliases)} {
		if n > 0 {
			t.Errorf("the child has %s before the host is asked", what)
		}
	}
	if g := child.Guarded; len(g) != 1 || g[0].Path != "/p/.git/hooks" || g[0].Object != (Object{}) || !g[0].Exists {
		t.Errorf("guarded are %v", g)
	}
	scribble(reflect.ValueOf(child))
	if after := snapshot(t, parent); after != before {
		t.Errorf("the parent has changed:\n%s", cmp.Diff(before, after))
	}
}

func snapshot(t interface{ Fatal(...any) }, r *Request) string {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// scribble overwrites everything that v leads to.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				scribble(v.Field(i))
			}
		}
	}
}

// What has no effect for the parent, or another one than it says, is not the child's.
func TestNarrowTakesWhatIsInEffect(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
		n      Narrowing
		want   []string
	}{
		{"a write grant that a hard block keeps from writing", func(r *Request) {
			r.Grants = []Grant{grant(KindWrite, at("/p/vendor"))}
		}, Narrowing{}, []string{"read /p/vendor profile"}},
		{"a spawn dir that is a toolchain", func(r *Request) {
			r.System = append(r.System, at("/p/bin"))
			r.Grants = []Grant{grant(KindWrite, at("/p")), grant(KindSpawnDir, at("/p/bin"))}
		}, Narrowing{Exec: ExecAllowlist}, []string{"write /p profile"}},
		{"a spawn dir named in a toolchain", func(r *Request) {
			r.System, r.Exec = append(r.System, at("/p/bin")), ExecAllowlist
		}, Narrowing{SpawnDirs: []string{"/p/bin"}, Read: []string{}, Write: []string{"/p"}}, []string{"write /home/u/.claude preset:claude-code", "write /p subagent"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parent := parentRequest()
			tt.change(parent)
			child, err := Narrow(parent, tt.n)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(child.Grants)); diff != "" {
				t.Error(diff)
			}
		})
	}
	parent := parentRequest()
	parent.Exec, parent.System = ExecAllowlist, append(parent.System, at("/p"))
	parent.Grants = []Grant{grant(KindWrite, at("/p/out"))}
	child, err := Narrow(parent, Narrowing{Write: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(child.Denies, func(d Deny) bool { return d.Pattern == "/p/out" && d.From == FromSubagent }) {
		t.Error("what the parent can put into a toolchain and not execute is the child's to execute")
	}
}

// TestNarrowNamesSome: however much is wrong, what is said of it is short.
func TestNarrowNamesSome(t *testing.T) {
	n := Narrowing{}
	for i := range 1000 {
		n.Read = append(n.Read, fmt.Sprintf("/nowhere/%d", i))
	}
	_, err := Narrow(parentRequest(), n)
	if !errors.Is(err, bourn.ErrDenied) || !strings.Contains(err.Error(), "read /nowhere/19: ") || strings.Contains(err.Error(), "/nowhere/20:") || !strings.HasSuffix(err.Error(), "; and 980 more") {
		t.Errorf("%.3000v", err)
	}
}
