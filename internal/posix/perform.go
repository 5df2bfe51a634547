package posix

import (
	"fmt"
	"slices"

	"bourn"
)

// Options say where and how [Perform] works.
type Options struct {
	// Root is put before every path. "" is the machine itself, which needs root.
	Root string
	// Sysusers lets systemd-sysusers(8) make users and groups, where the host has it. It
	// knows what else the distribution does; false writes the files here.
	Sysusers bool
	// Stop ends every process of a uid and returns when none is left. A plan that stops
	// somebody is refused as a whole where it is nil.
	Stop func(uid uint32) error
	// Registry is the path of the helper's registry; "" is [RegistryPath].
	Registry string
}

// A Result is what a performance did.
type Result struct {
	Done []Change
	// Left are files of leavers that stay theirs, with the reason: they are within the
	// circle's directory, which the leaver cannot enter any more. And directories that are not made or
	// mended because the person whose directory they stand in put something else there.
	Left []Left
}

// A Left is one path that was not changed.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Perform does changes, in their order, and stops at the first that it cannot do: what was
// done stays, and the next plan goes on from there. The caller holds the state's lock, see
// [UpdateState], from before [ReadHost] until here. The helper does not: what it revokes
// meanwhile stays revoked in every registry that is written here.
//
// Root's work is by descriptor: every directory on the way is opened without following links
// and must be changeable by root alone. What stands where a directory should be, and is none, is
// ErrDenied and named.
func Perform(changes []Change, opts Options) (Result, error) {
	if opts.Registry == "" {
		opts.Registry = RegistryPath
	}
	if opts.Stop == nil && slices.ContainsFunc(changes, func(c Change) bool { return c.Do == Stop }) {
		return Result{}, fmt.Errorf("cannot perform a plan that ends processes: %w: nobody is there to end them", bourn.ErrInvalid)
	}
	var result Result
	if len(changes) == 0 {
		return result, nil
	}
	on, err := open(opts)
	if err != nil {
		return result, err
	}
	defer on.close()
	for len(changes) > 0 {
		n := batch(changes)
		left, err := on.perform(changes[:n])
		result.Left = append(result.Left, left...)
		if err != nil {
			return result, err
		}
		if len(left) == 0 || changes[0].Do == Reown { // which does the rest
			result.Done = append(result.Done, changes[:n]...)
		}
		changes = changes[n:]
	}
	return result, nil
}

// batch returns how many changes at the beginning are done at once: the account files are
// written once for many.
func batch(changes []Change) int {
	n := 0
	for n < len(changes) && changes[n].accounts() == changes[0].accounts() && changes[0].accounts() != notAccounts {
		n++
	}
	return max(n, 1)
}

type accountWork int

const (
	notAccounts accountWork = iota
	rewritesAccounts
	createsAccounts // what systemd-sysusers can do
)

func (c Change) accounts() accountWork {
	switch c.Do {
	case LockUser, RemoveMember, MendUser:
		return rewritesAccounts
	case CreateGroup, CreateUser, AddMember:
		return createsAccounts
	case NarrowRegistry, Stop, MakeDirectory, MendDirectory, Reown, Mount, WriteRegistry:
	}
	return notAccounts
}

// verify compares what was to be created with what there is: systemd-sysusers gives another
// number, with a success, where one is taken.
func verify(changes []Change, users []User, groups []Group) error {
	byName, byGroup := map[string]User{}, map[string]Group{}
	for _, u := range users {
		byName[u.Name] = u
	}
	for _, g := range groups {
		byGroup[g.Name] = g
	}
	for _, c := range changes {
		done := true
		switch c.Do {
		case CreateGroup:
			done = byGroup[c.Group].GID == c.GID
		case CreateUser:
			u := byName[c.User]
			done = u.UID == c.UID && u.GID == c.GID && u.Home == c.Path
		case AddMember:
			done = slices.Contains(byGroup[c.Group].Members, c.User)
		case NarrowRegistry, LockUser, RemoveMember, Stop, MendUser, MakeDirectory, MendDirectory, Reown, Mount, WriteRegistry:
		}
		if !done {
			return bourn.WithHint(fmt.Errorf("cannot %s: %w: the host has something else there", c, bourn.ErrConflict),
				"look at passwd and group; plan again once they are right")
		}
	}
	return nil
}

// free refuses what create would collide with, before systemd-sysusers works around it.
func free(changes []Change, users []User, groups []Group) error {
	names, uids, gids := map[string]bool{}, map[uint32]bool{}, map[uint32]bool{}
	for _, u := range users {
		names["u "+u.Name], uids[u.UID] = true, true
	}
	for _, g := range groups {
		names["g "+g.Name], gids[g.GID] = true, true
	}
	for _, c := range changes {
		if c.Do == CreateGroup && (names["g "+c.Group] || gids[c.GID]) || c.Do == CreateUser && (names["u "+c.User] || uids[c.UID]) {
			return fmt.Errorf("cannot %s: %w: the name or the number is taken", c, bourn.ErrConflict)
		}
	}
	return nil
}
