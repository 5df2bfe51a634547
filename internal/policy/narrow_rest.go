package policy

import (
	"cmp"
	"slices"
	"strings"

	"bourn"
)

// hosts narrows what of the network the child reaches. Whatever the parent's mode, a list
// gives no more than its hosts: open becomes restricted, and with no host left it is none.
func (w *narrower) hosts(child *Request) {
	child.Network = cmp.Or(child.Network, NetworkNone)
	if w.n.Hosts == nil {
		return
	}
	child.Hosts = slices.DeleteFunc(child.Hosts, func(h HostWish) bool { return !w.stays(h.From) })
	for _, h := range w.n.Hosts {
		private, why := w.host(h)
		if why != "" {
			w.isDenied(w.nearestHost(h), "connect %s: %s", h, why)
			continue
		}
		if !slices.ContainsFunc(child.Hosts, func(o HostWish) bool { return o.Host == h }) {
			child.Hosts = append(child.Hosts, HostWish{Host: h, From: FromSubagent, Private: private})
		}
	}
	if child.Network == NetworkOpen {
		child.Network = NetworkRestricted
	}
	if len(child.Hosts) == 0 {
		child.Network = NetworkNone
	}
}

// host returns why the parent cannot give a host, or "", and whether its name may lead into
// a private network.
func (w *narrower) host(h Host) (private bool, why string) {
	if h.Name == "" && !h.Addr.IsValid() {
		return false, "it is no host"
	}
	if reason := ProtectedHost(h); reason != "" {
		return false, "protected: " + reason
	}
	open, private := 0, true
	for _, port := range h.Ports() {
		if !slices.ContainsFunc(w.parent.HostDenies, func(d HostWish) bool { return HostRule{Host: d.Host}.closes(h, port) }) {
			open++
		}
		granted, privately := w.reaches(h, port)
		if !granted && w.plan.Network.Mode != NetworkOpen {
			return false, "not granted"
		}
		private = private && privately
	}
	if open == 0 {
		return false, "denied"
	}
	return private, ""
}

// reaches reports whether a grant of the parent's covers a host on a port, and one does that
// lets the name lead into a private network.
func (w *narrower) reaches(h Host, port uint16) (granted, private bool) {
	for _, g := range w.plan.Network.Grants {
		if g.holds(h) && slices.Contains(g.Ports(), port) {
			granted, private = true, private || g.Private
		}
	}
	return granted, private
}

// holds reports whether a grant of h is for everything that one of o is for, ports apart. A
// loopback address is not held by localhost: a grant of the address is one for every name
// that resolves to it.
func (h Host) holds(o Host) bool {
	switch {
	case o.Addr.IsValid() || h.Addr.IsValid():
		return o.Addr == h.Addr
	case o.Suffix:
		return h.Suffix && (o.Name == h.Name || strings.HasSuffix(o.Name, "."+h.Name))
	}
	return h.names(Target{Name: o.Name})
}

// nearestHost names what the parent can give of a host on other ports, or is "".
func (w *narrower) nearestHost(h Host) string {
	for _, g := range w.plan.Network.Grants {
		if g.holds(h) {
			return "the nearest that the parent can give is " + g.Host.String()
		}
	}
	return ""
}

// unix returns the child's unix sockets. Those that the parent cannot write to are left out:
// they stand in a directory that is shown read-only to it, and the child would have them
// without that.
func (w *narrower) unix() []Grant {
	has := func(g Grant) bool {
		return g.Socket && w.parent.Refused(g) == "" && w.may(OpConnect, g.Real) && w.may(OpWrite, g.Real)
	}
	var out []Grant
	for _, g := range w.parent.Unix {
		if has(g) && (w.n.Unix == nil || w.stays(g.From)) {
			out = append(out, g.narrowed(KindUnix))
		}
	}
	for _, at := range w.n.Unix {
		i := slices.IndexFunc(w.parent.Unix, func(g Grant) bool { return g.Real == at && has(g) })
		switch {
		case i < 0:
			w.isDenied("", "connect %s: not granted", bourn.Printable(at))
		case !slices.ContainsFunc(out, func(g Grant) bool { return g.Path == at }):
			g := w.parent.Unix[i].narrowed(KindUnix)
			g.From = FromSubagent
			out = append(out, g)
		}
	}
	return out
}

