package launch

import (
	"errors"
	"hash/maphash"
	"os"
	"path"
	"strings"

	"bourn/internal/policy"
	"bourn/internal/sandbox/notify"

	"golang.org/x/sys/unix"
)

// maxAccesses bounds how many paths are told apart in one run.
const maxAccesses = 20000

// watch has the calls that take a path reported from here on. Those of the sealing thread
// itself, which is under it as well, are passed over.
func (c *child) watch() error {
	if !c.order.Watch {
		return nil
	}
	fd, err := notify.Install()
	if err != nil {
		return err
	}
	self := unix.Gettid()
	seen, seed := map[uint64]bool{}, maphash.MakeSeed()
	go func() {
		err := notify.Serve(fd, func(e notify.Event) {
			key := maphash.String(seed, string(e.Op)+e.Path)
			if e.Pid == self || seen[key] || len(seen) > maxAccesses {
				return
			}
			seen[key] = true
			switch {
			case e.Path == "" || len(seen) > maxAccesses: // it may not be looked at, or there are more
				_ = c.link.send(message{Kind: kindAccess})
			case c.looksRefused(access{e.Op, e.Path}):
				_ = c.link.send(message{Kind: kindAccess, Step: string(operations[e.Op]), Data: e.Path})
			}
		})
		if err != nil { // from here on every watched call would fail
			c.fail(stepError(stepWatch, err))
			os.Exit(exitBroken)
		}
	}()
	return nil
}

type access struct {
	op   notify.Op
	path string
}

var operations = map[notify.Op]policy.Operation{
	notify.Read: policy.OpRead, notify.Write: policy.OpWrite, notify.Exec: policy.OpExec,
}

// looksRefused reports whether a path is absent, closed, or for writing read-only. Nothing
// is decided by it: the parent asks the plan, and what it tells is told to a person.
func (c *child) looksRefused(a access) bool {
	if strings.HasPrefix(a.path, "/proc/") || strings.HasPrefix(a.path, "/sys/") || strings.HasPrefix(a.path, "/dev/") {
		return false // every run has its own, or none
	}
	if c.tree.Masked(a.path) {
		return true
	}
	var fs unix.Statfs_t
	err := unix.Statfs(a.path, &fs)
	if errors.Is(err, unix.ENOENT) && a.op == notify.Write {
		err = unix.Statfs(path.Dir(a.path), &fs)
	}
	switch {
	case err != nil:
		return true
	case a.op == notify.Write:
		return fs.Flags&unix.ST_RDONLY != 0
	case a.op == notify.Exec:
		return fs.Flags&unix.ST_NOEXEC != 0
	}
	return false
}
