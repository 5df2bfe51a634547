package launch

import (
	"fmt"
	"os"
	"strconv"

	"bourn"
	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

var streamNames = [3]string{"standard input", "standard output", "standard error"}

// checkStreams refuses standard streams through which a command could get around its
// masks: they lie on the host's mounts. A directory, or a descriptor that only names
// something, is a way into the host's tree; a file that is denied or read-only inside
// could be opened again for writing through /proc/self/fd.
func checkStreams(plan *policy.Plan, streams [3]*os.File) error {
	for i, f := range streams {
		if f == nil {
			continue
		}
		reason, err := streamRefusal(plan, int(f.Fd()))
		if err != nil {
			return fmt.Errorf("cannot examine %s: %w", streamNames[i], err)
		}
		if reason != "" {
			return bourn.WithHint(fmt.Errorf("%w: %s is %s", bourn.ErrInvalid, streamNames[i], reason),
				"redirect it from or to another file, or a pipe: cat FILE | bourn run …")
		}
	}
	return nil
}

func streamRefusal(plan *policy.Plan, fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return "", err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return "a directory", nil
	case flags&unix.O_PATH != 0:
		return "open as a path only", nil
	}
	at, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	same := func(o policy.Object, path string) bool {
		return o.Dev == uint64(st.Dev) && o.Ino == st.Ino || at != "" && policy.Under(at, path)
	}
	for _, m := range plan.Masks {
		if same(m.Object, m.Path) {
			return "a file that is denied: " + bourn.Printable(m.Path), nil
		}
	}
	for _, g := range plan.Guards {
		if !g.Pin && same(g.Object, g.Path) {
			return "a file that is read-only inside: " + bourn.Printable(g.Path), nil
		}
	}
	return "", nil
}
