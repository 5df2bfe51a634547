// Package namespace builds the root of a sealed run inside mount, pid and network
// namespaces that the caller is already alone in: a root in memory that shows the
// plan's binds and nothing else, a private /dev and /proc, and one read-only, mode-000
// object attached over everything that is denied.
//
// # What it upholds
//
// A host path that no bind shows does not exist inside. A bind that is not writable
// is read-only, with everything mounted below it. A masked object cannot be read,
// listed, written, replaced, unlinked or linked, by any path, also by uid 0 without
// capabilities (the mask is its own file system, mode 000 and read-only). Symlinks are
// never followed when a source is opened or a target is found, and an object that is
// not the one the plan was made for stops the build.
//
// # What it does not
//
// It does not keep what a granted program says to a unix socket that lies in a grant.
// A file that the host replaces by rename loses its mask until [Tree.Remask] is called
// again (the kernel detaches mounts whose mount point goes away).
//
// # Needs
//
// CAP_SYS_ADMIN in the user namespace that owns the caller's mount namespace, Linux
// 5.12 (mount_setattr(2)), and a /proc on the host that nothing is mounted over.
package namespace

import (
	"errors"
	"fmt"

	"bourn/internal/policy"
)

// A StepError says which step of the build could not be done. Callers map the step
// to what a person can do about it.
type StepError struct {
	Step string // a name from the list of steps in launch
	Path string
	Err  error
}

func (e *StepError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("cannot %s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("cannot %s %q: %v", e.Step, e.Path, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// Assert returns an error unless the caller is alone in what it is about to change: it
// is pid 1, its user namespace is not the host's, and its mount namespace belongs to
// that user namespace. It must be called before the first mount.
func Assert() error { return assert() }

// Build makes the root and enters it. After it the host's files are out of reach but
// through the tree's own descriptors. The root stays writable until [Tree.Seal].
func Build(plan *policy.Plan, program string) (*Tree, error) { return build(plan, program) }

// ErrInPlace: what was to be closed is closed already.
var ErrInPlace = errors.New("already closed")

// Remask closes what stands at name in the directory dir now, whatever it is; dir is a
// descriptor of a directory inside, which may have been renamed since it was opened. A
// name that does not exist is an error that wraps fs.ErrNotExist, one that is closed
// already is [ErrInPlace]. A symlink cannot be closed: its target is what matters, and it
// is left alone.
func (t *Tree) Remask(dir int, name string, empty bool) error { return t.remask(dir, name, empty) }

// Reguard makes what stands at name in dir now read-only, in place; as for [Tree.Remask].
func (t *Tree) Reguard(dir int, name string) error { return t.reguard(dir, name) }

// Seal makes the root itself read-only.
func (t *Tree) Seal() error { return t.seal() }

// Masked reports whether what stands at a path inside is an object that closes it.
func (t *Tree) Masked(path string) bool { return t.masked(path) }

// LoopbackUp brings up the loopback interface of the caller's network namespace.
func LoopbackUp() error { return loopbackUp() }
