package profile

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// A Floor is what root says of every profile on a host, in /etc/bourn/policy.yaml:
//
//	version: 1
//	advisory: never                    # no profile may run without a kernel sandbox
//	filesystem: {deny: ["/**/.env"]}    # denied in every run, as in a profile
//	network:
//	  hosts: ["*.example.org"]         # only these may be granted, and mode open is refused
//	  deny: [telemetry.example.org]    # denied in every run
//
// Patterns and paths begin with / or ~/, which is the home of whoever runs. It only takes
// away: nothing in it grants anything.
type Floor struct {
	NoAdvisory bool
	Deny       []Deny
	HostDeny   []Host
	Hosts      []Host // what may be granted, if Limited
	Limited    bool
}

var floorSchema = []key{
	{name: "version", required: true, decode: (*decoder).version},
	{name: "advisory", decode: (*decoder).advisory},
	{name: "filesystem", bare: true, keys: []key{{name: "deny", bare: true, decode: (*decoder).denies}}},
	{name: "network", bare: true, keys: []key{
		{name: "hosts", decode: (*decoder).floorHosts},
		{name: "deny", bare: true, decode: hosts(func(p *Profile) *[]Host { return &p.Network.Deny })},
	}},
}

func (d *decoder) advisory(where string, n *yaml.Node) {
	words := []string{"never", "allowed"}
	word, ok := d.line(n, where, "never or allowed")
	if ok && !slices.Contains(words, word) {
		d.fail(n, "unknown %s %q%s", where, word, didYouMean(word, words))
	}
	d.floor.NoAdvisory = word == "never"
}

func (d *decoder) floorHosts(where string, n *yaml.Node) {
	hosts(func(p *Profile) *[]Host { return &p.Network.Hosts })(d, where, n)
	d.floor.Limited = true
}

// ParseFloor returns what the host's policy says. Errors are as of [Parse].
func ParseFloor(name string, src []byte) (*Floor, error) {
	s, problems := newSource(name, src)
	if problems != nil {
		return nil, problems.join()
	}
	root, problems := s.tree()
	if problems != nil {
		return nil, problems.join()
	}
	d := decoder{src: s, p: &Profile{}}
	d.form(root, 0)
	d.fields(root, "", floorSchema)
	if d.problems != nil {
		return nil, d.problems.join()
	}
	f := d.floor
	f.Deny, f.HostDeny, f.Hosts = d.p.Filesystem.Deny, d.p.Network.Deny, d.p.Network.Hosts
	return &f, nil
}
