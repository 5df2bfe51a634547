package posix

import (
	"fmt"
	"path"
	"strings"

	"bourn"
)

// DefaultWorkspace is where the workspace of a shared host is.
const DefaultWorkspace = "/var/lib/bourn/workspace"

// Accounts of the service itself. A host that has one of these names already, from a
// package, keeps its number; else it gets one from the beginning of the range.
const (
	serviceUser = "bourn"     // the control plane
	sharedGroup = "bc_shared" // everybody
	cacheUser   = "bc_cache"  // fills the package cache
)

// fixed lists the service's accounts; the index is the number's place in the range.
var fixed = []struct {
	name string
	user bool
	home string // below the workspace
}{
	{serviceUser, true, ".bourn"},
	{sharedGroup, false, ""},
	{cacheUser, true, "shared/cache/dependencies"},
}

const (
	privateDir = "private/people"
	circlesDir = "circles"
	publicDir  = "shared/public"
	skillsDir  = "skills"
	// nologin: nobody signs in to the host as a person. A person's terminal is the actor's,
	// which chooses its shell itself.
	nologin = "/usr/sbin/nologin"
)

// A directory of the workspace, as it must be.
type directory struct {
	path       string
	uid, gid   uint32
	mode       uint32 // permissions and set-group-id, as in chmod(2)
	also       uint32 // another mode that is left as found, or 0
	root       bool   // a workspace root: a mount of its own
	writableBy uint32 // the uid of the person who can exchange it, as its parent is theirs; or 0
}

// numbers are the uids and gids of the service's accounts on one host.
type numbers struct{ service, serviceGroup, shared, cache, cacheGroup uint32 }

// directories returns the workspace's directories, parents first.
func directories(s State, workspace string, n numbers) []directory {
	at := func(rel string) string { return path.Join(workspace, rel) }
	list := []directory{
		{path: workspace, mode: 0o711},
		{path: at("private"), mode: 0o711},
		{path: at(privateDir), mode: 0o711},
		{path: at(circlesDir), mode: 0o711},
		{path: at("shared"), mode: 0o711},
		{path: at("shared/cache"), mode: 0o711},
		{path: at(publicDir), uid: n.service, gid: n.shared, mode: 0o2775, root: true},
		{path: at("shared/cache/dependencies"), uid: n.cache, gid: n.cacheGroup, mode: 0o2755, root: true},
		{path: at(skillsDir), uid: n.service, gid: n.serviceGroup, mode: 0o755, root: true},
		// 0711 where the database's own user passes through it; every entry is 0700 then.
		{path: at(".bourn"), uid: n.service, gid: n.serviceGroup, mode: 0o700, also: 0o711, root: true},
	}
	for _, p := range s.People {
		if p.Removed {
			continue
		}
		home := at(privateDir + "/" + p.ID)
		list = append(list,
			directory{path: home, gid: p.UID, mode: 0o2770, root: true},
			directory{path: home + "/tmp", gid: p.UID, mode: 0o2770, writableBy: p.UID},
			directory{path: home + "/artifacts", gid: p.UID, mode: 0o2770, writableBy: p.UID})
	}
	for _, c := range s.Circles {
		if !c.Removed {
			list = append(list, directory{path: circlePath(workspace, c.ID), gid: c.GID, mode: 0o2770, root: true})
		}
	}
	return list
}

func circlePath(workspace, id string) string { return path.Join(workspace, circlesDir, id) }

// checkWorkspace refuses a path that a passwd line or sysusers.d(5) would read as something else.
func checkWorkspace(dir string) error {
	for _, r := range dir {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-", r)) {
			return fmt.Errorf("%w workspace %q: use letters, digits, '/', '.', '_' and '-'", bourn.ErrInvalid, dir)
		}
	}
	if !path.IsAbs(dir) || path.Clean(dir) != dir || path.Dir(dir) == "/" {
		return fmt.Errorf("%w workspace %q: must be a clean absolute path below another directory", bourn.ErrInvalid, dir)
	}
	return nil
}
