package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"bourn/internal/egress"
	"bourn/internal/policy"
)

// serveNetwork serves the listeners that plan.Listen lists.
func (r *runner) serveNetwork(files []*os.File) error {
	served, err := r.serveListeners(r.Plan, files)
	r.egress = served
	return err
}

// serveListeners serves what a plan lists, on listeners inside.
func (r *runner) serveListeners(plan *policy.Plan, files []*os.File) (*egress.Server, error) {
	var ls egress.Listeners
	var failed error
	for i, f := range files {
		if f == nil {
			continue
		}
		use := plan.Listen[i].Use
		if use == policy.ListenNames {
			c, err := net.FilePacketConn(f)
			ls.Names, failed = c, errors.Join(failed, err)
		} else {
			l, err := net.FileListener(f)
			switch failed = errors.Join(failed, err); use {
			case policy.ListenProxy:
				ls.Proxy = l
			case policy.ListenNames2:
				ls.Names2 = l
			default:
				ls.Direct = append(ls.Direct, l)
			}
		}
		f.Close()
	}
	if failed != nil {
		for _, l := range append([]net.Listener{ls.Proxy, ls.Names2}, ls.Direct...) {
			if l != nil {
				l.Close()
			}
		}
		if ls.Names != nil {
			ls.Names.Close()
		}
		return nil, failed
	}
	return egress.Serve(egress.Config{Network: &plan.Network, Refused: r.hostRefused, Unresolved: r.unresolved.add}, ls), nil
}

// hostRefused keeps a refusal of the network.
func (r *runner) hostRefused(no egress.Refusal) {
	r.refused.add(policy.OpConnect, no.Target, no.Reason, func() string { return r.hostGrant(no.Target, no.Reason) })
}

// hostGrant returns the command that would let a refused target through, or "" where no
// grant would.
func (r *runner) hostGrant(target, reason string) string {
	h, err := policy.ParseHost(target)
	if r.Whole != r.Plan && r.ownPreset() != "" {
		return "" // a grant would be governed tools' alone
	}
	if h.Addr.IsLoopback() || policy.OwnNet.Masked().Contains(h.Addr) {
		return "" // a program that looks for one of the run's own
	}
	if err != nil || reason != policy.NotGranted && reason != fmt.Sprintf("port %d is not granted", h.Port) {
		return ""
	}
	if h.Port == 0 && h.Name != "" {
		h.Port = r.remotePort(h.Name)
	}
	return r.allowHost(policy.Target{Name: h.Name, Addr: h.Addr, Port: h.Port}.Host())
}

// allowHost is the command line that grants a host: to the agent for good, or to a run
// without one for this time.
func (p *Prepared) allowHost(h policy.Host) string {
	if name := p.Options.Agent; name != "" {
		return "bourn agent perm allow-host " + string(name) + " " + shellQuote(h.String())
	}
	return p.again("--host", h.String())
}

// recordRefusals adds the refusals to the run's record. That the run has ended shows from
// the process table, so a record that cannot be written again is no harm.
func (r *runner) recordRefusals(all []Refusal, more int) {
	if len(all) == 0 || r.record == nil {
		return
	}
	if !exists(r.record.path) { // the agent was deleted
		return
	}
	r.kept.Refusals, r.kept.NotKept = all, more
	if d, err := r.home.draft(r.kept); err == nil {
		defer d.discard()
		_ = d.commit(nil)
	}
}

// explainHost adds to an answer about a host what its name resolves to now, and the
// command that would mend a refusal.
func (p *Prepared) explainHost(e *Explanation) {
	h, err := policy.ParseHost(e.Target)
	if err != nil || h.Suffix {
		return
	}
	network := &p.Plan.Network
	if h.Port == 0 {
		h.Port = 443
	}
	t := policy.Target{Name: h.Name, Addr: h.Addr, Port: h.Port}
	if e.Allowed == "allowed" && network.Mode == policy.NetworkRestricted {
		p.explainAddresses(e, t)
		return
	}
	if e.Allowed == "allowed" || e.Item != nil && e.Item.Kind == policy.KindDeny || policy.ProtectedHost(h) != "" {
		return
	}
	e.Grant = p.allowHost(t.Host())
}

// judgeName is what explainHost does for the gate: the answer alone.
func (p *Prepared) judgeName(a *policy.Answer) {
	e := Explanation{Answer: *a}
	p.explainHost(&e)
	a.Allowed, a.Reason = e.Allowed, e.Reason
}

// explainAddresses resolves a granted name, and corrects the answer where none of its
// addresses may be reached.
func (p *Prepared) explainAddresses(e *Explanation, t policy.Target) {
	if t.Name == policy.Localhost {
		return
	}
	addrs := []netip.Addr{t.Addr}
	if t.Name != "" {
		ctx, cancel := context.WithTimeout(context.Background(), explainTime)
		defer cancel()
		var err error
		if addrs, err = egress.Resolve(ctx, t.Name); err != nil {
			e.Notes = append(e.Notes, fmt.Sprintf("it is granted, and does not resolve on this host now: %v", err))
			return
		}
	}
	refused, mend := "", policy.Host{}
	for _, addr := range addrs {
		addr = addr.Unmap()
		r := egress.Judge(&p.Plan.Network, t, addr)
		switch {
		case r.Allowed:
			return
		case r.Item >= 0, r.Reason == policy.OwnControlPlane: // no grant mends it
			refused = r.Reason
		default:
			refused, mend = r.Reason, policy.Target{Addr: addr, Port: t.Port}.Host()
		}
	}
	if refused == "" {
		return
	}
	e.Allowed, e.Reason = "denied", "it is granted, and "+refused
	if mend.Addr.IsValid() {
		e.Grant = p.allowHost(mend)
	}
}

// explainTime bounds how long explain waits for the host's resolver.
const explainTime = 5 * time.Second
