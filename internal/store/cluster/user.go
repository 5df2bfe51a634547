package cluster

import (
	"os"
	"os/user"
	"strconv"
)

// CurrentUser is the name of this process's user as peer authentication sees it: it
// comes from the password database, and a user without an entry gets in nowhere.
func CurrentUser() string { return UserName(uint32(os.Geteuid())) }

// UserName is the name of an OS user, and "" for one that has none.
func UserName(uid uint32) string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return u.Username
}
