package policy

import (
	"fmt"
	"strings"
	"testing"

	"bourn"

	"github.com/google/go-cmp/cmp"
)

// at is a place that exists, a directory unless its name has a dot in it.
func at(p string) Place {
	return Place{Path: p, Real: p, Exists: true, Dir: !strings.Contains(p[strings.LastIndexByte(p, '/'):], "."), Object: Object{Dev: 1, Ino: uint64(len(p))}}
}

// gone is a place that does not exist.
func gone(p string) Place { return Place{Path: p, Real: p, Ancestor: "/p"} }

func grant(kind Kind, p Place) Grant { return Grant{Kind: kind, From: "profile", Place: p} }
func deny(p Place) Deny              { return Deny{Pattern: p.Path, From: "profile", Place: p} }

// request returns a request with the usual surroundings.
func request(grants []Grant, denies []Deny) *Request {
	return &Request{
		Cwd: "/p", Home: "/home/u", Homes: []string{"/home/u", "/root"}, BournDir: "/home/u/.bourn", Program: "/usr/bin/bourn",
		System: []Place{at("/usr"), {Path: "/bin", Real: "/usr/bin", Exists: true, Dir: true, Symlink: true, Links: []Link{{"/bin", "usr/bin"}}}},
		Etc:    []Place{{Path: "/etc/passwd", Real: "/etc/passwd", Exists: true}},
		Grants: grants, Denies: denies,
	}
}

// fates prints the items of some kinds, a line each.
func fates(p *Plan, kinds ...Kind) []string {
	var out []string
	for _, it := range p.Items {
		for _, k := range kinds {
			if it.Kind == k {
				out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", it.Kind, it.Target, it.Fate, it.Reason)))
			}
		}
	}
	return out
}

