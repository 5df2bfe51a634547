package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"bourn"
	"bourn/internal/posix"
	"bourn/internal/store/cluster"
)

// Where the database of a shared host is, as the package lays it out.
const (
	SharedDatabase       = "/var/lib/bourn/postgres"
	SharedDatabaseSocket = posix.DatabaseSocketDir
)

// A person's OS user may be that person's own role of the database and no other
// (pg_ident.conf): bc_person_x is bc_m_x.
const (
	personUser = `/^bc_person_([a-z0-9]+)$`
	personRole = `bc_m_\1`
)

// SharedCluster returns the cluster of a shared host in dir, with its socket in socketDir. It
// runs as this process's user, who has nothing else to do: control is the OS user of the
// control plane. That user may be the control plane's roles and each person their own; the
// server's user and root may be its administrator, nobody else anything.
func SharedCluster(dir, socketDir, control string) (cluster.Config, error) {
	config := cluster.Config{Dir: dir, SocketDir: socketDir}
	if os.Geteuid() == 0 {
		return config, bourn.WithHint(fmt.Errorf("%w: the database does not run as root", bourn.ErrDenied),
			"systemctl start bourn-db.service runs it as the user bourn-db")
	}
	for _, at := range []string{dir, socketDir} {
		if !filepath.IsAbs(at) || filepath.Clean(at) != at {
			return config, bourn.WithHint(fmt.Errorf("%w: %q is no absolute path in its shortest form", bourn.ErrInvalid, at), "as in --directory "+SharedDatabase+" --socket-directory "+SharedDatabaseSocket)
		}
		if foreign(at) {
			return config, bourn.WithHint(fmt.Errorf("%w: %s belongs to another user than user %d, whom the database would run as", bourn.ErrDenied, at, os.Geteuid()),
				"run it as the user who has it; systemctl start bourn-db.service does")
		}
	}
	own := cluster.CurrentUser()
	if own == "" {
		return config, bourn.WithHint(fmt.Errorf("%w: user %d has no name on this host, and the database knows its users by name", bourn.ErrWeakHost, os.Geteuid()),
			"add an entry for it to /etc/passwd")
	}
	switch u, err := user.Lookup(control); {
	case err != nil:
		return config, bourn.WithHint(fmt.Errorf("%w: there is no user %q for the control plane on this host", bourn.ErrInvalid, bourn.Printable(control)), "name another with --control-user")
	case u.Username == own || u.Uid == "0":
		return config, bourn.WithHint(fmt.Errorf("%w: the control plane's user is the database's or root", bourn.ErrInvalid),
			"name a user of the control plane's own: who takes it over is not to have the database's files")
	}
	config.Ident = []cluster.Ident{{OS: own, Role: cluster.Admin}, {OS: personUser, Role: personRole}}
	if root := cluster.UserName(0); root != "" {
		config.Ident = append(config.Ident, cluster.Ident{OS: root, Role: cluster.Admin})
	}
	for _, role := range []string{"bourn_control", "bourn_member", "bourn_app"} {
		config.Ident = append(config.Ident, cluster.Ident{OS: control, Role: role})
	}
	config.Rules = append(controlRules(), agentRule)
	return config, nil
}

// agentRule lets the roles of agents into the records, each as the OS user that it is mapped to.
const agentRule = "local records +bc_person peer map=bourn"

// controlRules let the control plane's roles into their databases.
func controlRules() []string {
	return []string{
		"local control bourn_control,bourn_member peer map=bourn",
		"local records bourn_control,bourn_app peer map=bourn",
	}
}

// A Shared is the database of a shared host, and the home of its control plane.
type Shared struct{ Home, Directory, Socket, User string }

// FindShared returns the database of the shared host that this is, for root: nobody else but
// the database's user is its administrator. It is nil where the host is one person's, and
// where the home that was asked about has a private database itself.
func FindShared(home string) (*Shared, error) {
	if os.Geteuid() != 0 || hasCluster(ClusterDir(home)) {
		return nil, nil
	}
	if _, err := os.Stat(posix.RegistryPath); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r, err := posix.LoadRegistry(posix.RegistryPath)
	if err != nil {
		return nil, bourn.WithHint(fmt.Errorf("cannot tell whether this host is shared: %w", err), "run: bourn people sync")
	}
	return &Shared{Home: filepath.Join(r.Workspace, ".bourn"), Directory: SharedDatabase, Socket: SharedDatabaseSocket, User: ownerName(SharedDatabase)}, nil
}

// Answers reports whether there is a socket of the server's.
func (s *Shared) Answers() bool {
	info, err := os.Stat(cluster.Socket(s.Socket))
	return err == nil && info.Mode().Type() == fs.ModeSocket
}
