package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"bourn"

	"pgregory.net/rapid"
)

var (
	modelHosts   = []string{"a.com", "*.a.com", "x.a.com", "*.x.a.com", "y.x.a.com:443", "*.a.com:8443", "b.org", "b.org:22", "localhost:5432", "127.0.0.1:5432", "10.0.0.1:22", "localhost:7720"}
	modelTargets = []string{"a.com", "x.a.com", "x.a.com:8443", "y.x.a.com", "y.x.a.com:80", "z.y.x.a.com:80", "b.org:22", "b.org:80", "localhost:5432", "127.0.0.1:5432", "10.0.0.1:22", "c.net", "localhost:7720"}
	modelTools   = []string{"*", "files_*", "files_read", "files_w*", "git_*", "git_status", "shell_exec"}
	modelEnv     = []string{"PATH", "EDITOR", "TOKEN", "ABSENT"}
	modelExec    = []ExecMode{"", ExecAny, ExecAllowlist, ExecNone}
	modelFrom    = []string{"profile", "flag", "context", "preset:claude-code"}
)

// drawParent draws what a person asks for, of which the host was asked.
func drawParent(t *rapid.T, m *model) *Request {
	from := rapid.SampledFrom(modelFrom)
	some := func(what string, most int, f func()) {
		for range rapid.IntRange(0, most).Draw(t, what) {
			f()
		}
	}
	r := &Request{Agent: "a", Command: []string{"claude"}, Cwd: "/p", Home: "/home/u", BournDir: "/home/u/.bourn", Program: "/usr/bin/bourn",
		Network: rapid.SampledFrom([]NetworkMode{"", NetworkRestricted, NetworkRestricted, NetworkOpen}).Draw(t, "network"),
		Exec:    rapid.SampledFrom(modelExec).Draw(t, "exec"), Limits: drawLimits(t), Direct: rapid.Bool().Draw(t, "direct"), Advisory: true,
		AgentHome: rapid.SampledFrom([]string{"", "/home/u/.bourn/agents/a/home"}).Draw(t, "agent's home")}
	add := func(kind Kind, at string) {
		g := Grant{Kind: kind, From: from.Draw(t, "from"), Fresh: rapid.Bool().Draw(t, "fresh"), Place: Place{Path: at}}
		if kind != KindRead && g.From == FromContext {
			g.From = "default"
		}
		r.Grants = append(r.Grants, g)
	}
	for _, root := range modelRoots {
		if kind := rapid.SampledFrom([]Kind{KindRead, KindWrite, KindWrite, ""}).Draw(t, "root"); kind != "" {
			add(kind, root)
		}
	}
	some("grants", 3, func() {
		add(rapid.SampledFrom([]Kind{KindRead, KindWrite, KindSpawnDir}).Draw(t, "kind"), m.draw(t, "granted"))
	})
	sockets := slices.DeleteFunc(m.paths(), func(p string) bool { return !m.nodes[p].socket })
	some("sockets", 2, func() {
		at := rapid.SampledFrom(append(sockets, "/q")).Draw(t, "socket")
		r.Unix = append(r.Unix, Grant{Kind: KindUnix, From: from.Draw(t, "from"), Place: Place{Path: at}})
	})
	some("denies", 3, func() { r.Denies = append(r.Denies, drawDeny(t, m)) })
	some("blocks", 1, func() {
		at := m.draw(t, "block")
		r.Blocks = append(r.Blocks, Block{From: "boundary:b", Operations: []bourn.Operation{bourn.Write}, Target: at, Tree: m.nodes[at].dir})
	})
	some("hosts", 4, func() {
		r.Hosts = append(r.Hosts, HostWish{Host: drawHost(t), From: from.Draw(t, "from"), Private: rapid.Bool().Draw(t, "private")})
	})
	some("host denies", 2, func() { r.HostDenies = append(r.HostDenies, HostWish{Host: drawHost(t), From: "profile"}) })
	for _, name := range modelEnv {
		v := EnvVar{Name: name, Value: "v", From: from.Draw(t, "from"), Missing: name == "ABSENT"}
		if name == "PATH" {
			v.From = ""
		}
		r.Env = append(r.Env, v)
	}
	if rapid.Bool().Draw(t, "tools") {
		r.ToolsAmong = drawTools(t)
	}
	r.Records = rapid.SampledFrom(recordsOrder).Draw(t, "records")
	m.gather(r)
	return r
}

