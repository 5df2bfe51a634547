package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"bourn"

	"github.com/jackc/pgx/v5"
)

// Agents connect as the role of the person they act for, bc_m_*, which is in bc_person and has
// nothing else. Who has no role that may log in has no SQL, whatever session there is.

// SelfRole is the role of the one person of a private database.
const SelfRole = "bc_m_self"

const (
	rolePrefix = "bc_m_"
	userPrefix = "bc_person_"
)

var roleForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^bc_m_[a-z0-9]{1,20}$`) })

// AgentRole returns the role of a person by the name of their user, as pg_ident.conf maps it.
func AgentRole(user string) (string, error) {
	short, is := strings.CutPrefix(user, userPrefix)
	if role := rolePrefix + short; is && roleForm().MatchString(role) {
		return role, nil
	}
	return "", fmt.Errorf("%w: %q is no user of a person", bourn.ErrInvalid, bourn.Printable(user))
}

// roleConnections is how many connections a role may have at once: of runs, and of the person
// who asks, for whom those leave room.
const roleConnections = 8

// roleSettings are what a role has and, as a superuser alone may set them, cannot change: nobody
// sees what it runs, what its SQL raises is not in the server's log, which has no bound, and
// what its statements spill onto the disk has one.
var roleSettings = []string{"track_activities=off", "log_min_messages=fatal", "temp_file_limit=2GB"}

// MemberRole returns the role of a member who is no person of a shared host, on a server that
// others run: one of its own, as two hosts may share the server.
func MemberRole(member MemberID) string {
	h := sha256.Sum256(member[:])
	return rolePrefix + hex.EncodeToString(h[:10])
}

// AgentRoleWish says which roles of agents there are to be.
type AgentRoleWish struct {
	Active []string // log in
	Gone   []string // do not
	Only   bool     // nor does any other
}

// A RoleChange is what was done with a role.
type RoleChange struct {
	Role string
	What string // made, enabled, disabled or mended
}

// AgentRoles makes the roles of agents as they are to be, as a superuser: active ones log
// in and have what each has, those that are gone do not, and their connections end. It changes
// nothing where all is so.
func AgentRoles(ctx context.Context, admin string, wish AgentRoleWish) ([]RoleChange, error) {
	for _, role := range slices.Concat(wish.Active, wish.Gone) {
		if !roleForm().MatchString(role) {
			return nil, fmt.Errorf("%w: %q is no role of an agent's", bourn.ErrInvalid, bourn.Printable(role))
		}
	}
	conn, err := connect(ctx, admin)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var done []RoleChange
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_catalog.pg_advisory_xact_lock(7720, 3)"); err != nil {
			return err
		}
		has, err := agentRoles(ctx, tx)
		if err != nil {
			return err
		}
		done, err = changeRoles(ctx, tx, has, wish)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the roles of agents: %w", classify(err))
	}
	// After that: whoever came in before is there to be ended.
	_, err = conn.Exec(ctx, `select pg_catalog.pg_terminate_backend(a.pid) from pg_catalog.pg_stat_activity a
		join pg_catalog.pg_roles r on r.oid = a.usesysid where r.rolname like 'bc\_m\_%' and not r.rolcanlogin`)
	if err != nil {
		return done, fmt.Errorf("cannot end connections of agents: %w", classify(err))
	}
	return done, nil
}

// An agentRole is a role as it is.
type agentRole struct {
	login, odd bool
	in         []string // the roles that it is in
	elsewhere  []string // databases that it has settings of its own for
}

// agentRoles returns the roles of agents that there are. A role may change its own password and
// settings: what it left is odd.
func agentRoles(ctx context.Context, tx pgx.Tx) (map[string]agentRole, error) {
	rows, err := tx.Query(ctx, `select r.rolname, r.rolcanlogin,
			r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication or not r.rolinherit
				or r.rolconnlimit <> $1 or r.rolpassword is not null
				or (select s.setconfig from pg_catalog.pg_db_role_setting s where s.setrole = r.oid and s.setdatabase = 0) is distinct from $2,
			array(select m.roleid::regrole::text from pg_catalog.pg_auth_members m where m.member = r.oid order by 1),
			array(select d.datname::text from pg_catalog.pg_db_role_setting s join pg_catalog.pg_database d on d.oid = s.setdatabase where s.setrole = r.oid)
		from pg_catalog.pg_authid r where r.rolname like 'bc\_m\_%'`, roleConnections, roleSettings)
	if err != nil {
		return nil, err
	}
	all := map[string]agentRole{}
	var name string
	var r agentRole
	_, err = pgx.ForEachRow(rows, []any{&name, &r.login, &r.odd, &r.in, &r.elsewhere}, func() error {
		all[name] = r
		r = agentRole{}
		return nil
	})
	return all, err
}

// changeRoles does what is to be done.
func changeRoles(ctx context.Context, tx pgx.Tx, has map[string]agentRole, wish AgentRoleWish) ([]RoleChange, error) {
	var done []RoleChange
	run := func(role, what string, statements ...string) error {
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
		}
		if what != "" {
			done = append(done, RoleChange{role, what})
		}
		return nil
	}
	for _, role := range wish.Active {
		r, there := has[role]
		sane := there && !r.odd && len(r.elsewhere) == 0 && slices.Equal(r.in, []string{"bc_person"})
		if there && r.login && sane {
			continue
		}
		name, what := pgx.Identifier{role}.Sanitize(), "mended"
		var all []string
		switch {
		case !there:
			what, all = "made", append(all, "create role "+name)
		case sane:
			what = "enabled"
		}
		for _, other := range r.in { // regrole's text is quoted where it must be
			all = append(all, "revoke "+other+" from "+name)
		}
		for _, db := range r.elsewhere {
			all = append(all, "alter role "+name+" in database "+pgx.Identifier{db}.Sanitize()+" reset all")
		}
		all = append(all,
			fmt.Sprintf("alter role %s login nosuperuser nobypassrls nocreaterole nocreatedb noreplication inherit connection limit %d password null", name, roleConnections),
			"alter role "+name+" reset all", "grant bc_person to "+name)
		for _, setting := range roleSettings {
			key, value, _ := strings.Cut(setting, "=")
			all = append(all, "alter role "+name+" set "+key+" = '"+value+"'")
		}
		if err := run(role, what, all...); err != nil {
			return nil, err
		}
	}
	wanted := map[string]bool{}
	for _, role := range wish.Active {
		wanted[role] = true
	}
	for role, r := range has {
		if r.login && !wanted[role] && (wish.Only || slices.Contains(wish.Gone, role)) {
			if err := run(role, "disabled", "alter role "+pgx.Identifier{role}.Sanitize()+" nologin"); err != nil {
				return nil, err
			}
		}
	}
	return done, nil
}

// MemberRoles returns the roles of the members that a database of records knows, as its
// administrator: of those who are there, and of those who were removed.
func MemberRoles(ctx context.Context, admin string) (active, gone []string, err error) {
	conn, err := connect(ctx, admin)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "select id, removed_at is not null from auth.members order by created_at, id")
	if err != nil {
		return nil, nil, classify(err)
	}
	var id MemberID
	var removed bool
	_, err = pgx.ForEachRow(rows, []any{&id, &removed}, func() error {
		if role := MemberRole(id); removed {
			gone = append(gone, role)
		} else {
			active = append(active, role)
		}
		return nil
	})
	return active, gone, classify(err)
}
