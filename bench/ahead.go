package main

import "slices"

const reachName = "reach"

// aheads say why a peer may be ahead on a row: what it does not do. They are printed
// only where it was, and a row without one is a fault of Bourn's to be found.
var aheads = []struct {
	rows  []string
	peers []string
	why   string
}{
	{[]string{"launch"}, []string{"go-landlock", "landrun"},
		"it becomes the command (see memory). Bourn first makes namespaces, a root, an init and a record of the run."},
	{[]string{"launch"}, []string{bwrapName},
		"its root is the same. Bourn also looks for what runs code later, adds Landlock and a filter of system calls, and keeps a record of the run; it is two starts of a Go program."},
	{[]string{"scan", "git"}, []string{bwrapName, "go-landlock", "landrun", "firejail", "codex", "sandbox-runtime"},
		"in Bourn mounts, Landlock and the filter of system calls all stand before an open."},
	{[]string{"net-down", "net-up"}, []string{"go-landlock", "landrun"},
		"the command uses the host's network and only the port is looked at. Bourn has none inside and carries every byte across, since it checks the host."},
	{[]string{"memory"}, []string{"go-landlock", "landrun"},
		"it becomes the command: nothing stays. Bourn's parent stays to broker, end and record."},
	{[]string{"memory"}, []string{bwrapName, "firejail"},
		"what stays only waits. Bourn's parent stays to broker, end and record, in Go."},
}

// whyAhead returns the reason.
func whyAhead(row, peer string) string {
	for _, a := range aheads {
		if slices.Contains(a.rows, row) && slices.Contains(a.peers, peer) {
			return a.why
		}
	}
	return "no reason is known."
}
