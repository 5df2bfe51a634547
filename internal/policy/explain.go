package policy

import (
	"path"
	"slices"
)

// An Operation is what [Plan.Explain] answers for.
type Operation string

const (
	OpRead    Operation = "read"
	OpWrite   Operation = "write"
	OpExec    Operation = "exec"
	OpConnect Operation = "connect"
)

// An Answer says whether the run may do something, which item decides, and which grant
// would mend a refusal.
type Answer struct {
	Agent     string    `json:"agent"`
	Operation Operation `json:"operation"`
	Target    string    `json:"target"`
	Resolved  string    `json:"resolved"`
	Allowed   string    `json:"answer"` // "allowed" or "denied"
	Item      *Item     `json:"item"`
	Reason    string    `json:"reason,omitempty"` // of a refused connection
	Grant     string    `json:"grant,omitempty"`  // the command that would mend it, "" where none can
}

// Explain answers for a target whose symlinks are resolved already. It only reads the
// plan: what it says of a path does not depend on whether the path exists.
func (p *Plan) Explain(op Operation, target string) Answer {
	a := Answer{Operation: op, Target: target, Resolved: target, Allowed: "denied"}
	var allowed bool
	switch op {
	case OpConnect:
		if path.IsAbs(target) { // a unix socket
			allowed, a.Item = p.judge(op, path.Clean(target))
		} else {
			allowed = p.judgeHost(&a)
		}
	case OpRead, OpWrite, OpExec:
		allowed, a.Item = p.judge(op, path.Clean(target))
	}
	if allowed {
		a.Allowed = "allowed"
	}
	return a
}

// judgeHost decides about HOST[:PORT], by name alone; without a port it is that of https.
func (p *Plan) judgeHost(a *Answer) (allowed bool) {
	a.Item = p.find(KindDefault, "network: ")
	h, err := ParseHost(a.Target)
	switch {
	case err != nil:
		a.Reason = err.Error()
		return false
	case h.Suffix:
		a.Reason = "it is not the name or address of one host"
		return false
	}
	t := Target{Name: h.Name, Addr: h.Addr, Port: h.Port}
	if t.Port == 0 {
		t.Port = 443
	}
	a.Resolved = t.String()
	switch p.Network.Mode {
	case NetworkOpen:
		return true
	case NetworkRestricted:
	default:
		return false
	}
	r := p.Network.Judge(t)
	if r.Allowed && t.Addr.IsValid() {
		r = p.Network.JudgeAddress(t, t.Addr)
	}
	if it := p.item(r.Item); it != nil {
		a.Item = it
	}
	a.Reason = r.Reason
	return r.Allowed
}

// judge decides one operation on one path, outermost rule first: masks, guards, then
// the view with the longest path.
func (p *Plan) judge(op Operation, at string) (bool, *Item) {
	if it := p.socket(op, at); it != nil {
		return true, it
	}
	for i := range p.Masks {
		if under(at, p.Masks[i].Path) {
			return false, p.item(p.Masks[i].Item)
		}
	}
	if op == OpWrite {
		for i := range p.Guards {
			if !p.Guards[i].Pin && under(at, p.Guards[i].Path) {
				return false, p.item(p.Guards[i].Item)
			}
		}
	}
	view, shown := p.view(at)
	if !shown {
		return p.judgeOwn(op, at)
	}
	if it := p.closedBy(op, at); it != nil && view.Source != "" {
		return false, it // the host's object; what the run may make there is its own
	}
	system := p.find(KindDefault, "system paths")
	decides := p.item(view.Item)
	switch {
	case decides != nil:
	case view.Write:
		decides = &Item{Kind: KindDefault, Target: view.Path + ": the run's own, nothing of the host's", From: "default", Fate: Enforced, By: []string{byNamespace}}
	default:
		decides = system
	}
	switch op {
	case OpRead, OpConnect:
		return true, decides
	case OpWrite:
		if it := p.closedBy(op, at); it != nil && !view.Write && it.Blocks() {
			decides = it
		}
		return view.Write, decides
	case OpExec:
		if !view.NoExec {
			return true, decides
		}
		if it := p.find(KindDefault, "execution "); it != nil {
			decides = it
		}
	}
	return false, decides
}

// socket returns the item of a listed socket that may be connected to.
func (p *Plan) socket(op Operation, at string) *Item {
	for i, it := range p.Items {
		if op == OpConnect && it.Kind == KindUnix && it.Target == at && it.Fate == Enforced {
			return &p.Items[i]
		}
	}
	return nil
}

// judgeOwn decides for what every run has of its own: the root, /etc's named files,
// /proc, /dev and /run/bourn.
func (p *Plan) judgeOwn(op Operation, at string) (bool, *Item) {
	everything := p.find(KindDefault, "files: ")
	if it := p.closedBy(op, at); it != nil {
		return false, it
	}
	device := slices.Contains(deviceNodes, at)
	readable := at == "/" || slices.Contains(p.Copies, at) || slices.ContainsFunc(p.Files, func(f File) bool { return f.Path == at }) || under(at, "/proc") || device || under(at, "/run/bourn")
	switch {
	case op == OpRead && readable, op == OpWrite && device, op == OpExec && at == "/run/bourn/bourn":
		return true, p.find(KindDefault, "system paths")
	}
	return false, everything
}

// deviceNodes are the devices of a run's own /dev.
var deviceNodes = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}

// closedBy returns the deny or protect item that names at or a parent of it.
func (p *Plan) closedBy(op Operation, at string) *Item {
	for i, it := range p.Items {
		if it.Closes(op) && under(at, it.Target) {
			return &p.Items[i]
		}
	}
	return nil
}

func (p *Plan) item(i int) *Item {
	if i < 0 {
		return nil
	}
	return &p.Items[i]
}

// find returns the first item of a kind whose target begins with prefix.
func (p *Plan) find(kind Kind, prefix string) *Item {
	for i, it := range p.Items {
		if it.Kind == kind && len(it.Target) >= len(prefix) && it.Target[:len(prefix)] == prefix {
			return &p.Items[i]
		}
	}
	return nil
}

// Grantable returns the nearest existing ancestor of a refused target that a person
// could grant, or "" when a deny or a protection decides and no grant can mend it.
// exists says whether a path exists on the host.
func (p *Plan) Grantable(a Answer, refuse func(string) string, exists func(string) bool) string {
	if a.Allowed == "allowed" || a.Operation == OpConnect {
		return ""
	}
	if a.Item != nil && (a.Item.Kind == KindDeny || a.Item.Kind == KindProtect) {
		return ""
	}
	for at := path.Clean(a.Resolved); at != "/" && at != "."; at = path.Dir(at) {
		if !exists(at) {
			continue
		}
		if refuse(at) == "" {
			return at
		}
		return ""
	}
	return ""
}
