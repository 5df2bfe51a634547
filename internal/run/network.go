package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"bourn/internal/egress"
	"bourn/internal/policy"
)

// A Refusal is something that was refused during a run, with how often it was.
type Refusal struct {
	Operation policy.Operation `json:"operation"`
	Target    string           `json:"target"`
	Reason    string           `json:"reason"`
	Count     int              `json:"count"`
	Grant     string           `json:"grant,omitempty"` // the command that would mend it
}

// maxRefusals bounds what a run can make its launcher keep, for connections and for files.
const maxRefusals = 500

// refusals gathers them from several goroutines.
type refusals struct {
	mu   sync.Mutex
	all  []Refusal
	at   map[[3]string]int
	kept map[bool]int // of connections, and of files
	more int          // further ones that were not kept
}

// add keeps a refusal, once. Grant is asked for the command that would mend it.
func (r *refusals) add(op policy.Operation, target, reason string, grant func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [3]string{string(op), target, reason}
	if i, ok := r.at[key]; ok {
		r.all[i].Count++
		return
	}
	files := op != policy.OpConnect
	if r.kept[files] == maxRefusals {
		r.more++
		return
	}
	if r.kept == nil {
		r.kept = map[bool]int{}
	}
	r.kept[files]++
	if r.at == nil {
		r.at = map[[3]string]int{}
	}
	r.at[key] = len(r.all)
	r.all = append(r.all, Refusal{op, target, reason, 1, grant()})
}

// list returns what was kept, and how many refusals were not.
func (r *refusals) list() (all []Refusal, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.more
}

// serveNetwork serves the listeners that plan.Listen lists.
func (r *runner) serveNetwork(files []*os.File) error {
	var ls egress.Listeners
	var failed error
	for i, f := range files {
		if f == nil {
			continue
		}
		use := r.Plan.Listen[i].Use
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
		return failed
	}
	r.egress = egress.Serve(egress.Config{Network: &r.Plan.Network, Refused: r.hostRefused, Unresolved: r.unresolved.add}, ls)
	return nil
}

// hostRefused keeps a refusal of the network.
func (r *runner) hostRefused(no egress.Refusal) {
	r.refused.add(policy.OpConnect, no.Target, no.Reason, func() string { return r.hostGrant(no.Target, no.Reason) })
}

// hostGrant returns the command that would let a refused target through, or "" where no
// grant would.
func (r *runner) hostGrant(target, reason string) string {
	h, err := policy.ParseHost(target)
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
