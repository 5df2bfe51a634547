package posix

import "fmt"

// LoadState reads a state's file. It must be root's, or that of who runs this, and changeable by
// nobody else; else it is ErrDenied. One that is not there is ErrNotFound.
func LoadState(name string) (State, error) {
	data, err := readTrusted(name)
	if err != nil {
		return State{}, err
	}
	s, err := ParseState(data)
	if err != nil {
		return State{}, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return s, nil
}

// UpdateState changes a state's file: it holds the file's lock, gives f the state and writes
// what f made of it, whole or not at all, readable by its owner alone. A file that is not there
// begins as fresh, and its directory is made. With an error of f nothing is written.
//
// A number must be on disk before an account has it, so what f changes is written first, and
// the plan is performed under a second call whose f changes nothing: the lock lasts until it returns.
func UpdateState(name string, fresh State, f func(*State) error) error {
	return update(name, fresh, f)
}

// LoadRegistry reads the helper's registry; the rules are those of [LoadState]. A registry
// that cannot be used is a [Refusal], actor_runtime_unavailable.
func LoadRegistry(name string) (Registry, error) {
	data, err := readTrusted(name)
	if err != nil {
		return Registry{}, refuse(RuntimeUnavailable, "cannot use the registry: %v", err)
	}
	r, err := ParseRegistry(data)
	if err != nil {
		return Registry{}, refuse(RuntimeUnavailable, "cannot use the registry %s: %v", name, err)
	}
	return r, nil
}

// Unmount undoes mounts of a plan, the last first. What is no mount stays as it is. It is
// for taking a workspace apart: while people work there, the mounts are what keeps a hard link in its circle.
func Unmount(opts Options, paths []string) error { return unmount(opts, paths) }
