// Package cluster runs a private PostgreSQL server from the system's own programs: made
// on first start, reached by a unix socket and never by TCP, ended with its owner.
//
// # What it upholds
//
// Only OS users named in the ident map get in, each as the roles that stand beside it.
// Two owners of one directory are refused, also while the server of an owner that was
// killed is still on its way out. A server below [Minimum] is refused.
//
// # What it does not
//
// Who is the OS user that the server runs as is its administrator, and so is root.
//
// # Needs
//
// PostgreSQL 15 or newer: initdb and postgres, of the same version.
package cluster
