package run

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

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

// maxRefusals bounds what a run can make its launcher keep of each class.
const maxRefusals = 500

// maxInOrder is up to how many refusals stay in their order. Of more a person may see the
// first alone: what leads into the host's own network comes before the rest.
const maxInOrder = 10

// A refusalClass is what refusals must not hide each other across: whoever makes many of
// one class hides only others of it.
type refusalClass int

const (
	refusedMetadata refusalClass = iota // a metadata service, which gives out the host's credentials
	refusedLink                         // link-local
	refusedPrivate                      // an address of a private network
	refusedHost
	refusedFile
)

// classOf returns the class of a refusal. Of a name that leads to an address the reason
// begins with that.
func classOf(op policy.Operation, target, reason string) refusalClass {
	if op != policy.OpConnect {
		return refusedFile
	}
	h, err := policy.ParseHost(target)
	addr := h.Addr
	if err != nil || !addr.IsValid() {
		word, _, _ := strings.Cut(reason, " ")
		if addr, err = netip.ParseAddr(word); err != nil {
			return refusedHost
		}
	}
	switch what := policy.Special(addr); {
	case strings.HasPrefix(what, "a metadata service"):
		return refusedMetadata
	case strings.HasPrefix(what, "link-local"):
		return refusedLink
	case strings.HasPrefix(what, "private"):
		return refusedPrivate
	}
	return refusedHost
}

// refusals gathers them from several goroutines.
type refusals struct {
	mu   sync.Mutex
	all  []Refusal
	at   map[[3]string]int
	kept map[refusalClass]int
	more int // further ones that were not kept
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
	class := classOf(op, target, reason)
	if r.kept[class] == maxRefusals {
		r.more++
		return
	}
	if r.kept == nil {
		r.kept, r.at = map[refusalClass]int{}, map[[3]string]int{}
	}
	r.kept[class]++
	r.at[key] = len(r.all)
	r.all = append(r.all, Refusal{op, target, reason, 1, grant()})
}

// list returns what was kept, and how many refusals were not.
func (r *refusals) list() (all []Refusal, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = slices.Clone(r.all)
	if len(all) > maxInOrder {
		rank := func(no Refusal) int {
			return int(min(classOf(no.Operation, no.Target, no.Reason), refusedHost))
		}
		slices.SortStableFunc(all, func(a, b Refusal) int { return rank(a) - rank(b) })
	}
	return all, r.more
}
