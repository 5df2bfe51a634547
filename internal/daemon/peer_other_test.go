//go:build !linux

package daemon

// asFiltered is a peer under a filter that only Linux has.
func asFiltered() int { return 2 }