func drawHost(t *rapid.T) Host { return host(rapid.SampledFrom(modelHosts).Draw(t, "host")) }

func drawTools(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.SampledFrom(modelTools), 0, 3).Draw(t, "tools")
}

func drawLimits(t *rapid.T) Limits {
	n := rapid.IntRange(0, 3)
	return Limits{Memory: int64(n.Draw(t, "memory")), Processes: n.Draw(t, "processes"), OpenFiles: n.Draw(t, "files"), Time: time.Duration(n.Draw(t, "time"))}
}

func drawDeny(t *rapid.T, m *model) Deny {
	d := Deny{Pattern: m.draw(t, "denied"), From: "profile", Style: rapid.SampledFrom([]Style{StyleNone, StyleEmpty}).Draw(t, "style")}
	if d.Glob = rapid.Bool().Draw(t, "glob"); d.Glob {
		d.Pattern += "/**/" + rapid.SampledFrom(modelNames).Draw(t, "pattern")
	}
	return d
}

// drawNarrowing draws what is asked for of a parent, for the most part of what it has.
func drawNarrowing(t *rapid.T, m *model, parent *Request) Narrowing {
	kind := rapid.SampledFrom([]string{"nil", "nil", "some", "some", "empty"})
	var held []string
	for _, g := range parent.Grants {
		for _, p := range m.paths() {
			if under(p, g.Real) {
				held = append(held, p)
			}
		}
	}
	at := func() string {
		if len(held) == 0 || rapid.IntRange(0, 9).Draw(t, "anywhere") == 0 {
			return m.draw(t, "path")
		}
		return rapid.SampledFrom(held).Draw(t, "held")
	}
	n := Narrowing{Limits: drawLimits(t)}
	if rapid.IntRange(0, 2).Draw(t, "root") == 0 {
		n.Root = at()
	}
	n.Read, n.Write = list(t, kind, at), list(t, kind, at)
	if rapid.IntRange(0, 2).Draw(t, "spawn dirs") == 0 {
		n.SpawnDirs = list(t, kind, at)
	}
	n.Hosts = list(t, kind, func() Host {
		if len(parent.Hosts) > 0 && rapid.Bool().Draw(t, "of the parent's") {
			return rapid.SampledFrom(parent.Hosts).Draw(t, "host").Host
		}
		return drawHost(t)
	})
	if len(parent.Unix) > 0 {
		n.Unix = list(t, kind, func() string { return rapid.SampledFrom(parent.Unix).Draw(t, "socket").Real })
	}
	n.Env = list(t, kind, func() string { return rapid.SampledFrom(modelEnv).Draw(t, "variable") })
	if rapid.Bool().Draw(t, "tools") {
		n.Tools = drawTools(t)
	}
	n.Deny = list(t, kind, func() Deny { return drawDeny(t, m) })
	n.Exec = rapid.SampledFrom(modelExec).Draw(t, "exec")
	n.Records = rapid.SampledFrom([]string{"", "", NoRecords, "read", "write"}).Draw(t, "records")
	if rapid.Bool().Draw(t, "another program") {
		n.Command = []string{"true"}
	}
	return n
}

func list[T any](t *rapid.T, kind *rapid.Generator[string], one func() T) []T {
	switch kind.Draw(t, "list") {
	case "empty":
		return []T{}
	case "some":
		return []T{one()}
	}
	return nil
}

