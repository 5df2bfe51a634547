package main

import (
	"fmt"
	"math"
	"slices"

	"bourn"
	"bourn/internal/posix"
)

// registryPath is the registry of people, databasePath says where the database's socket stands, if it
// is not at databaseSocket. Both files are root's. Neither an argument nor the environment moves them.
const (
	registryPath = posix.RegistryPath
	databasePath = "/etc/bourn/database-socket"
)

// databaseSocket is the socket of the PostgreSQL that bourn-db.service runs.
const databaseSocket = posix.DatabaseSocketDir + "/.s.PGSQL.5432"

// maxDatabase bounds the second one, in bytes.
const maxDatabase = 256

// An order is what a request comes to: everything that is needed to carry it out, all of it from the
// registry or from constants.
type order struct {
	posix.Request
	uid, gid uint32
	groups   []uint32 // supplementary
	home     string
	// shield is the real and saved uid of the verbs that kill. Whoever has uid alone cannot
	// signal a process with these; a process with them can signal whoever has uid.
	shield uint32
	// service is the uid of the control plane.
	service uint32
}

// judge decides about a request. It touches nothing. ruid is the real uid of the caller.
func judge(r posix.Request, registry posix.Registry, ruid uint32) (order, error) {
	if ruid != 0 && ruid != registry.Service {
		return order{}, refuse(posix.PermissionDenied, "uid %d may not ask: only root and the service may", ruid)
	}
	e, err := find(r, registry)
	if err != nil {
		return order{}, err
	}
	o := order{Request: r, uid: e.UID, gid: e.GID, home: registry.Home(e), service: registry.Service, shield: registry.Range.HelperShield()}
	switch r.Verb {
	case posix.VerbActor, posix.VerbDial:
		o.groups = e.Groups
	case posix.VerbKill, posix.VerbRevoke:
		// Ending processes takes no group.
	}
	return o, o.check()
}

// find returns the entry of whom the request is about. Who may not act any more can still be stopped.
func find(r posix.Request, registry posix.Registry) (posix.Entry, error) {
	switch r.Verb {
	case posix.VerbKill, posix.VerbRevoke:
		if i := slices.IndexFunc(registry.People, func(e posix.Entry) bool { return e.Name == r.Person }); i >= 0 {
			return registry.People[i], nil
		}
	case posix.VerbActor, posix.VerbDial:
	}
	return registry.Lookup(r.Person)
}

// check is the last look at the numbers, whatever the registry's own check lets through.
func (o order) check() error {
	bad := func(n uint32) bool { return n == 0 || n > math.MaxInt32 }
	if bad(o.uid) || bad(o.gid) || bad(o.shield) || slices.ContainsFunc(o.groups, bad) ||
		o.uid == o.service || o.shield == o.service || o.shield == o.uid {
		return refuse(posix.RuntimeUnavailable, "cannot use the registry: the numbers of %q are not a person's", o.Person)
	}
	return nil
}

// ids returns the real, effective and saved uid that the order is carried out with.
func (o order) ids() (ruid, euid, suid uint32) {
	if o.kills() {
		return o.shield, o.uid, o.shield
	}
	return o.uid, o.uid, o.uid
}

func (o order) kills() bool { return o.Verb == posix.VerbKill || o.Verb == posix.VerbRevoke }

// argv returns what bourn is executed with.
func (o order) argv() []string {
	argv := []string{"bourn", "person-actor"}
	if o.Agent != "" {
		argv = append(argv, "--agent", string(o.Agent))
	}
	return argv
}

// environment returns what bourn is executed in.
func (o order) environment(shell string) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"LANG=C.UTF-8",
		"HOME=" + o.home,
		"USER=" + o.Person,
		"LOGNAME=" + o.Person,
		"SHELL=" + shell,
		"BOURN_HOME=" + o.home + "/.bourn",
	}
}

// refuse returns a refusal with a reason.
func refuse(reason posix.Reason, format string, args ...any) error {
	return &posix.Refusal{Reason: reason, Text: bourn.Printable(fmt.Sprintf(format, args...))}
}
