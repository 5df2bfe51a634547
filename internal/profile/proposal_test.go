package profile_test

import (
	"errors"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/profile"

	"github.com/google/go-cmp/cmp"
)

func TestParseProposal(t *testing.T) {
	_, err := profile.ParseProposal("p.yaml", []byte(`version: 1
presets: [go]
filesystem:
  read: [., ../ab, "~/.cache/x", /opt/sdk, "~"]
  write: [dist, ./out/]
  deny: [.env, "**/*.pem", {path: secrets, style: empty}, ~/x]
network: {mode: restricted, hosts: [api.example.com], deny: [bad.example.org]}
env: {pass: [CI]}
`))
	if err == nil {
		t.Fatal("a path with .. is taken")
	}
	if want := `p.yaml:4:13: path "../ab" has a component ".."; write the path that is meant`; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	p, err := profile.ParseProposal("p.yaml", []byte("version: 1\nfilesystem: {read: [., \"~\", a/b], deny: [.env, \"**/*.pem\"]}\nnetwork: {mode: none}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range p.Filesystem.Read {
		texts = append(texts, r.Text)
	}
	for _, d := range p.Filesystem.Deny {
		texts = append(texts, d.Text)
	}
	if diff := cmp.Diff([]string{".", "~", "a/b", ".env", "**/*.pem"}, texts); diff != "" {
		t.Error(diff)
	}
	if !p.Network.ModeNamed() || p.Network.Mode != profile.NetworkNone {
		t.Errorf("mode %q", p.Network.Mode)
	}
}

// What has no meaning in a proposal is an error with its place, and what is wrong in a
// profile is wrong here.
func TestParseProposalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"agent: x":                                  "p.yaml:2:8: agent cannot be proposed",
		"command: [make]":                           "command cannot be proposed",
		"processes: {mode: none}":                   "processes cannot be proposed",
		"limits: {time: 2h}":                        "limits cannot be proposed",
		"sandbox: {nested: true}":                   "sandbox cannot be proposed",
		"service: true":                             "service cannot be proposed",
		"network: {unix: [/run/docker.sock]}":       "network.unix cannot be proposed",
		"network: {mode: open}":                     "p.yaml:2:17: network.mode open cannot be proposed",
		"network: {mode: closed}":                   `unknown network.mode "closed"`,
		"network: {hosts: [a.example.com]}":         "network.hosts needs network.mode: restricted",
		"env: {set: {LD_PRELOAD: ./x.so}}":          "env.set cannot be proposed",
		"presets: [docker-client]":                  "preset docker-client cannot be proposed",
		"presets: [ssh-agent]":                      "preset ssh-agent cannot be proposed",
		"presets: [nmp]":                            `unknown preset "nmp"`,
		"tools: {}":                                 "tools cannot be proposed: it is a key of an agent's profile",
		"context: {roots: [src]}":                   "p.yaml:2:10: context cannot be proposed: the person chooses what an agent is offered",
		"commit: {requires: [verified]}":            "p.yaml:2:9: commit cannot be proposed: it is a key of an agent's profile",
		"records: read":                             "p.yaml:2:10: records cannot be proposed: the company's records are the person's to open",
		"delegate: [reviewer]":                      "p.yaml:2:11: delegate cannot be proposed: it names other agents",
		"filesystem: {read: [~other/a]}":            "another person's home",
		"filesystem: {read: [\"src/*\"]}":           `"src/*" is a pattern`,
		"filesystem: {read: [\"\"]}":                "a path cannot be empty",
		"filesystem: {deny: [../x]}":                `path "../x" has a component ".."`,
		"filesystem: {deny: [\"{a,../b}\"]}":        "has a component",
		"filesystem: {deny: [\"a\\0b\"]}":           "NUL",
		"filesystem: {write: [a], deny: [./a]}":     "is both granted and denied",
		"filesystem: {raed: [a]}":                   `did you mean "read"?`,
		"filesystem: {read: [&a b]}":                "anchors are not allowed",
		"x: " + strings.Repeat("y", 64<<10):         "a proposal cannot be longer than 65536 bytes",
		"filesystem: {deny: [{path: a, style: b}]}": "unknown filesystem.deny.style",
	} {
		_, err := profile.ParseProposal("p.yaml", []byte("version: 1\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "{}", "[]", "version: 2", "presets: [go]"} {
		if _, err := profile.ParseProposal("p.yaml", []byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// A profile's paths are never relative.
func TestProfileTakesNoRelativePath(t *testing.T) {
	for _, list := range []string{"read", "write", "deny"} {
		if _, err := profile.Parse("p.yaml", []byte("version: 1\nagent: a\nfilesystem: {"+list+": [src]}\n")); err == nil {
			t.Errorf("%s takes a relative path", list)
		}
	}
}
