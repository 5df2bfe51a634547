package run

import (
	"fmt"
	"slices"
	"strings"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/profile"
)

// AllowHost adds a host, as typed, to what an agent may reach. The profile gets the
// canonical text. A host that the list has already changes nothing. What is denied, what
// can never be granted, and any host where the profile says another mode than restricted
// is ErrDenied with the reason.
func (h *Home) AllowHost(name bourn.AgentName, text string) (Change, error) {
	return h.editHost(name, text, (*editing).allowHost)
}

// DenyHost closes a host, as typed, whatever is granted. A host that is granted by exactly
// that text is ErrConflict.
func (h *Home) DenyHost(name bourn.AgentName, text string) (Change, error) {
	return h.editHost(name, text, (*editing).denyHost)
}

// RemoveHost takes a host out of what is granted and denied, whichever list has it. None
// is ErrNotFound.
func (h *Home) RemoveHost(name bourn.AgentName, text string) (Change, error) {
	return h.editHost(name, text, (*editing).removeHost)
}

func (h *Home) editHost(name bourn.AgentName, text string, f func(*editing, policy.Host) error) (Change, error) {
	return h.edit(name, func(e *editing) error {
		host, err := policy.ParseHost(text)
		if err != nil {
			return bourn.WithHint(err, "as in api.example.com, '*.example.org:443', localhost:5432, 192.0.2.7 or '[2001:db8::1]:22'")
		}
		e.change.Path = host.String()
		return f(e, host)
	})
}

func (e *editing) allowHost(host policy.Host) error {
	refused := func(reason, hint string) error {
		return bourn.WithHint(fmt.Errorf("%w: cannot grant %s: %s", bourn.ErrDenied, host, reason), hint)
	}
	network := e.profile.Network
	if reason := policy.ProtectedHost(host); reason != "" {
		return refused("protected, it can never be granted: "+reason, "leave it out: no flag and no profile opens it")
	}
	if _, found := listed(network.Hosts, host); found {
		return nil
	}
	if network.ModeNamed() && network.Mode != profile.NetworkRestricted {
		return refused("network.mode is "+network.Mode+", and only restricted takes hosts",
			"set network.mode to restricted in "+e.home.ProfilePath(e.name))
	}
	if deny, all := closed(network.Deny, host); all {
		return refused("the profile denies "+deny.String()+", and a deny wins",
			"remove that entry first, if that is what you mean: "+e.removeHostCommand(deny))
	}
	e.noteGrant(host)
	return e.add(profile.HostList, host.String())
}

// noteGrant says what else the grant of a host means.
func (e *editing) noteGrant(host policy.Host) {
	network := e.profile.Network
	if !network.ModeNamed() {
		e.note("network.mode is restricted now")
	}
	for _, g := range network.Hosts {
		if covers(g.Host, host) && within(host.Ports(), g.Host.Ports()) {
			e.note("the grant %s is for it already", g.Host)
		}
	}
	for _, d := range meeting(network.Deny, host) {
		e.note("the deny %s narrows it", d.Host)
	}
	if host.Port == 0 {
		e.note("no port is named: it is granted on ports 80 and 443")
	}
	e.noteSuffix(host)
	switch {
	case loopback(host):
		e.note("it is the host's own loopback, and a program in the run cannot listen on %s itself", portsOf(host))
	case host.Addr.IsValid() && policy.Special(host.Addr) != "":
		e.note("%s is %s", host.Addr, policy.Special(host.Addr))
	}
}

func (e *editing) noteSuffix(host policy.Host) {
	if host.Suffix {
		e.note("*.%s does not include %[1]s", host.Name)
	}
}

func (e *editing) denyHost(host policy.Host) error {
	network := e.profile.Network
	if _, found := listed(network.Deny, host); found {
		return nil
	}
	if _, found := listed(network.Hosts, host); found {
		return bourn.WithHint(fmt.Errorf("%w: %s is granted by exactly that text, and cannot be granted and denied", bourn.ErrConflict, host),
			"take the grant away: "+e.removeHostCommand(host))
	}
	this := []profile.Host{{Host: host}}
	for _, g := range network.Hosts {
		if len(meeting(this, g.Host)) == 0 {
			continue
		}
		if _, all := closed(slices.Concat(network.Deny, this), g.Host); all {
			e.note("nothing is left of the grant %s", g.Host)
		} else {
			e.note("it narrows the grant %s", g.Host)
		}
	}
	if host.Port == 0 {
		e.note("no port is named: it is closed on every port")
	}
	e.noteSuffix(host)
	switch network.Mode {
	case profile.NetworkNone:
		e.note("network.mode is none: nothing is reachable anyway")
	case profile.NetworkOpen:
		e.note("network.mode is open: nothing keeps it until that is restricted")
	}
	return e.add(profile.DenyHostList, host.String())
}

