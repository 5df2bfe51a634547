package store

import (
	"net/url"
	"strings"

	"bourn/internal/store/cluster"
)

// WithLogin returns a server's URL with another role, its password and a database in it.
// A connection string of keywords is taken as well.
func WithLogin(server, role, password, database string) string {
	if u, err := url.Parse(server); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		u.User = url.UserPassword(role, password)
		u.Path = "/" + database
		return u.String()
	}
	// The last of a keyword's values counts.
	return strings.TrimSpace(server) + " " + cluster.Keywords("user", role, "password", password, "dbname", database)
}
