package namespace

import (
	"path"
	"slices"
	"strconv"

	"bourn/internal/policy"

	"golang.org/x/sys/unix"
)

// Where the command becomes another user than the caller, the root and what Bourn puts
// there are the caller's, for the user to read; the home, the terminal and what is made on
// the way to a grant in a private place are the user's.

// owned gives what is made in a file system that is being configured to a user.
func owned(fs int, user *policy.User) error {
	if user == nil {
		return nil
	}
	if err := unix.FsconfigSetString(fs, "uid", strconv.Itoa(user.UID)); err != nil {
		return err
	}
	return unix.FsconfigSetString(fs, "gid", strconv.Itoa(user.GID))
}

// give gives what was just made at a path, which is in the directory parent, to the user.
func (t *Tree) give(parent int, at string) error {
	in := func(p policy.Private) bool { return at != p.Path && policy.Under(at, p.Path) }
	if t.user == nil || !slices.ContainsFunc(t.private, in) {
		return nil
	}
	return unix.Fchownat(parent, path.Base(at), t.user.UID, t.user.GID, unix.AT_SYMLINK_NOFOLLOW)
}
