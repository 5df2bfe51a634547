package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"

	"github.com/google/go-cmp/cmp"
)

// proposalHome makes a home and a repository work with files, and returns both.
func proposalHome(t *testing.T, files map[string]string) (*Home, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "repo")
	for _, at := range []string{filepath.Join(dir, "home/.bourn"), filepath.Join(work, ".git")} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(t, filepath.Join(work, name), text)
	}
	return &Home{Dir: filepath.Join(dir, "home/.bourn"), Person: filepath.Join(dir, "home"), Program: "/usr/bin/true",
		Environ: []string{"PATH=/usr/bin", "TOKEN=1"}}, work
}

func write(t *testing.T, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// proposedItems prepares a run and returns its items that stem from proposals, and the line.
func proposedItems(t *testing.T, h *Home, o Options) ([]string, string) {
	t.Helper()
	if o.Agent == "" {
		o.Command = []string{"true"}
	}
	p, err := h.Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range p.Plan.Items {
		if it.From == fromRepository {
			out = append(out, string(it.Kind)+" "+strings.ReplaceAll(it.Target, filepath.Dir(h.Person), "")+" "+string(it.Fate))
		}
	}
	slices.Sort(out)
	return out, p.ProposalLine()
}

func accept(t *testing.T, h *Home, dir string) {
	t.Helper()
	q, err := h.FindProposal(dir)
	if err == nil {
		err = h.Accept(q)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const proposing = `version: 1
filesystem: {read: [~/lib], write: [out], deny: [.env, ~/lib/secret]}
network: {mode: restricted, hosts: [api.example.com], deny: [bad.example.org]}
env: {pass: [TOKEN]}
`

var (
	proposingTightens = []string{"deny /repo/.env enforced", "deny connect bad.example.org enforced"}
	proposingGrants   = []string{"deny /home/lib/secret enforced", "deny /repo/.env enforced", "deny connect bad.example.org enforced",
		"env TOKEN enforced", "host api.example.com enforced", "read /home/lib enforced", "write /repo/out enforced"}
)

func same(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestProposalStates goes through what can become of a proposal.
func TestProposalStates(t *testing.T) {
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": proposing, ".env": "x", "out/a": "", "sub/a": "", "../home/lib/secret": "x"})
	at := filepath.Join(work, ".bourn/profile.yaml")
	step := func(what string, o Options, want []string, line string) {
		t.Helper()
		got, said := proposedItems(t, h, o)
		same(t, what, want, got)
		if !strings.Contains(said, line) || line == "" && said != "" {
			t.Errorf("%s: it says %q, want %q", what, said, line)
		}
	}
	here, below := Options{Cwd: work}, Options{Cwd: filepath.Join(work, "sub")}
	step("never accepted", here, proposingTightens, "profile.yaml is not accepted and grants nothing: it asks for 1 path to read, 1 path to write, 1 host, 1 variable, 1 deny outside it (bourn accept")
	accept(t, h, below.Cwd)
	step("accepted", here, proposingGrants, "is applied, as you accepted it")
	step("accepted, from below", below, proposingGrants, "is applied, as you accepted it")
	step("left out", Options{Cwd: work, Proposal: NoProposal}, nil, "")

	write(t, at, proposing+"#")
	step("one byte more", here, proposingTightens, "has changed since you accepted it and grants nothing")
	write(t, at, "version: 1\n")
	step("another text", here, proposingTightens, "it asks for nothing")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	step("gone", here, proposingTightens, "was accepted and is gone")
	write(t, at, proposing)
	step("as it was", here, proposingGrants, "is applied, as you accepted it")

	// The same text in another directory of this name.
	if err := errors.Join(os.Rename(work, work+"2"), os.MkdirAll(filepath.Join(work, ".git"), 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, at, proposing)
	write(t, filepath.Join(work, ".env"), "x")
	step("another directory", here, proposingTightens, "was accepted in another directory of this name")
	got, _ := proposedItems(t, h, Options{Cwd: work + "2"})
	same(t, "renamed", []string{"deny /repo2/.env enforced", "deny connect bad.example.org enforced"}, got)

	root, err := h.Forget(below.Cwd)
	if err != nil || root != work {
		t.Errorf("forgot %q, %v", root, err)
	}
	step("forgotten", here, proposingTightens, "is not accepted")
	if _, err := h.Forget(work); !errors.Is(err, bourn.ErrNotFound) {
		t.Errorf("forgotten twice: %v", err)
	}
}

// An agent's grants are its profile's. What repositories take away holds for it.
func TestProposalAndAgent(t *testing.T) {
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": proposing, ".env": "x", "out/a": "", "src/a": ""})
	write(t, filepath.Join(h.agent("builder"), "profile.yaml"), "version: 1\nagent: builder\ncommand: [\"true\"]\nfilesystem: {write: ["+filepath.Join(work, "src")+"]}\n")
	accept(t, h, work)
	got, line := proposedItems(t, h, Options{Agent: "builder", Cwd: h.Person})
	same(t, "accepted", proposingTightens, got)
	if line != "" {
		t.Errorf("it says %q", line)
	}
	if _, err := h.Forget(work); err != nil {
		t.Fatal(err)
	}
	got, _ = proposedItems(t, h, Options{Agent: "builder", Cwd: h.Person})
	same(t, "not accepted", proposingTightens, got)
}

// Of a proposal only what lies in the repository holds before it is accepted.
func TestProposalInside(t *testing.T) {
	h, work := proposalHome(t, map[string]string{"a/b": "x", "a*/b": "x", "../other/x": "y", "../other/y": "y"})
	write(t, filepath.Join(work, ".bourn/profile.yaml"), "version: 1\nfilesystem:\n  deny: [a/b, 'a\\*/b', link, '**/*.pem', "+
		filepath.Join(work, "abs")+", "+filepath.Join(filepath.Dir(work), "other/x")+", '"+filepath.Dir(work)+"/**/y', ~/c, '"+work+"2/**/z', "+work+"2]\n")
	if err := os.Symlink(filepath.Join(filepath.Dir(work), "other/y"), filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	got, line := proposedItems(t, h, Options{Cwd: work, Read: []string{filepath.Join(filepath.Dir(work), "other")}, Write: []string{work}})
	same(t, "denies", []string{"deny /repo/**/*.pem dropped", "deny /repo/a*/b enforced", "deny /repo/a/b enforced", "deny /repo/abs dropped"}, got)
	if !strings.Contains(line, "it asks for 6 denies outside it") {
		t.Errorf("it says %q", line)
	}
}

// The nearest proposal grants; those above it take away as well, up to the repository's root.
func TestProposalNearest(t *testing.T) {
	deny := func(name string) string { return "version: 1\nfilesystem: {deny: [" + name + "]}\n" }
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": deny("sub/.env"), "sub/.bourn/profile.yaml": deny(".key"),
		"../.bourn/profile.yaml": deny("repo/sub/c"), "sub/.env": "", "sub/.key": "", "sub/c": "", "sub/in/a": ""})
	q, err := h.FindProposal(filepath.Join(work, "sub/in"))
	if err != nil || q.Root != filepath.Join(work, "sub") {
		t.Errorf("found %+v, %v", q, err)
	}
	got, _ := proposedItems(t, h, Options{Cwd: filepath.Join(work, "sub")})
	same(t, "in a repository", []string{"deny /repo/sub/.env enforced", "deny /repo/sub/.key enforced"}, got)
	// A repository in the repository has its own, and the one round it still takes away.
	if err := os.MkdirAll(filepath.Join(work, "sub/in/.git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := h.FindProposal(filepath.Join(work, "sub/in")); !errors.Is(err, bourn.ErrNotFound) {
		t.Errorf("found above an inner repository: %v", err)
	}
	got, _ = proposedItems(t, h, Options{Cwd: filepath.Join(work, "sub/in")})
	same(t, "in an inner repository", []string{"deny /repo/sub/.env enforced", "deny /repo/sub/.key enforced"}, got)
	if err := errors.Join(os.RemoveAll(filepath.Join(work, ".git")), os.RemoveAll(filepath.Join(work, "sub/in/.git"))); err != nil {
		t.Fatal(err)
	}
	got, _ = proposedItems(t, h, Options{Cwd: filepath.Join(work, "sub")})
	same(t, "outside of any", []string{"deny /repo/sub/.key enforced"}, got)
	if _, err := h.FindProposal(filepath.Join(work, "sub/in")); !errors.Is(err, bourn.ErrNotFound) {
		t.Errorf("found above: %v", err)
	}
}

// network.mode none of a proposal closes the network of every run, and widens nothing.
func TestProposalClosesNetwork(t *testing.T) {
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": "version: 1\nnetwork: {mode: none}\n"})
	for _, hosts := range [][]string{nil, {"api.example.com"}} {
		p, err := h.Prepare(Options{Command: []string{"true"}, Cwd: work, Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(p.Hints(), func(s string) bool { return strings.Contains(s, "network.mode none of "+work) })
		if p.Plan.Network.Mode != policy.NetworkNone || said != (hosts != nil) {
			t.Errorf("%v: mode %s, said %v", hosts, p.Plan.Network.Mode, p.Hints())
		}
	}
}

// What cannot be followed stops every start, and --proposal none goes on.
func TestProposalFailsClosed(t *testing.T) {
	h, work := proposalHome(t, map[string]string{"real/profile.yaml": "version: 1\n", "real.yaml": "version: 1\n"})
	at, o := filepath.Join(work, ".bourn"), Options{Command: []string{"true"}, Cwd: work}
	for name, make := range map[string]func() error{
		"a bad key": func() error {
			return errors.Join(os.Mkdir(at, 0o755), os.WriteFile(at+"/profile.yaml", []byte("version: 1\nagent: x\n"), 0o644))
		},
		"a symlink":             func() error { return errors.Join(os.Mkdir(at, 0o755), os.Symlink("../real.yaml", at+"/profile.yaml")) },
		"a symlinked directory": func() error { return os.Symlink("real", at) },
		"a directory":           func() error { return os.MkdirAll(at+"/profile.yaml", 0o755) },
		"too long": func() error {
			return errors.Join(os.Mkdir(at, 0o755), os.WriteFile(at+"/profile.yaml", make70k(), 0o644))
		},
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		_, err := h.Prepare(o)
		if !errors.Is(err, bourn.ErrInvalid) || !strings.Contains(err.Error(), at) || !strings.Contains(bourn.HintOf(err), "--proposal none") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.FindProposal(work); !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("%s is found: %v", name, err)
		}
		o := o
		o.Proposal = NoProposal
		if _, err := h.Prepare(o); err != nil {
			t.Errorf("%s, left out: %v", name, err)
		}
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(work, ".bourn/profile.yaml"), proposing)
	accept(t, h, work)
	good, err := os.ReadFile(h.acceptedPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", "{}", `{"version":2}`, strings.Replace(string(good), ".env", ".enx", 1), strings.Replace(string(good), `\"/`, `/`, 1)} {
		write(t, h.acceptedPath(), text)
		if _, err := h.Prepare(o); err == nil || !strings.Contains(bourn.HintOf(err), h.acceptedPath()) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func make70k() []byte { return []byte("version: 1\n#" + strings.Repeat("x", 70<<10)) }

// An accepted proposal's presets are applied, once each; --preset none leaves them out.
func TestProposedPresets(t *testing.T) {
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": "version: 1\npresets: [go]\n", "../home/go/pkg/mod/x": ""})
	items := func(o Options) (n int) {
		t.Helper()
		o.Cwd, o.Command = work, []string{"true"}
		p, err := h.Prepare(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range p.Plan.Items {
			if it.From == "preset:go" {
				n++
			}
		}
		return n
	}
	named := items(Options{Presets: []string{"go"}})
	if n := items(Options{}); n != 0 || named == 0 {
		t.Errorf("not accepted: %d items of the preset, %d if it is named", n, named)
	}
	q, err := h.FindProposal(work)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := h.ProposalItems(q)
	if err != nil || len(shown) != named {
		t.Errorf("%d items are shown (%v), want %d", len(shown), err, named)
	}
	accept(t, h, work)
	for _, c := range []struct {
		presets []string
		want    int
	}{{nil, named}, {[]string{"go"}, named}, {[]string{NoPreset}, 0}} {
		if n := items(Options{Presets: c.presets}); n != c.want {
			t.Errorf("accepted, with --preset %v: %d items of the preset, want %d", c.presets, n, c.want)
		}
	}
}

// What was shown is what is accepted.
func TestAcceptIsOfWhatWasShown(t *testing.T) {
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": proposing})
	q, err := h.FindProposal(work)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"another text": func() error { return os.WriteFile(q.File(), []byte(proposing+"#"), 0o644) },
		"none":         func() error { return os.Remove(q.File()) },
		"another directory": func() error {
			return errors.Join(os.Rename(work, work+"2"), os.MkdirAll(filepath.Join(work, ".bourn"), 0o755), os.WriteFile(q.File(), []byte(proposing), 0o644))
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := h.Accept(q); !errors.Is(err, bourn.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if name != "another directory" {
			write(t, q.File(), proposing)
		} else if err := errors.Join(os.RemoveAll(work), os.Rename(work+"2", work)); err != nil {
			t.Fatal(err)
		}
		write(t, q.File(), proposing)
	}
	if exists(h.acceptedPath()) {
		t.Error("something is accepted")
	}
	if err := h.Accept(q); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(h.acceptedPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A path that may hold any bytes is kept as it is.
func TestAcceptedName(t *testing.T) {
	h, work := proposalHome(t, nil)
	odd := filepath.Join(work, "a\xff\n\"*")
	write(t, filepath.Join(odd, ".bourn/profile.yaml"), "version: 1\nfilesystem: {deny: [\"*.pem\"], read: [~/x]}\n")
	write(t, filepath.Join(odd, "k.pem"), "")
	accept(t, h, odd)
	_, line := proposedItems(t, h, Options{Cwd: odd})
	if !strings.Contains(line, "is applied") {
		t.Errorf("it says %q", line)
	}
	p, err := h.Prepare(Options{Command: []string{"true"}, Cwd: odd})
	if err != nil || !slices.ContainsFunc(p.Plan.Items, func(it policy.Item) bool { return it.Target == odd+"/k.pem" && it.Fate == policy.Enforced }) {
		t.Errorf("its deny does not hold: %v", err)
	}
}

// A proposal grants nothing that is protected, through no symlink of the repository's, and
// nothing that the host's policy does not allow.
func TestAcceptedGrantsNothingProtected(t *testing.T) {
	h, work := proposalHome(t, map[string]string{".bourn/profile.yaml": `version: 1
filesystem: {read: [/etc/shadow, ~/.bourn, "~", link, real], write: [.git/hooks, .bourn/profile.yaml, /]}
network: {mode: restricted, hosts: ["localhost:7720", a.example.org, a.example.net]}
`, "real/a": "", ".git/hooks/x": "", "../home/.ssh/id": "x"})
	if err := os.Symlink("../home/.ssh", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	h.Floor, h.floorOwner = filepath.Join(filepath.Dir(work), "policy.yaml"), os.Getuid()
	write(t, h.Floor, "version: 1\nnetwork: {hosts: [\"*.example.org\"]}\n")
	accept(t, h, work)
	got, _ := proposedItems(t, h, Options{Cwd: work})
	same(t, "items", []string{"host a.example.net dropped", "host a.example.org enforced", "host localhost:7720 dropped",
		"read /etc/shadow dropped", "read /home dropped", "read /home/.bourn dropped", "read /repo/link dropped", "read /repo/real enforced",
		"write / dropped", "write /repo/.bourn/profile.yaml dropped", "write /repo/.git/hooks dropped"}, got)
	// Nor where no run can write there, and the link is not foul for that.
	write(t, filepath.Join(work, ".bourn/profile.yaml"), "version: 1\nfilesystem: {read: [link]}\n")
	accept(t, h, work)
	got, _ = proposedItems(t, h, Options{Cwd: work, Read: []string{work}})
	same(t, "a symlink of the repository", []string{"read /repo/link dropped"}, got)
}
