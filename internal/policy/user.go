package policy

import "fmt"

// A User is an account of the host's.
type User struct {
	Name     string
	UID, GID int
	Groups   []int // all of its groups; GID may be among them
}

func (u *User) String() string { return fmt.Sprintf("%s (%d)", u.Name, u.UID) }

// becomes returns whom the command has to become: only root's can be somebody else.
func (r *Request) becomes() *User {
	if !r.Root {
		return nil
	}
	return r.User
}

// user adds the item that says as whom the command runs.
func (c *compiler) user() {
	if c.req.User == nil {
		return
	}
	item := c.keep(KindDefault, "run_as: "+c.req.User.String(), c.req.UserFrom, byNamespace)
	if c.plan.User == nil {
		c.plan.Items[item].Caveat = "it is the user who starts the run"
		return
	}
	c.plan.Items[item].Caveat = "what is granted has the modes that it has outside; a grant opens the directories above it, and no file"
}
