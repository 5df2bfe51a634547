package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"bourn"
	"bourn/internal/posix"
	"bourn/internal/store"
)

// Where the database is administered, and nowhere else, the roles of agents follow the registry
// of people:
//
//	registry ──(looked at four times a second)──▶ bc_m_* log in or do not ──▶ backends of those who do not end
//
// Nobody can be told by the control plane, which administers nothing.

// Pauses of a role keeper.
const (
	rolesEvery = 250 * time.Millisecond
	rolesMend  = time.Minute // what a role has done with itself is put right so often
	rolesAfter = 4           // ends connections so often after a change: one may have been on its way in
)

// A RoleKeeper makes the roles of agents as the registry of people has them.
type RoleKeeper struct {
	// Registry is its path; "" is the host's.
	Registry string
	// Admin is what the database's administrator connects by to the database postgres.
	Admin string
	// Say is told of changes and of what is wrong.
	Say func(format string, args ...any)

	seen  seen
	bad   string // why the registry cannot be used, as it was said
	after int
	last  time.Time
}

// Keep follows the registry until ctx ends.
func (k *RoleKeeper) Keep(ctx context.Context) {
	every(ctx, rolesEvery, func() {
		if err := k.Look(ctx, false); err != nil && ctx.Err() == nil {
			k.Say("%v", err)
			k.last = time.Time{} // again
		}
	})
}

// Look makes the roles where the registry is another than it was, or anyway. Without a registry
// there is nobody; one that cannot be used lets nobody in, and is no error: the control plane
// works on without it.
func (k *RoleKeeper) Look(ctx context.Context, anyway bool) error {
	path := k.Registry
	if path == "" {
		path = posix.RegistryPath
	}
	info, err := os.Stat(path)
	same := err == nil && k.seen.still(info) || errors.Is(err, fs.ErrNotExist) && k.seen.info == nil && !k.last.IsZero()
	if same && k.after == 0 && time.Since(k.last) < rolesMend && !anyway {
		return nil
	}
	active, why := []string{}, ""
	k.seen = seen{}
	if !errors.Is(err, fs.ErrNotExist) {
		var r posix.Registry
		if err == nil {
			k.seen = seen{info: info, stamp: stampOf(info), at: time.Now()}
			r, err = posix.LoadRegistry(path)
		}
		if err == nil {
			active, err = rolesOf(r)
		}
		if err != nil {
			active, why = []string{}, err.Error()
		}
	}
	if why != k.bad {
		if k.bad = why; why != "" {
			k.Say("the registry of people cannot be used, so no agent queries the database: %s; bourn people sync mends it", why)
		}
	}
	done, err := store.AgentRoles(ctx, k.Admin, store.AgentRoleWish{Active: active, Only: true})
	if err != nil {
		return err
	}
	k.last, k.after = time.Now(), max(0, k.after-1)
	if len(done) > 0 {
		k.after = rolesAfter
	}
	for _, d := range done {
		k.Say("role %s %s", d.Role, d.What)
	}
	return nil
}

// rolesOf returns the roles of the registry's people who are members and may act.
func rolesOf(r posix.Registry) ([]string, error) {
	roles := []string{}
	for _, p := range r.People {
		if p.Member == "" {
			continue
		}
		if _, err := r.Lookup(p.Name); err != nil {
			if refusal := new(posix.Refusal); errors.As(err, &refusal) {
				continue // they may not act
			}
			return nil, err
		}
		role, err := store.AgentRole(p.Name)
		if err != nil {
			return nil, err
		}
		roles = append(roles, role)
	}
	return roles, nil
}

// MigratedRoles returns which roles of agents a server that others run is to have for this host:
// those of the registry's people or, where the host is one person's, those of the members that
// the database knows.
func MigratedRoles(ctx context.Context, admin func(database string) string) (wish store.AgentRoleWish, err error) {
	if _, err = os.Stat(posix.RegistryPath); errors.Is(err, fs.ErrNotExist) {
		wish.Active, wish.Gone, err = store.MemberRoles(ctx, admin(store.RecordsDatabase))
		return wish, err
	}
	r, err := posix.LoadRegistry(posix.RegistryPath)
	if err != nil {
		return wish, bourn.WithHint(fmt.Errorf("cannot tell whose agents are to have roles: %w", err), "run: bourn people sync")
	}
	if wish.Active, err = rolesOf(r); err != nil {
		return wish, err
	}
	for _, p := range r.People {
		if role, err := store.AgentRole(p.Name); err == nil {
			wish.Gone = append(wish.Gone, role) // whoever is active stays
		}
	}
	return wish, nil
}
