package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
	"bourn/internal/sandbox/survey"
)

// FloorPath is where root says what holds for every profile on this host.
const FloorPath = "/etc/bourn/policy.yaml"

// fromHost is the origin of items that stem from the host's policy.
const fromHost = "host"

// readFloor returns the host's policy, nil where there is none. One that cannot be read, or
// that others than root could have written, is an error: nothing starts.
func (h *Home) readFloor() (*profile.Floor, error) {
	if h.Floor == "" {
		return nil, nil
	}
	o, err := survey.Stat(h.Floor)
	if err == nil && o.Type == survey.Missing {
		return nil, nil
	}
	fail := func(err error) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot follow this host's policy %s: %w", bourn.ErrDenied, h.Floor, err), "ask whoever administers this host")
	}
	switch {
	case err != nil:
		return nil, fail(err)
	case o.Type != survey.File || o.Uid != 0 && int(o.Uid) != h.floorOwner || o.Mode&0o022 != 0:
		return nil, fail(errors.New("it must be a file of root's that only root can write"))
	}
	src, err := os.ReadFile(h.Floor)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(err)
	}
	f, err := profile.ParseFloor(h.Floor, src)
	if err != nil {
		return nil, fail(err)
	}
	return f, nil
}

// floor takes away what the host's policy does not allow.
func (p *Prepared) floor(f *profile.Floor) error {
	if f == nil {
		return nil
	}
	r := p.Request
	if f.NoAdvisory {
		r.Advisory = false
	}
	for _, d := range f.Deny {
		deny := p.home.deny(d)
		deny.From = fromHost
		p.deny(deny)
	}
	for _, h := range f.HostDeny {
		r.HostDenies = append(r.HostDenies, policy.HostWish{Host: h.Host, From: fromHost})
	}
	if r.Network == policy.NetworkOpen && (f.Limited || len(f.HostDeny) > 0) {
		return bourn.WithHint(fmt.Errorf("%w: network.mode open is not allowed on this host", bourn.ErrDenied), p.home.Floor+" says which hosts may be granted")
	}
	if !f.Limited {
		return nil
	}
	var allowed []policy.Host
	for _, h := range f.Hosts {
		allowed = append(allowed, h.Host)
	}
	for i := range r.Hosts {
		if w := &r.Hosts[i]; !policy.Within(allowed, w.Host) {
			w.Refused = "not among the hosts that " + p.home.Floor + " allows"
		}
	}
	return nil
}
