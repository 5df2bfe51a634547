package run

import (
	"fmt"
	"slices"
	"sync"
)

// unresolved gathers granted names that did not resolve, from several goroutines.
type unresolved struct {
	mu    sync.Mutex
	names []string
	why   []string
}

// maxUnresolved bounds what a run can make its launcher keep: a wildcard grants any number.
const maxUnresolved = 20

// add keeps a name, once.
func (u *unresolved) add(name, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.names) < maxUnresolved && !slices.Contains(u.names, name) {
		u.names, u.why = append(u.names, name), append(u.why, why)
	}
}

// notes say what a person should know of them.
func (u *unresolved) notes() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for i, name := range u.names {
		out = append(out, fmt.Sprintf("%s is granted, and its name did not resolve on this host: %s", name, u.why[i]))
	}
	return out
}
