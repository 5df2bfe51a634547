package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/storetest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// TestAgentRoles: roles are made, enabled, disabled and mended; what is so already is left.
func TestAgentRoles(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *storetest.Database) {
		admin := db.ServerURL("postgres", "postgres")
		do := func(wish store.AgentRoleWish, want ...string) {
			t.Helper()
			done, err := store.AgentRoles(t.Context(), admin, wish)
			if err != nil {
				t.Fatal(err)
			}
			var got, others []string
			for _, d := range done {
				if strings.HasPrefix(d.Role, "bc_m_role") {
					got = append(got, d.Role+" "+d.What)
				} else {
					others = append(others, d.Role) // of other tests on the same server
				}
			}
			if _, err := store.AgentRoles(t.Context(), admin, store.AgentRoleWish{Active: others}); err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", wish, diff)
			}
		}
		one, two := "bc_m_role1", "bc_m_role2"
		do(store.AgentRoleWish{Active: []string{one, two}}, one+" made", two+" made")
		do(store.AgentRoleWish{Active: []string{one, two}})
		conn := db.Connect(t, one, "records")
		for _, sql := range []string{"create role other", "alter role bc_m_role1 connection limit 100", "alter role bc_m_role1 set track_activities = on", "set track_activities = on",
			"alter role bc_m_role2 password 'x'", "alter role bc_m_role1 nologin", "grant bc_m_role1 to bc_m_role2", "create database x", "set role bourn_app", "create temp table x ()"} {
			if _, err := conn.Exec(t.Context(), sql); err == nil {
				t.Errorf("the role may %s", sql)
			}
		}
		// What a role may do with itself PostgreSQL does not let one take away: it is mended.
		for _, sql := range []string{"alter role bc_m_role1 password 'x'", "alter role bc_m_role1 set search_path = pg_temp"} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
			do(store.AgentRoleWish{Active: []string{one, two}}, one+" mended")
			do(store.AgentRoleWish{Active: []string{one, two}})
		}
		db.Admin(t, "records", "grant pg_read_all_data to bc_m_role2", "alter role bc_m_role2 bypassrls", "alter role bc_m_role2 in database postgres set work_mem = '64kB'")
		do(store.AgentRoleWish{Active: []string{two}}, two+" mended")
		do(store.AgentRoleWish{Active: []string{two}})
		// Who is gone is out, also in the middle of something, and comes in no more.
		do(store.AgentRoleWish{Gone: []string{one}}, one+" disabled")
		do(store.AgentRoleWish{Gone: []string{one}})
		if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
			t.Error("a connection of one that is gone goes on")
		}
		if c, err := pgx.Connect(t.Context(), db.URL(one, "records")); err == nil {
			t.Error("one that is gone comes in")
			_ = c.Close(t.Context())
		}
		do(store.AgentRoleWish{Active: []string{one}, Only: true}, one+" enabled", two+" disabled")
		db.Connect(t, one, "records")
		do(store.AgentRoleWish{Only: true}, one+" disabled")
		for _, role := range []string{"bourn_app", "bc_m_", "bc_m_A", "bc_m_a b", "postgres", "bc_m_" + strings.Repeat("a", 21)} {
			if _, err := store.AgentRoles(t.Context(), admin, store.AgentRoleWish{Active: []string{role}}); !errors.Is(err, bourn.ErrInvalid) {
				t.Errorf("%q: %v", role, err)
			}
		}
	})
}

func TestAgentRoleName(t *testing.T) {
	if role, err := store.AgentRole("bc_person_ann1"); err != nil || role != "bc_m_ann1" {
		t.Errorf("%q %v", role, err)
	}
	for _, user := range []string{"", "bc_person_", "bc_person_A", "bc_person_a_b", "root", "bc_m_a", "bc_person_" + strings.Repeat("a", 21)} {
		if role, err := store.AgentRole(user); !errors.Is(err, bourn.ErrInvalid) || role != "" {
			t.Errorf("%q is %q: %v", user, role, err)
		}
	}
	a, b := store.NewMemberID(), store.NewMemberID()
	if ra, rb := store.MemberRole(a), store.MemberRole(b); ra == rb || ra != store.MemberRole(a) || len(ra) != 25 {
		t.Error(fmt.Sprint(ra, rb))
	}
}