func (e *editing) removeHost(host policy.Host) error {
	network := e.profile.Network
	if entry, found := listed(network.Hosts, host); found {
		if err := e.remove(profile.HostList, entry.Text); err != nil {
			return err
		}
	}
	if entry, found := listed(network.Deny, host); found {
		if err := e.remove(profile.DenyHostList, entry.Text); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(network.Hosts, func(g profile.Host) bool {
		return g.Host != host && covers(g.Host, host) && within(host.Ports(), g.Host.Ports())
	})
	switch {
	case len(e.change.Removed) > 0 && i >= 0 && e.change.Removed[0].List == profile.HostList:
		e.note("it stays granted by %s", network.Hosts[i].Host)
		return nil
	case len(e.change.Removed) > 0:
		return nil
	}
	err := fmt.Errorf("%w: agent %q has no entry for the host %s", bourn.ErrNotFound, e.name, host)
	if i >= 0 {
		return bourn.WithHint(err, "it is granted by "+network.Hosts[i].Host.String()+"; to close it: bourn agent perm deny-host "+string(e.name)+" "+shellQuote(host.String()))
	}
	return bourn.WithHint(err, "bourn agent perm list-hosts "+string(e.name)+" shows what there is")
}

func (e *editing) removeHostCommand(host policy.Host) string {
	return "bourn agent perm remove-host " + string(e.name) + " " + shellQuote(host.String())
}

// listed returns the entry of a list that names exactly this host.
func listed(list []profile.Host, host policy.Host) (profile.Host, bool) {
	i := slices.IndexFunc(list, func(entry profile.Host) bool { return entry.Host == host })
	if i < 0 {
		return profile.Host{}, false
	}
	return list[i], true
}

// covers reports whether wide names everything that host names, ports apart.
func covers(wide, host policy.Host) bool {
	switch {
	case wide.Addr.IsValid():
		return wide.Addr == host.Addr
	case host.Addr.IsValid():
		return loopback(wide) && host.Addr.IsLoopback()
	case wide.Suffix:
		return strings.HasSuffix(host.Name, "."+wide.Name) || host.Suffix && host.Name == wide.Name
	}
	return wide.Name == host.Name && !host.Suffix
}

// loopback reports whether a host is one of the host's own loopback addresses.
func loopback(h policy.Host) bool {
	return h.Name == policy.Localhost && !h.Suffix || h.Addr.IsLoopback()
}

// meeting returns the denies that take something away from a grant: of two hosts that
// have anything in common, one covers the other.
func meeting(denies []profile.Host, grant policy.Host) []profile.Host {
	var out []profile.Host
	for _, d := range denies {
		if (covers(d.Host, grant) || covers(grant, d.Host)) && (d.Host.Port == 0 || slices.Contains(grant.Ports(), d.Host.Port)) {
			out = append(out, d)
		}
	}
	return out
}

// closed reports whether denies leave nothing of a grant, and names one that closes it.
func closed(denies []profile.Host, grant policy.Host) (by policy.Host, all bool) {
	for _, port := range grant.Ports() {
		i := slices.IndexFunc(denies, func(d profile.Host) bool {
			return covers(d.Host, grant) && (d.Host.Port == 0 || d.Host.Port == port)
		})
		if i < 0 {
			return policy.Host{}, false
		}
		by = denies[i].Host
	}
	return by, true
}

// within reports whether every port of a is in b.
func within(a, b []uint16) bool {
	return !slices.ContainsFunc(a, func(port uint16) bool { return !slices.Contains(b, port) })
}

func portsOf(h policy.Host) string {
	if h.Port == 0 {
		return "ports 80 and 443"
	}
	return fmt.Sprintf("port %d", h.Port)
}
