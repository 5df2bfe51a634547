package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// hostHome is a home with one agent, "mur", whose profile ends in src.
func hostHome(t *testing.T, src string) *Home {
	t.Helper()
	h := &Home{Dir: filepath.Join(t.TempDir(), "bourn"), Person: t.TempDir()}
	if err := os.MkdirAll(h.agent("mur"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.ProfilePath("mur"), []byte(profileHead+src), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

const profileHead = "version: 1\nagent: mur\n"

func (h *Home) source(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile(h.ProfilePath("mur"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(src), profileHead)
}

func TestHosts(t *testing.T) {
	const restricted = "network: {mode: restricted, hosts: [a.org], deny: [d.org]}\n"
	for _, test := range []struct {
		name  string
		src   string
		do    func(*Home, bourn.AgentName, string) (Change, error)
		typed string
		path  string // the canonical text
		want  string // of the profile
		notes []string
	}{
		{"the first", "", (*Home).AllowHost, "API.Example.com.:0443", "api.example.com:443",
			"network:\n  mode: restricted\n  hosts:\n    - \"api.example.com:443\"\n", []string{"network.mode is restricted now"}},
		{"no port", restricted, (*Home).AllowHost, "b.org", "b.org", "network: {mode: restricted, hosts: [a.org, b.org], deny: [d.org]}\n",
			[]string{"no port is named: it is granted on ports 80 and 443"}},
		{"again", restricted, (*Home).AllowHost, "A.ORG", "a.org", restricted, []string{}},
		{"a suffix", restricted, (*Home).AllowHost, "*.b.org:22", "*.b.org:22", "network: {mode: restricted, hosts: [a.org, \"*.b.org:22\"], deny: [d.org]}\n",
			[]string{"*.b.org does not include b.org"}},
		{"what a deny narrows", "network: {mode: restricted, deny: ['b.org:80', c.b.org, '*.d.b.org:1', 'e.b.org:1', b.org.uk]}\n", (*Home).AllowHost, "*.b.org:1", "*.b.org:1",
			"network: {mode: restricted, deny: ['b.org:80', c.b.org, '*.d.b.org:1', 'e.b.org:1', b.org.uk], hosts: [ \"*.b.org:1\" ]}\n",
			[]string{"the deny c.b.org narrows it", "the deny *.d.b.org:1 narrows it", "the deny e.b.org:1 narrows it", "*.b.org does not include b.org"}},
		{"a port of it is denied", "network: {mode: restricted, hosts: [], deny: ['b.org:80']}\n", (*Home).AllowHost, "b.org", "b.org",
			"network: {mode: restricted, hosts: [b.org], deny: ['b.org:80']}\n",
			[]string{"the deny b.org:80 narrows it", "no port is named: it is granted on ports 80 and 443"}},
		{"within another", "network: {mode: restricted, hosts: ['*.b.org']}\n", (*Home).AllowHost, "x.b.org:443", "x.b.org:443",
			"network: {mode: restricted, hosts: ['*.b.org', \"x.b.org:443\"]}\n", []string{"the grant *.b.org is for it already"}},
		{"localhost", restricted, (*Home).AllowHost, "localhost:5432", "localhost:5432", "network: {mode: restricted, hosts: [a.org, \"localhost:5432\"], deny: [d.org]}\n",
			[]string{"it is the host's own loopback, and a program in the run cannot listen on port 5432 itself"}},
		{"a private address", restricted, (*Home).AllowHost, "[::ffff:10.0.0.7]:22", "10.0.0.7:22", "network: {mode: restricted, hosts: [a.org, \"10.0.0.7:22\"], deny: [d.org]}\n",
			[]string{"10.0.0.7 is private"}},

		{"deny", restricted, (*Home).DenyHost, "B.org:1", "b.org:1", "network: {mode: restricted, hosts: [a.org], deny: [d.org, \"b.org:1\"]}\n", []string{}},
		{"deny again", restricted, (*Home).DenyHost, "d.org.", "d.org", restricted, []string{}},
		{"deny a part", "network: {mode: restricted, hosts: [a.org, '*.b.org', c.b.org, 'c.b.org:22']}\n", (*Home).DenyHost, "c.b.org:443", "c.b.org:443",
			"network: {mode: restricted, hosts: [a.org, '*.b.org', c.b.org, 'c.b.org:22'], deny: [ \"c.b.org:443\" ]}\n",
			[]string{"it narrows the grant *.b.org", "it narrows the grant c.b.org"}},
		{"deny all of a grant", "network: {mode: restricted, hosts: ['a.org:443', '*.a.org']}\n", (*Home).DenyHost, "a.org", "a.org",
			"network: {mode: restricted, hosts: ['a.org:443', '*.a.org'], deny: [ a.org ]}\n",
			[]string{"nothing is left of the grant a.org:443", "no port is named: it is closed on every port"}},
		{"deny a port of suffixes", "network: {mode: restricted, hosts: ['a.org:443', '*.b.a.org', '*.a.org']}\n", (*Home).DenyHost, "*.b.a.org:80", "*.b.a.org:80",
			"network: {mode: restricted, hosts: ['a.org:443', '*.b.a.org', '*.a.org'], deny: [ \"*.b.a.org:80\" ]}\n",
			[]string{"it narrows the grant *.b.a.org", "it narrows the grant *.a.org", "*.b.a.org does not include b.a.org"}},
		{"deny the rest of a grant", "network: {mode: restricted, hosts: [a.org], deny: ['a.org:80']}\n", (*Home).DenyHost, "a.org:443", "a.org:443",
			"network: {mode: restricted, hosts: [a.org], deny: ['a.org:80', \"a.org:443\"]}\n", []string{"nothing is left of the grant a.org"}},
		{"deny with nothing reachable", "", (*Home).DenyHost, "a.org", "a.org", "network:\n  deny:\n    - a.org\n",
			[]string{"no port is named: it is closed on every port", "network.mode is none: nothing is reachable anyway"}},
		{"deny in the open", "network: {mode: open}\n", (*Home).DenyHost, "a.org:1", "a.org:1", "network: {mode: open, deny: [ \"a.org:1\" ]}\n",
			[]string{"network.mode is open: nothing keeps it until that is restricted"}},

		{"remove a grant", restricted, (*Home).RemoveHost, "A.org", "a.org", "network: {mode: restricted, hosts: [], deny: [d.org]}\n", []string{}},
		{"remove a deny", restricted, (*Home).RemoveHost, "d.org", "d.org", "network: {mode: restricted, hosts: [a.org], deny: []}\n", []string{}},
		{"remove what stays", "network: {mode: restricted, hosts: ['*.a.org', 'x.a.org:443']}\n", (*Home).RemoveHost, "x.a.org:443", "x.a.org:443",
			"network: {mode: restricted, hosts: ['*.a.org']}\n", []string{"it stays granted by *.a.org"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := hostHome(t, test.src)
			c, err := test.do(h, "mur", test.typed)
			if err != nil {
				t.Fatal(err)
			}
			got := h.source(t)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("profile (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, c.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if changed := len(c.Added)+len(c.Removed) > 0; c.Path != test.path || changed != (got != test.src) {
				t.Errorf("change %+v, want the path %q", c, test.path)
			}
			if len(c.Added) == 0 {
				return
			}
			if _, err := h.RemoveHost("mur", test.typed); err != nil || h.source(t) != test.src {
				t.Errorf("taken out again it is %q, %v, want %q", h.source(t), err, test.src)
			}
		})
	}
}

func TestHostsRefused(t *testing.T) {
	for _, test := range []struct {
		src   string
		do    func(*Home, bourn.AgentName, string) (Change, error)
		typed string
		is    error
		want  string
		hint  string
	}{
		{"", (*Home).AllowHost, "https://a.org/", bourn.ErrInvalid, "not a URL", "as in api.example.com"},
		{"", (*Home).RemoveHost, "*", bourn.ErrInvalid, "too broad", ""},
		{"", (*Home).AllowHost, "localhost:7720", bourn.ErrDenied, "cannot grant localhost:7720: protected, it can never be granted: it is bourn's own control plane", ""},
		{"", (*Home).AllowHost, "[::1]:7720", bourn.ErrDenied, "protected, it can never be granted", ""},
		{"network: {mode: none}\n", (*Home).AllowHost, "a.org", bourn.ErrDenied, "network.mode is none, and only restricted takes hosts", "set network.mode to restricted in /"},
		{"network:\n  mode: open\n", (*Home).AllowHost, "a.org", bourn.ErrDenied, "network.mode is open, and only restricted takes hosts", "set network.mode to restricted in /"},
		{"network: {hosts: []}\n", (*Home).AllowHost, "a.org", bourn.ErrInvalid, "network.hosts needs network.mode: restricted", ""},
		{"network: {deny: [A.org]}\n", (*Home).AllowHost, "a.org:443", bourn.ErrDenied, "cannot grant a.org:443: the profile denies a.org, and a deny wins", "bourn agent perm remove-host mur a.org"},
		{"network: {mode: restricted, deny: [c.b.org, '*.org']}\n", (*Home).AllowHost, "*.b.org", bourn.ErrInvalid, "too broad", ""},
		{"network: {mode: restricted, deny: [d.c.b.org, '*.b.org:443', '*.b.org:80']}\n", (*Home).AllowHost, "*.c.b.org", bourn.ErrDenied, "the profile denies *.b.org:443", "remove-host mur '*.b.org:443'"},
		{"network: {mode: restricted, deny: [localhost]}\n", (*Home).AllowHost, "127.0.0.2:1", bourn.ErrDenied, "the profile denies localhost", ""},
		{"network: {mode: restricted, hosts: ['[::1]:22']}\n", (*Home).DenyHost, "[0::1]:22", bourn.ErrConflict, "[::1]:22 is granted by exactly that text", "take the grant away: bourn agent perm remove-host mur '[::1]:22'"},
		{"", (*Home).RemoveHost, "a.org", bourn.ErrNotFound, `agent "mur" has no entry for the host a.org`, "bourn agent perm list-hosts mur shows what there is"},
		{"network: {mode: restricted, hosts: ['*.a.org']}\n", (*Home).RemoveHost, "x.a.org", bourn.ErrNotFound, `no entry`, "it is granted by *.a.org; to close it: bourn agent perm deny-host mur x.a.org"},
		{"network: {mode: restricted, hosts: ['a.org']}\n", (*Home).RemoveHost, "a.org:443", bourn.ErrNotFound, `no entry`, "it is granted by a.org; to close it: bourn agent perm deny-host mur a.org:443"},
	} {
		h := hostHome(t, test.src)
		_, err := test.do(h, "mur", test.typed)
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) || !strings.Contains(bourn.HintOf(err), test.hint) {
			t.Errorf("%q in %q: %v\nhint: %s\nwant %v: %s\nhint: %s", test.typed, test.src, err, bourn.HintOf(err), test.is, test.want, test.hint)
		}
		if got := h.source(t); got != test.src {
			t.Errorf("%q in %q changes it to %q", test.typed, test.src, got)
		}
	}
	if _, err := hostHome(t, "").AllowHost("nobody", "a.org"); !errors.Is(err, bourn.ErrNotFound) {
		t.Errorf("AllowHost for nobody = %v", err)
	}
}

// What is said of grants and denies is what a network decides about names and addresses.
func TestHostsAsJudged(t *testing.T) {
	draw := func(t *rapid.T) policy.Host {
		text := rapid.SampledFrom([]string{"a.org", "b.a.org", "c.b.a.org", "*.a.org", "*.b.a.org", "xa.org", "localhost", "127.0.0.1", "127.0.0.2", "10.0.0.1"}).Draw(t, "host") +
			rapid.SampledFrom([]string{"", ":80", ":443", ":22"}).Draw(t, "port")
		h, err := policy.ParseHost(text)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	var targets []policy.Target
	for _, name := range []string{"a.org", "b.a.org", "z.a.org", "c.b.a.org", "z.b.a.org", "xa.org", "localhost", "127.0.0.1", "127.0.0.2", "10.0.0.1"} {
		for _, port := range []uint16{80, 443, 22, 1} {
			target, err := policy.ParseTarget(name, port)
			if err != nil {
				t.Fatal(err)
			}
			targets = append(targets, target)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		grant := draw(t)
		n := policy.Network{Mode: policy.NetworkRestricted, Grants: []policy.HostRule{{Host: grant}}}
		var denies []profile.Host
		for range rapid.IntRange(0, 3).Draw(t, "denies") {
			d := draw(t)
			denies = append(denies, profile.Host{Host: d})
			n.Denies = append(n.Denies, policy.HostRule{Host: d})
		}
		granted, left := 0, 0
		for _, target := range targets {
			alone := policy.Network{Mode: n.Mode, Grants: n.Grants}
			if alone.Judge(target).Allowed {
				granted++
				if n.Judge(target).Allowed {
					left++
				}
			}
		}
		at := fmt.Sprintf("grant %s, denies %v", grant, denies)
		// Denies of addresses say nothing of the name localhost until it is resolved.
		name := slices.ContainsFunc(denies, func(d profile.Host) bool { return d.Host.Addr.IsValid() }) && grant.Name == policy.Localhost
		if _, all := closed(denies, grant); all && left > 0 {
			t.Fatalf("%s: closed, and %d targets are left", at, left)
		}
		if meets := len(meeting(denies, grant)) > 0; meets != (left < granted) && !name {
			t.Fatalf("%s: meeting is %v, and %d of %d targets are left", at, meets, left, granted)
		}
	})
}
