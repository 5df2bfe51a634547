package daemon

import (
	"fmt"
	"os"
	"strings"

	"bourn"
)

// sharesNamespaces returns an error unless the process with that directory in /proc is in the
// user, pid and mount namespace of this one. It is for processes of other users, whose
// namespaces only root is told; what these three files say everybody may read (proc(5)):
//
//   - uid_map: seen from here, only a process in the same user namespace, or one that maps
//     every number to itself, has the map that this one has.
//   - status, NSpid: a number for each pid namespace from this one's down; one is this one.
//   - mountinfo: a mount's number is its own in the whole kernel, so the first one of another
//     mount namespace has another.
func sharesNamespaces(dir string) error {
	for _, c := range []struct {
		name, file string
		part       func(string) string
	}{
		{"user", "uid_map", func(s string) string { return strings.Join(strings.Fields(s), " ") }},
		{"pid", "status", pidDepth},
		{"mnt", "mountinfo", func(s string) string {
			first, _, _ := strings.Cut(s, " ")
			return first
		}},
	} {
		theirs, err := os.ReadFile(dir + "/" + c.file)
		if err != nil {
			return errHidden(c.file)
		}
		ours, err := os.ReadFile("/proc/self/" + c.file)
		if err != nil {
			return fmt.Errorf("%w: cannot tell the own %s namespace: %w", bourn.ErrInternal, c.name, err)
		}
		is, want := c.part(string(theirs)), c.part(string(ours))
		if is == "" || is != want {
			return errSealed("it is in another " + c.name + " namespace")
		}
	}
	return nil
}

// errHidden refuses a peer whose file in /proc cannot be read. Everybody may read these,
// unless /proc was mounted to keep them from it: then a person is refused for no fault of theirs.
func errHidden(file string) error {
	return bourn.WithHint(errSealed("its "+file+" cannot be read"),
		"ask the person who started this run; where /proc is mounted with hidepid, it needs gid= with a group of the control plane's (proc(5))")
}

// pidDepth is how many pid namespaces from the reader's down a process is in, as text.
func pidDepth(status string) string {
	for line := range strings.Lines(status) {
		if numbers, is := strings.CutPrefix(line, "NSpid:"); is {
			return fmt.Sprint(len(strings.Fields(numbers)))
		}
	}
	return ""
}