func TestGrantFates(t *testing.T) {
	elsewhere := Place{Path: "/p/link", Real: "/q", Exists: true, Dir: true, Links: []Link{{"/p/link", "/q"}}}
	tests := []struct {
		name  string
		grant Grant
		want  string
	}{
		{"a directory", grant(KindWrite, at("/p")), "write /p enforced"},
		{"missing", grant(KindRead, gone("/p/x")), "read /p/x dropped path does not exist on disk"},
		{"resolves elsewhere", grant(KindRead, elsewhere), "read /p/link dropped now resolves to /q"},
		{"given for this run, through a link", Grant{Kind: KindRead, From: "flag", Fresh: true, Place: elsewhere}, "read /q enforced"},
		{"a link inside a write grant", Grant{Kind: KindRead, From: "flag", Fresh: true, Foul: "/p/link", Place: elsewhere},
			"read /p/link dropped /p/link is a symlink inside a write grant, and those are never followed"},
		{"a home", grant(KindRead, at("/home/u")), "read /home/u dropped too broad: it covers the home directory /home/u"},
		{"the parent of homes", grant(KindRead, at("/home")), "read /home dropped too broad: grant a directory below it"},
		{"bourn's own", grant(KindRead, at("/home/u/.bourn/secrets")), "read /home/u/.bourn/secrets dropped protected: it holds the keys and profiles of agents"},
		{"a socket directory", grant(KindRead, at("/run/user")), "read /run/user dropped protected: it holds the sockets of the host's services; name single sockets in network.unix"},
		{"a start-up file, to write", grant(KindWrite, at("/home/u/.bashrc")), "write /home/u/.bashrc dropped protected: it runs when a shell starts"},
		{"a start-up file, to read", grant(KindRead, at("/home/u/.bashrc")), "read /home/u/.bashrc enforced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Compile(request([]Grant{tt.grant}, nil))
			if diff := cmp.Diff([]string{tt.want}, fates(p, KindRead, KindWrite)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDenyFates(t *testing.T) {
	write := []Grant{grant(KindWrite, at("/p"))}
	pattern := Deny{Pattern: "/p/**/*.pem", From: "flag", Glob: true, Place: gone("/p/**/*.pem"),
		Matches: []Place{at("/p/a.pem"), at("/p/d/b.pem")}, Dirs: []string{"/p", "/p/d"}}
	tests := []struct {
		name   string
		grants []Grant
		deny   Deny
		want   []string
		masks  []string
	}{
		{"inside a grant", write, deny(at("/p/.env")), []string{"deny /p/.env enforced"}, []string{"/p/.env"}},
		{"missing inside a grant", write, deny(gone("/p/.env")), []string{"deny /p/.env dropped does not exist yet: watched, not prevented"}, nil},
		{"outside every grant", write, deny(at("/q/.env")), []string{"deny /q/.env enforced"}, nil},
		{"missing in a private place", write, deny(gone("/tmp/x")), []string{"deny /tmp/x enforced"}, []string{"/tmp/x"}},
		{"in a system path", write, deny(at("/usr/bin/x.sh")), []string{"deny /usr/bin/x.sh enforced"}, []string{"/usr/bin/x.sh"}},
		{"a copied file", write, deny(at("/etc/passwd")), []string{"deny /etc/passwd enforced"}, nil},
		{"the run's own /proc", write, deny(at("/proc/cpuinfo")), []string{"deny /proc/cpuinfo dropped every run has a /proc of its own, and nothing in it can be denied"}, nil},
		{"everything", write, deny(at("/")), []string{"deny / dropped too broad: nothing could run"}, nil},
		{"a pattern", write, pattern, []string{"deny /p/a.pem enforced", "deny /p/d/b.pem enforced",
			"deny /p/**/*.pem dropped what matches later is watched, not prevented"}, []string{"/p/a.pem", "/p/d/b.pem"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Compile(request(tt.grants, []Deny{tt.deny}))
			if diff := cmp.Diff(tt.want, fates(p, KindDeny)); diff != "" {
				t.Error(diff)
			}
			var masks []string
			for _, m := range p.Masks {
				masks = append(masks, m.Path)
			}
			if diff := cmp.Diff(tt.masks, masks); diff != "" {
				t.Error(diff)
			}
			for _, c := range p.Copies {
				if Under(c, tt.deny.Place.Path) && !strings.Contains(tt.want[0], "dropped") {
					t.Errorf("%s is denied and copied", c)
				}
			}
		})
	}
}

func TestDenyWinsOverGrantsBelow(t *testing.T) {
	p := Compile(request(
		[]Grant{grant(KindWrite, at("/p")), grant(KindWrite, at("/p/secret/in"))}, []Deny{deny(at("/p/secret"))}))
	want := []string{"write /p enforced", "write /p/secret/in dropped denied by /p/secret"}
	if diff := cmp.Diff(want, fates(p, KindWrite)); diff != "" {
		t.Error(diff)
	}
	if a := p.Explain(OpRead, "/p/secret/in/x"); a.Allowed != "denied" {
		t.Errorf("below the deny: %+v", a)
	}
}

// A directory that keeps its name in one that is read-only as a whole would be writable.
func TestPinsInGuards(t *testing.T) {
	req := request([]Grant{grant(KindWrite, at("/p"))}, nil)
	req.Guarded = []Guarded{
		{Place: at("/p/.git/modules"), Pins: []string{"/p/.git"}},
		{Place: at("/p/.git/modules/m/hooks"), Pins: []string{"/p/.git", "/p/.git/modules", "/p/.git/modules/m"}, Quiet: true},
		{Place: at("/p/.git/modules-old/hooks"), Pins: []string{"/p/.git/modules-old"}},
	}
	p := Compile(req)
	var got []string
	for _, g := range p.Guards {
		got = append(got, fmt.Sprint(g.Path, g.Pin))
	}
	want := []string{"/p/.gittrue", "/p/.git/modulesfalse", "/p/.git/modules-oldtrue", "/p/.git/modules-old/hooksfalse", "/p/.git/modules/m/hooksfalse"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(p.Late) != 2 {
		t.Errorf("the end of the run looks at %v", p.Late)
	}
}

func TestExplain(t *testing.T) {
	req := request([]Grant{grant(KindWrite, at("/p")), grant(KindRead, at("/r"))}, []Deny{deny(at("/p/.env"))})
	req.Guarded = []Guarded{{Place: at("/p/.git/hooks"), Pins: []string{"/p/.git"}, Reason: "git runs it"}}
	p := Compile(req)
	tests := []struct {
		op    Operation
		at    string
		want  string
		kind  Kind
		names string
	}{
		{OpRead, "/p/src/x", "allowed", KindWrite, "/p"},
		{OpWrite, "/p/src/x", "allowed", KindWrite, "/p"},
		{OpExec, "/p/a.out", "allowed", KindWrite, "/p"},
		{OpRead, "/r/x", "allowed", KindRead, "/r"},
		{OpWrite, "/r/x", "denied", KindRead, "/r"},
		{OpRead, "/p/.env", "denied", KindDeny, "/p/.env"},
		{OpWrite, "/p/.git/hooks/post-commit", "denied", KindProtect, "/p/.git/hooks"},
		{OpRead, "/p/.git/hooks/post-commit", "allowed", KindWrite, "/p"},
		{OpWrite, "/p/.git/index", "allowed", KindWrite, "/p"},
		{OpRead, "/home/u/.bourn/identity.key", "denied", KindProtect, "/home/u/.bourn"},
		{OpRead, "/etc/shadow", "denied", KindDefault, "files: everything else is absent"},
		{OpRead, "/etc/passwd", "allowed", KindDefault, "system paths and toolchains: read and execute"},
		{OpExec, "/usr/bin/env", "allowed", KindDefault, "system paths and toolchains: read and execute"},
		{OpWrite, "/usr/bin/env", "denied", KindDefault, "system paths and toolchains: read and execute"},
		{OpRead, "/pp/x", "denied", KindDefault, "files: everything else is absent"},
		{OpConnect, "example.com:443", "denied", KindDefault, "network: everything is refused but the run's own loopback"},
	}
	for _, tt := range tests {
		t.Run(string(tt.op)+" "+tt.at, func(t *testing.T) {
			a := p.Explain(tt.op, tt.at)
			if a.Allowed != tt.want || a.Item == nil || a.Item.Kind != tt.kind || a.Item.Target != tt.names {
				t.Errorf("%+v, decided by %+v", a, a.Item)
			}
		})
	}
}

// Binds must be attached parents first, and a read grant inside a write grant must not
// take writing away.
func TestBindOrder(t *testing.T) {
	p := Compile(request([]Grant{grant(KindRead, at("/p/in")), grant(KindWrite, at("/p/in/deep")), grant(KindWrite, at("/w")), grant(KindRead, at("/w/r"))}, nil))
	var got []string
	for _, b := range p.Binds {
		got = append(got, fmt.Sprintf("%s %t", b.Path, b.Write))
	}
	want := []string{"/p/in false", "/p/in/deep true", "/usr false", "/w true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGeneration(t *testing.T) {
	sandbox := Sandbox{State: StateEnforcing, Backend: Backend}
	base := Compile(request([]Grant{grant(KindWrite, at("/p"))}, []Deny{deny(at("/p/.env"))}))
	more := Compile(request([]Grant{grant(KindWrite, at("/p")), grant(KindRead, at("/r"))}, []Deny{deny(at("/p/.env"))}))
	other := Compile(request([]Grant{grant(KindWrite, at("/p"))}, []Deny{deny(at("/p/.env")), deny(at("/p/x.pem"))}))
	g := Generation(sandbox, base.Items)
	if Generation(sandbox, more.Items) != g {
		t.Error("an added grant changed the generation")
	}
	if Generation(sandbox, other.Items) == g {
		t.Error("an added deny did not change the generation")
	}
	if Generation(Sandbox{State: StateAdvisory}, base.Items) == g {
		t.Error("another state did not change the generation")
	}
}

func TestProcessLimitOfRoot(t *testing.T) {
	req := request(nil, nil)
	req.Limits.Processes = 10
	for root, want := range map[bool]Fate{false: Enforced, true: Dropped} {
		req.Root = root
		for _, it := range Compile(req).Items {
			if it.Kind == KindLimit && it.Fate != want {
				t.Errorf("root %t: %+v", root, it)
			}
		}
	}
}

// A toolchain that stands in a write grant is read-only, and a spawn dir makes it no more.
func TestSpawnDirOfToolchain(t *testing.T) {
	req := request([]Grant{grant(KindWrite, at("/p")), grant(KindSpawnDir, at("/p/venv/bin"))}, nil)
	req.System = append(req.System, at("/p/venv"))
	req.Exec = ExecAllowlist
	p := Compile(req)
	if a := p.Explain(OpWrite, "/p/venv/bin/tool"); a.Allowed == "allowed" {
		t.Errorf("it can be written: %+v", a)
	}
	if a := p.Explain(OpExec, "/p/venv/bin/tool"); a.Allowed != "allowed" {
		t.Errorf("it cannot be executed: %+v", a)
	}
	if a := p.Explain(OpWrite, "/p/out"); a.Allowed != "allowed" {
		t.Errorf("the grant cannot be written: %+v", a)
	}
}

// A socket or fifo that a hard block closes is closed where it is only shown for reading, too.
func TestBlockOfSpecialIsClosed(t *testing.T) {
	socket := at("/p/run.sock")
	socket.Special, socket.Socket = true, true
	for _, kind := range []Kind{KindRead, KindWrite} {
		req := request([]Grant{grant(kind, at("/p"))}, nil)
		req.Blocks = []Block{{Target: socket.Path, From: BlockPrefix + "x", Operations: []bourn.Operation{bourn.Write}, Place: socket}}
		p := Compile(req)
		if len(p.Masks) != 1 || p.Masks[0].Path != socket.Path {
			t.Errorf("%s: it is not closed: %+v", kind, p.Masks)
		}
	}
}
