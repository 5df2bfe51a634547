// Package placeholder makes and removes the empty objects that stand at a denied path which
// does not exist, so that nothing else can come to stand there during a run.
//
// An object is made under a name that nobody else uses, and gets its own name once its
// identity is known: between the two its maker writes that down.
//
//	Make(temp) ──→ identity written down ──→ Place(temp, name) ──→ Remove(name)
//
// # What it upholds
//
// Everything is done below a directory descriptor. Placing replaces nothing. What is removed
// is the object that was made, and still empty: what a person put in its place, wrote into it
// or changed the mode of stays.
//
// # What it does not
//
// Who writes into the object in the instant of its removal, through a descriptor that was
// opened before, loses what was written.
//
// # Needs
//
// Linux. Directories need renameat2(2) with RENAME_NOREPLACE.
package placeholder

import (
	"errors"

	"bourn/internal/policy"
	"bourn/internal/sandbox/survey"
)

var (
	// ErrOther says that what stands at a name is not what was made.
	ErrOther = errors.New("something else stands there")
	// ErrFilled says that a directory which was made holds other things now.
	ErrFilled = errors.New("it holds other things now")
)

// Prefix begins the names under which objects are made.
const Prefix = ".bourn-"

// A State is what stands at a name.
type State struct {
	Object  policy.Object
	Changed int64 // time of the last change of the inode (ctime), nanoseconds since 1970
	Dir     bool
	Empty   bool // of a file: regular, without content and permissions
}

// Is reports whether s is the object that was made as want, and unchanged. After another boot
// a device may have another number: then inode and birth decide where both are known. A
// directory may hold other things, and its time of change does not count; neither does one
// that is not known.
func (s State) Is(want State, sameBoot bool) bool {
	if !Same(s.Object, want.Object, sameBoot) || s.Dir != want.Dir {
		return false
	}
	return s.Dir || s.Empty && (want.Changed == 0 || s.Changed == want.Changed)
}

// Same reports whether two identities are of one object.
func Same(a, b policy.Object, sameBoot bool) bool {
	if !sameBoot && a.Born != 0 && b.Born != 0 {
		a.Dev = b.Dev
	}
	return survey.ID(a).Is(survey.ID(b))
}

// A Dir is an open directory.
type Dir struct {
	file int
	path string
}

// Open opens a directory through no symlink.
func Open(path string) (*Dir, error) { return open(path) }

// Close lets go of the directory.
func (d *Dir) Close() { d.close() }

// Object returns the directory's identity.
func (d *Dir) Object() (policy.Object, error) {
	s, err := d.stat("")
	return s.Object, err
}

// Stat returns what stands at a name; fs.ErrNotExist is nothing.
func (d *Dir) Stat(name string) (State, error) { return d.stat(name) }

// Make makes an empty file without permissions, or a directory, which must not be there yet.
func (d *Dir) Make(temp string, dir bool) (State, error) { return d.make(temp, dir) }

// Place gives what was made its own name, and returns it as it is then. Something that stands
// there is fs.ErrExist.
func (d *Dir) Place(temp, name string) (State, error) {
	if err := d.place(temp, name); err != nil {
		return State{}, err
	}
	return d.stat(name)
}

// Remove removes the object at a name if it is the wanted one; temp is a name that nobody
// else uses. ErrOther says that something else stands there, and stays. A directory that is
// not empty is ErrFilled.
func (d *Dir) Remove(name, temp string, want State, sameBoot bool) error {
	return d.remove(name, temp, want, sameBoot)
}

// Sync settles on disk what was made, placed and removed in the directory, as far as its file
// system lets its owner do so.
func (d *Dir) Sync() error { return d.sync() }

// Gone reports whether an error of Open or Stat says that nothing stands there, or nothing that
// can be reached without a symlink.
func Gone(err error) bool { return gone(err) }