// builtIn are the variables that stay whoever set them: nothing runs without.
var builtIn = []string{"HOME", "PATH", "PWD", "TMPDIR"}

// env returns the child's environment.
func (w *narrower) env(cwd string) []EnvVar {
	var out []EnvVar
	for _, v := range w.parent.Env {
		if w.n.Env != nil && v.From != "" && !slices.Contains(builtIn, v.Name) && !w.stays(v.From) && !slices.Contains(w.n.Env, v.Name) {
			continue
		}
		if v.Name == "PWD" && w.n.Root != "" {
			v.Value = cwd
		}
		out = append(out, v)
	}
	for _, name := range w.n.Env {
		if !slices.ContainsFunc(out, func(v EnvVar) bool { return v.Name == name && !v.Missing }) {
			w.isDenied("", "env %s: the parent does not have it", bourn.Printable(name))
		}
	}
	return out
}

// tools returns which governed tools are the child's.
func (w *narrower) tools() []string {
	if w.n.Tools == nil {
		return slices.Clone(w.parent.ToolsAmong)
	}
	out := []string{}
	for _, tool := range w.n.Tools {
		stem := strings.TrimSuffix(tool, "*")
		switch {
		case tool == "" || strings.ContainsAny(stem, "*, ") || bourn.Printable(tool) != tool:
			w.isInvalid("\"%s\" is not the name of a tool, nor the beginning of one with a * behind", bourn.Printable(tool))
		case !ToolAmong(w.parent.ToolsAmong, tool):
			w.isDenied("the parent's tools are "+cmp.Or(strings.Join(w.parent.ToolsAmong, ", "), "none"), "tool %s: not among the parent's", tool)
		case !slices.Contains(out, tool):
			out = append(out, tool)
		}
	}
	return out
}

// ToolAmong reports whether a governed tool, or every tool that a pattern names, is among
// those that a list of names and patterns leaves; nil leaves all. See [Request.ToolsAmong].
func ToolAmong(among []string, tool string) bool {
	return among == nil || slices.ContainsFunc(among, func(pattern string) bool {
		stem, open := strings.CutSuffix(pattern, "*")
		return pattern == tool || open && strings.HasPrefix(strings.TrimSuffix(tool, "*"), stem)
	})
}

// execOrder lists the modes, the widest first.
var execOrder = []ExecMode{ExecAny, ExecAllowlist, ExecNone}

// exec returns what the child may execute.
func (w *narrower) exec() ExecMode {
	has := w.plan.Exec
	switch want := cmp.Or(w.n.Exec, has); {
	case !slices.Contains(execOrder, want):
		w.isInvalid("there is no processes.mode \"%s\"", bourn.Printable(string(want)))
	case slices.Index(execOrder, want) < slices.Index(execOrder, has):
		w.isDenied("leave it out, or ask a person to change the parent's", "processes.mode %s: the parent's is %s", want, has)
	default:
		has = want
	}
	return has
}

// limits returns the smaller of each limit.
func (w *narrower) limits() Limits {
	a, b := w.parent.Limits, w.n.Limits
	if min(b.Memory, int64(b.Processes), int64(b.OpenFiles), int64(b.Time)) < 0 {
		w.isInvalid("a limit is negative")
	}
	return Limits{Memory: smaller(a.Memory, b.Memory), Processes: smaller(a.Processes, b.Processes),
		OpenFiles: smaller(a.OpenFiles, b.OpenFiles), Time: smaller(a.Time, b.Time)}
}

// smaller returns the smaller of two limits, of which zero is none.
func smaller[T cmp.Ordered](a, b T) T {
	var none T
	if a == none || b == none {
		return max(a, b)
	}
	return min(a, b)
}
