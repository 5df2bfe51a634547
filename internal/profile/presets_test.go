package profile

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/policy"
)

// A preset is data: what it names must be what a profile could name.
func TestPresetTable(t *testing.T) {
	names, commands := map[string]bool{}, map[string]bool{}
	variable := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for _, p := range Presets() {
		if _, err := bourn.ParseAgentName(p.Name); err != nil || names[p.Name] || p.About == "" {
			t.Errorf("%s: %v, or named twice, or without a word about it", p.Name, err)
		}
		names[p.Name] = true
		for _, c := range p.Commands {
			if commands[c] {
				t.Errorf("%s: two presets have the command %s", p.Name, c)
			}
			commands[c] = true
		}
		var paths []string
		for _, m := range p.Make {
			paths = append(paths, m.Path)
			if !strings.HasPrefix(m.Path, "~/") {
				t.Errorf("%s: %s is made outside the home", p.Name, m.Path)
			}
		}
		for _, v := range p.Homes {
			paths = append(paths, v.Instead)
		}
		for _, path := range append(append(paths, p.Read...), p.Write...) {
			if !strings.HasPrefix(path, "~/") && !strings.HasPrefix(path, "/") || strings.ContainsAny(filepath.Dir(path), "*?[") {
				t.Errorf("%s: %s is no path of a grant", p.Name, path)
			}
		}
		for _, h := range p.Hosts {
			if host, err := policy.ParseHost(h); err != nil || host.String() != h || policy.ProtectedHost(host) != "" {
				t.Errorf("%s: host %s: %v", p.Name, h, err)
			}
		}
		for _, v := range append(append(p.Env, p.HostVars...), p.Sockets...) {
			if !variable.MatchString(v) {
				t.Errorf("%s: %q is no variable", p.Name, v)
			}
		}
	}
	if p, ok := PresetFor("claude"); !ok || p.Name != "claude-code" {
		t.Errorf("claude selects %v", p.Name)
	}
	if _, ok := PresetFor("make"); ok {
		t.Error("make selects a preset")
	}
}

func TestPresetsKey(t *testing.T) {
	p, err := Parse("p", []byte("version: 1\nagent: a\npresets: [go, claude-code]\n"))
	if err != nil || strings.Join(p.Presets, " ") != "go claude-code" {
		t.Errorf("presets %q, %v", p.Presets, err)
	}
	_, err = Parse("p", []byte("version: 1\nagent: a\npresets: [go, claude-cod, go, 1]\n"))
	for _, want := range []string{`p:3:15: unknown preset "claude-cod"`, "claude-code", `p:3:27: presets has "go" twice`, "p:3:31: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func TestDenyStyle(t *testing.T) {
	p, err := Parse("p", []byte("version: 1\nagent: a\nfilesystem:\n  deny: [{style: empty, path: /a}, {path: /b}, {path: /c, style: none}, {path: \"/d/*\", style: empty}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, d := range p.Filesystem.Deny {
		got = append(got, d.Empty)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("empty: %v, want %v", got, want)
	}
}
