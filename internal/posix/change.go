package posix

import (
	"fmt"
	"strings"
)

// A Do says what a change does. The list is closed.
type Do string

// What changes do, in the order in which a plan has them: what somebody loses first, what is
// made before what needs it, the registry's gains last.
const (
	NarrowRegistry Do = "narrow-registry" // the helper's registry, without what is no longer given
	LockUser       Do = "lock-user"       // no password opens the account; with Expire nothing does
	RemoveMember   Do = "remove-member"   // a user from a group
	Stop           Do = "stop"            // the running processes of a user: they keep their groups for life
	CreateGroup    Do = "create-group"    //
	CreateUser     Do = "create-user"     // with a locked password
	MendUser       Do = "mend-user"       // home directory and shell
	AddMember      Do = "add-member"      // a user to a group
	MakeDirectory  Do = "make-directory"  //
	MendDirectory  Do = "mend-directory"  // owner, group and mode
	Reown          Do = "re-own"          // what a leaver owns in a circle becomes root's
	Mount          Do = "mount"           // a workspace root as a mount of its own
	WriteRegistry  Do = "write-registry"  // the helper's registry, as everything is now
)

// A Change is one thing that must be done. Do says which other fields count.
type Change struct {
	Do    Do     `json:"do"`
	User  string `json:"user,omitempty"`  // a user name
	Group string `json:"group,omitempty"` // a group name
	UID   uint32 `json:"uid,omitempty"`
	GID   uint32 `json:"gid,omitempty"`
	// Path is the directory, or the home of a user.
	Path string `json:"path,omitempty"`
	Mode uint32 `json:"mode,omitempty"` // as in chmod(2)
	// Expire: lock-user ends the account too.
	Expire bool `json:"expire,omitempty"`
	// Movable is the uid of the person who can exchange the directory, because its parent is
	// theirs: only what is root's or their own, and their own group's, is mended.
	Movable  uint32    `json:"movable,omitempty"`
	Registry *Registry `json:"registry,omitempty"`
}

// String returns the change as a line for people.
func (c Change) String() string {
	switch c.Do {
	case NarrowRegistry, WriteRegistry:
		active := 0
		for _, e := range c.Registry.People {
			if e.Active {
				active++
			}
		}
		return fmt.Sprintf("%s: %d active people, %d circles", c.Do, active, len(c.Registry.Circles))
	case LockUser:
		if c.Expire {
			return fmt.Sprintf("%s %s and end the account", c.Do, c.User)
		}
		return fmt.Sprintf("%s %s", c.Do, c.User)
	case RemoveMember:
		return fmt.Sprintf("%s %s from %s", c.Do, c.User, c.Group)
	case AddMember:
		return fmt.Sprintf("%s %s to %s", c.Do, c.User, c.Group)
	case Stop:
		return fmt.Sprintf("%s what %s (%d) runs", c.Do, c.User, c.UID)
	case CreateGroup:
		return fmt.Sprintf("%s %s (%d)", c.Do, c.Group, c.GID)
	case CreateUser:
		return fmt.Sprintf("%s %s (%d:%d) with home %s", c.Do, c.User, c.UID, c.GID, c.Path)
	case MendUser:
		return fmt.Sprintf("%s %s: home %s, shell %s", c.Do, c.User, c.Path, nologin)
	case MakeDirectory, MendDirectory:
		return fmt.Sprintf("%s %s %d:%d %04o", c.Do, c.Path, c.UID, c.GID, c.Mode)
	case Reown:
		return fmt.Sprintf("%s what %s (%d) owns in %s", c.Do, c.User, c.UID, c.Path)
	case Mount:
		return fmt.Sprintf("%s %s on itself", c.Do, c.Path)
	}
	return string(c.Do)
}

// Takes reports whether somebody loses something by the change.
func (c Change) Takes() bool {
	switch c.Do {
	case NarrowRegistry, LockUser, RemoveMember, Stop, Reown:
		return true
	case CreateGroup, CreateUser, MendUser, AddMember, MakeDirectory, MendDirectory, Mount, WriteRegistry:
	}
	return false
}

// A Problem is why a plan leaves something out.
type Problem struct {
	Subject string `json:"subject"` // whose or what: a name, a path, a range
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
	// Blocks: the plan gives nothing to anybody until this is mended. What takes away is planned all the same.
	Blocks bool `json:"blocks"`
}

func (p Problem) String() string { return strings.TrimSpace(p.Subject + ": " + p.Text) }