// admit narrows a parent by what of a narrowing it takes: each list is asked for by itself.
func admit(t *rapid.T, parent *Request, n Narrowing) (*Request, Narrowing) {
	kept := Narrowing{Limits: n.Limits, Deny: n.Deny, Command: n.Command}
	for _, take := range []func(*Narrowing){
		func(o *Narrowing) { o.Root = n.Root }, func(o *Narrowing) { o.Read = n.Read }, func(o *Narrowing) { o.Write = n.Write },
		func(o *Narrowing) { o.SpawnDirs = n.SpawnDirs }, func(o *Narrowing) { o.Hosts = n.Hosts }, func(o *Narrowing) { o.Unix = n.Unix },
		func(o *Narrowing) { o.Env = n.Env }, func(o *Narrowing) { o.Tools = n.Tools }, func(o *Narrowing) { o.Exec = n.Exec }, func(o *Narrowing) { o.Records = n.Records },
	} {
		var one Narrowing
		take(&one)
		child, err := Narrow(parent, one)
		switch {
		case err == nil:
			take(&kept)
		case !errors.Is(err, bourn.ErrDenied) || bourn.HintOf(err) == "" || child != nil:
			t.Fatalf("the error is %v, with the hint %q", err, bourn.HintOf(err))
		}
	}
	child, err := Narrow(parent, kept)
	if err != nil && strings.Contains(err.Error(), "could be moved there") {
		kept.Root, kept.Read, kept.Write, kept.SpawnDirs = "", nil, nil, nil // each alone leaves the parent's mounts
		child, err = Narrow(parent, kept)
	}
	if err != nil {
		t.Fatalf("one by one it is given, and together: %v", err)
	}
	return child, kept
}

// TestNarrowNeverWidens: whatever a subagent, and a subagent of it, may do its parent may.
func TestNarrowNeverWidens(t *testing.T) {
	named := map[string]int{} // of what was given by name, how often
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		first := drawParent(t, m)
		for range 3 {
			for depth, parent := 0, first; depth < 3; depth++ {
				before := snapshot(t, parent)
				child, n := admit(t, parent, drawNarrowing(t, m, parent))
				sure(t, m, "before the host is asked", parent, child)
				m.change(t)
				m.gather(child)
				if snapshot(t, parent) != before {
					t.Fatalf("the parent has changed")
				}
				sure(t, m, fmt.Sprintf("by %+v", n), parent, child)
				for what, given := range map[string]bool{"read": len(n.Read) > 0, "write": len(n.Write) > 0, "spawn dirs": len(n.SpawnDirs) > 0, "root": n.Root != "",
					"hosts": len(n.Hosts) > 0, "unix": len(n.Unix) > 0, "env": len(n.Env) > 0, "tools": len(n.Tools) > 0, "exec": n.Exec != "", "records": n.Records == "read" || n.Records == "write"} {
					if given {
						named[what]++
					}
				}
				parent = child
			}
		}
	})
	t.Log("given by name:", named)
	for _, what := range []string{"read", "write", "spawn dirs", "root", "hosts", "unix", "env", "tools", "exec", "records"} {
		if named[what] == 0 {
			t.Errorf("no %s was ever given by name: nothing is known of it", what)
		}
	}
}

// own reports whether what an answer is about is a place of the run's own, in which nothing
// of the host's stands.
func own(a Answer) bool {
	return a.Item != nil && strings.HasSuffix(a.Item.Target, ": the run's own, nothing of the host's")
}

