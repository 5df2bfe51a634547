package posix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bourn"
)

// performed is the registry once a state is made true on a host without anything.
func performed(t testing.TB, s State) Registry {
	t.Helper()
	p := newPlanner(s, Host{Workspace: DefaultWorkspace})
	if !p.check() {
		t.Fatal(p.problems)
	}
	r := p.registry()
	if _, err := r.Encode(); err != nil {
		t.Fatal(err)
	}
	return r
}

// What is not given is not noted as revoked, so that nobody makes the registry larger than can be read.
func TestRevokeNotesNothing(t *testing.T) {
	s := company(t)
	r := performed(t, s)
	bob, ops, eve := s.People[1].User(), s.Circles[1].Group(), s.People[2].User()
	for _, v := range []Revocation{{bob, ops}, {eve, ""}, {eve, ops}} {
		got, err := r.Revoke(v)
		if err != nil || len(got.Revoked) != 0 {
			t.Errorf("%v: %v, %v", v, got.Revoked, err)
		}
	}
	v := Revocation{bob, s.Circles[0].Group()}
	for range 2 {
		var err error
		if r, err = r.Revoke(v); err != nil || !slices.Equal(r.Revoked, []Revocation{v}) {
			t.Errorf("%v, %v", r.Revoked, err)
		}
	}
}

// Who is forgotten is nobody whom anybody can become, and what they run can still be ended.
func TestForgottenStayKnown(t *testing.T) {
	s := company(t)
	eve := s.People[2]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Forget("eve"))
	r := performed(t, s)
	if _, err := r.Lookup(eve.User()); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Error(err)
	}
	i := slices.IndexFunc(r.People, func(e Entry) bool { return e.Name == eve.User() })
	if i < 0 || r.People[i].UID != eve.UID || r.People[i].Member != "" || r.People[i].Active {
		t.Errorf("%d of %+v", i, r.People)
	}
}

// The registry that everybody of the default range fits in can be read, a larger one is not written.
func TestRegistrySize(t *testing.T) {
	r := Registry{Version: 1, Range: DefaultRange, Workspace: DefaultWorkspace, Service: 66000, Shared: 66001}
	entry := func(i int, groups []uint32) Entry {
		id := fmt.Sprintf("person-%d", i)
		uid := DefaultRange.people().First + uint32(i)
		return Entry{ID: id, Member: fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i), Name: personPrefix + digest(id)[:minShort], UID: uid, GID: uid, Groups: groups, Active: true}
	}
	const circles = 40
	groups := []uint32{66001}
	for i := range circles {
		gid := DefaultRange.Last - circles + 1 + uint32(i)
		id := fmt.Sprintf("circle-%d", i)
		r.Circles = append(r.Circles, CircleEntry{id, circlePrefix + digest(id)[:minShort], gid})
		groups = append(groups, gid)
	}
	for i := range int(DefaultRange.Last-DefaultRange.people().First) + 1 - circles {
		r.People = append(r.People, entry(i, groups[:4]))
	}
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseRegistry(data); err != nil {
		t.Error(err)
	}
	t.Logf("%d people: %d bytes", len(r.People), len(data))
	for i := range r.People {
		r.People[i].Groups = groups
	}
	if _, err := r.Encode(); bourn.CodeOf(err) != bourn.CodeInvalid || !strings.Contains(err.Error(), "bytes") {
		t.Error(err)
	}
	if _, err := ParseRegistry(append(data, slices.Repeat([]byte{' '}, MaxRegistry)...)); bourn.CodeOf(err) != bourn.CodeInvalid {
		t.Error(err)
	}
}

// The numbers that end processes are no account's.
func TestNobodysNumbers(t *testing.T) {
	s := company(t)
	r := performed(t, s)
	for _, n := range []uint32{s.Range.shield(), s.Range.HelperShield()} {
		h := Host{Workspace: DefaultWorkspace, Users: []User{{Name: serviceUser, UID: n, GID: n}}, Groups: []Group{{Name: serviceUser, GID: n}}}
		if _, problems := Plan(s, h); !slices.ContainsFunc(problems, func(p Problem) bool { return p.Blocks && p.Subject == serviceUser }) {
			t.Errorf("the service may be %d: %v", n, problems)
		}
		r.Service = n
		if _, err := r.Encode(); bourn.CodeOf(err) != bourn.CodeInvalid {
			t.Errorf("%d: %v", n, err)
		}
		r.Service = 66000
	}
	if s.Range.shield() == s.Range.HelperShield() || s.Range.people().contains(s.Range.HelperShield()) {
		t.Error("the numbers are not apart")
	}
}
