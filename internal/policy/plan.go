// Package policy turns what a run asks for and what the host says of it into a plan:
// every item with its fate, and the operations that install it. It is pure: the same
// request gives the same plan, nothing is opened and nothing is changed.
//
//	profile, flags ─┐
//	host facts ─────┼─→ Compile ─→ Plan ─→ (launch installs it) ─→ report
//	host features ──┘
//
// Precedence: a protected path can never be granted; a deny closes everything below
// it, whatever is granted there; a write grant includes reading; of two grants the
// longer path decides, except that a read grant inside a write grant stays writable.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"sort"
	"strconv"
)

// A Plan is what a seal installs. Paths are canonical, parents stand before children.
type Plan struct {
	Items []Item

	Binds   []Bind
	Private []Private
	Links   []Link // symlinks made in the root
	Copies  []string
	Files   []File
	Stubs   []string // missing denied paths in private places: created there and masked
	Masks   []Mask
	Guards  []Guard
	Watches []Watch
	Late    []Late
	// Placeholders are made on the host before the seal, parents before children, and masked.
	Placeholders []Placeholder

	Network Network
	Local   []netip.Addr // granted addresses that the run's loopback takes over
	Listen  []Listen

	Nested  bool // programs may make user, pid and network namespaces
	Exec    ExecMode
	Command []string
	Cwd     string
	Env     []string
	Limits  Limits
	GitUser string
	User    *User // whom the command becomes, nil for whoever starts it
}

// A Bind shows a host path at the same place inside.
type Bind struct {
	Path   string
	Dir    bool
	Write  bool
	NoExec bool
	Source string // where it comes from, "" for Path itself
	Object Object
	Item   int // the item it carries out, -1 for none
}

// A Private place is an empty, writable directory in memory, for this run alone.
type Private struct {
	Path   string
	NoExec bool
}

// A File is one of the run's own in /etc.
type File struct{ Path, Text string }

// A Listen is a listener in the run's network namespace that is served from outside.
type Listen struct {
	Use  ListenUse
	Addr netip.AddrPort
}

// A ListenUse says what a listener is for.
type ListenUse string

const (
	ListenProxy  ListenUse = "proxy"  // HTTP and SOCKS5
	ListenNames  ListenUse = "names"  // DNS over UDP
	ListenNames2 ListenUse = "names2" // DNS over TCP
	ListenDirect ListenUse = "direct" // for programs that ignore the proxy
)

// A Mask closes an object.
type Mask struct {
	Path   string
	Dir    bool
	Empty  bool
	Object Object
	Item   int
}

// A Guard makes an object read-only inside a writable tree. A pin is a guard that
// stays writable: it only keeps the name.
type Guard struct {
	Path   string
	Dir    bool
	Pin    bool
	Object Object
	Item   int
}

// A Watch asks for a mask as soon as something appears: Name in Dir, or whatever
// matches Pattern below Dir. A guard is renewed as a guard.
type Watch struct {
	Dir     string
	Name    string
	Pattern string
	Empty   bool
	Guard   bool
	Item    int
}

// A Placeholder is a denied path of the host at which an empty object stands for the time
// of the run.
type Placeholder struct {
	Path string
	Item int
}

// A Late place is looked at again when the run ends: one that did not exist at the start
// and exists then, or is not the object any more that it was, runs code on the host.
type Late struct {
	Path, Reason string
	Object       Object // what stood there at the start, zero for nothing
}

// Backend names what keeps a sealed run on Linux.
const Backend = "linux-namespace+landlock"

// A State says whether a sandbox holds.
type State string

const (
	StateEnforcing  State = "enforcing"
	StateAdvisory   State = "advisory"
	StateNotRunning State = "not_running"
	StateUnknown    State = "unknown"
)

// A Sandbox is the header of a report: whether the kernel keeps it, and by what.
type Sandbox struct {
	State   State  `json:"state"`
	Backend string `json:"backend"`
}

// Generation is the SHA-256, in hex, over backend, state and every deny and protect
// item: a start with the same ones keeps it, and an added grant does not change it.
func Generation(sandbox Sandbox, items []Item) string {
	var lines []string
	for _, it := range items {
		if it.Kind == KindDeny || it.Kind == KindProtect {
			line := quoted(string(it.Kind), it.Target, string(it.Fate))
			if len(it.Operations) > 0 {
				line += " " + quoted(it.From) + fmt.Sprint(" ", it.Operations)
			}
			lines = append(lines, line)
		}
	}
	sort.Strings(lines)
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", sandbox.Backend, sandbox.State)
	for _, l := range lines {
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func quoted(words ...string) string {
	var b []byte
	for i, w := range words {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendQuote(b, w)
	}
	return string(b)
}

// Shows reports whether what stands at a path on the host is shown inside.
func (p *Plan) Shows(at string) bool {
	view, shown := p.view(at)
	return shown && view.Source == "" && !p.masked(at)
}

// Root returns the grant in which a host path is shown, and whether it can be written
// there. A run cannot rename anything out of it.
func (p *Plan) Root(at string) (root string, write bool) {
	view, shown := p.view(at)
	if !shown || view.Source != "" {
		return "", false
	}
	return view.Path, view.Write
}

// AsRecorded returns items as they are while nothing runs: what would be enforced is
// recorded, what would be dropped stays dropped with its reason.
func AsRecorded(items []Item) []Item {
	out := make([]Item, len(items))
	for i, it := range items {
		if it.Fate == Enforced {
			it.Fate = Recorded
		}
		out[i] = it
	}
	return out
}

// Shared reports whether the place is one that programs expect to be shared: sticky,
// writable by everyone.
func (p Private) Shared() bool {
	return p.Path == "/tmp" || p.Path == "/var/tmp" || p.Path == "/dev/shm"
}