// sure fails if a child may do anything that its parent may not.
func sure(t *rapid.T, m *model, when string, parent, child *Request) {
	has, gets := Compile(parent), Compile(child)
	probe := func(op Operation, target string) {
		got := gets.Explain(op, target)
		if got.Allowed == "allowed" && !own(got) && has.Explain(op, target).Allowed != "allowed" {
			t.Fatalf("%s: the child may %s %s by %+v, the parent may not by %+v", when, op, target, got.Item, has.Explain(op, target).Item)
		}
	}
	probes := append(m.paths(), "/etc/passwd", "/etc/shadow", "/usr/bin/other", "/", "/home/u", "/home/u/x", "/home/u/.bourn/x", "/tmp/x", "/elsewhere")
	for _, at := range probes {
		for _, p := range []string{at, path.Join(at, "new")} {
			for _, op := range []Operation{OpRead, OpWrite, OpExec, OpConnect} {
				if op != OpExec || !m.nodes[at].socket { // nobody executes a socket
					probe(op, p)
				}
			}
		}
	}
	for _, target := range modelTargets {
		probe(OpConnect, target)
		judgeAddresses(t, when, target, has, gets)
	}
	for _, name := range []string{"files_read", "files_write", "git_status", "shell_exec", "other"} {
		if ToolAmong(child.ToolsAmong, name) && !ToolAmong(parent.ToolsAmong, name) {
			t.Fatalf("%s: the child has the tool %s", when, name)
		}
	}
	if !parent.Records.Holds(child.Records) {
		t.Fatalf("%s: the child has the records to %s, the parent to %s", when, child.Records, orNone(parent.Records))
	}
	sureItems(t, when, has, gets)
	limit := func(a, b int64) {
		if a != 0 && (b == 0 || b > a) {
			t.Fatalf("%s: limits %+v of %+v", when, child.Limits, parent.Limits)
		}
	}
	limit(parent.Limits.Memory, child.Limits.Memory)
	limit(int64(parent.Limits.Processes), int64(child.Limits.Processes))
	limit(int64(parent.Limits.OpenFiles), int64(child.Limits.OpenFiles))
	limit(int64(parent.Limits.Time), int64(child.Limits.Time))
	if child.Advisory || slices.Index(execOrder, gets.Exec) < slices.Index(execOrder, has.Exec) {
		t.Fatalf("%s: advisory %v, mode %s of %s", when, child.Advisory, gets.Exec, has.Exec)
	}
}

// judgeAddresses asks where a name may lead, as the egress does.
func judgeAddresses(t *rapid.T, when, target string, has, gets *Plan) {
	h := host(target)
	to := Target{Name: h.Name, Addr: h.Addr, Port: cmp.Or(h.Port, 443)}
	for _, text := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "93.184.216.34"} {
		addr := host(text).Addr
		if gets.Network.Mode == NetworkRestricted && gets.Network.JudgeAddress(to, addr).Allowed &&
			has.Network.Mode != NetworkOpen && !has.Network.JudgeAddress(to, addr).Allowed {
			t.Fatalf("%s: %s may lead the child to %s", when, target, addr)
		}
	}
}

// sureItems compares what the two plans list.
func sureItems(t *rapid.T, when string, has, gets *Plan) {
	in := func(p *Plan, it Item) bool {
		return slices.ContainsFunc(p.Items, func(o Item) bool { return o.Kind == it.Kind && o.Target == it.Target && o.From == it.From })
	}
	// What a block masks is a deny of the child's.
	masked := func(it Item) bool { it.Kind = KindDeny; return in(gets, it) }
	for _, it := range has.Items {
		if (it.Kind == KindDeny || it.Blocks()) && !in(gets, it) && !masked(it) {
			t.Fatalf("%s: the child has not %s %s by %s", when, it.Kind, it.Target, it.From)
		}
	}
	for _, it := range gets.Items {
		op, files := operationOf[it.Kind]
		if it.Kind == KindUnix || it.Kind == KindHost && has.Network.Mode != NetworkOpen && !strings.HasPrefix(it.Target, "*") {
			op, files = OpConnect, true
		}
		if files && it.Fate == Enforced && has.Explain(op, it.Target).Allowed != "allowed" && gets.Explain(op, it.Target).Allowed == "allowed" {
			t.Fatalf("%s: the parent's plan does not cover %+v", when, it)
		}
	}
	for _, v := range gets.Env {
		proxy := slices.ContainsFunc(proxyVariables, func(p EnvVar) bool { return v == p.Name+"="+p.Value })
		if !slices.Contains(has.Env, v) && !proxy {
			t.Fatalf("%s: the child has the variable %s", when, v)
		}
	}
}
